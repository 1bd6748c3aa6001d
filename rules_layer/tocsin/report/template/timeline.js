// What happened: losses, one lane for each rule, and learning rates, on the same steps.
const COLOURS = ["--one", "--two", "--three", "--four"];
const inked = (at) => ({ ink: COLOURS[at % COLOURS.length], colour: colour(COLOURS[at % COLOURS.length]) });
const LANES = { u: ["--line", 0.9, 0.36], h: ["--ok", 0.35, 0.36], v: ["--warning", 1, 0.8], f: ["--critical", 1, 0.8] };
const LANE = 19, NARROW_LANE = 30; // with the name above it

const drawn = (one, kind) => one.losses.filter((curve) => curve.kind === kind && !curve.repeats);
const styled = (items) => items.map((curve, at) => ({ ...curve, ...inked(at), dash: dashed(curve, items) }));
const dashed = ({ phase }, items) => (phase === "train" && items.some((other) => other.phase === "eval") ? [6, 3] : undefined);
const common = (items, title) => (items.every(({ measure }) => measure === items[0].measure) && !["loss", "learning_rate"].includes(items[0].measure) ? items[0].measure : title);

function timeline() {
  const losses = styled(drawn(page, "loss")), laned = page.rules.filter((rule) => rule.spans.length);
  const read = readout(), lossBox = el("div");
  let u;
  const draw = (log) => {
    remove(u);
    u = lines(lossBox, 230, losses, { log, lost: true, read, idle: "Move over a chart to read it; drag to zoom, double-click to zoom out; arrow keys move the cursor." });
  };
  const log = el("button", { type: "button", "aria-pressed": "true", onclick: () => {
    const on = log.getAttribute("aria-pressed") !== "true";
    log.setAttribute("aria-pressed", on);
    draw(on);
  } }, "log scale");
  const toMarks = el("button", { type: "button", onclick: () => {
    const at = page.verdict.step ?? marks[0], by = page.quality.interval ?? 1;
    zoom(at - 40 * by, at + 20 * by);
  } }, page.verdict.sentence.startsWith("Training broke") ? "zoom to where it broke" : "zoom to the finding");
  const parts = [el("div", { class: "bar" }, losses.length ? log : "", marks.length ? toMarks : "", el("button", { type: "button", onclick: () => zoom(null) }, `all ${unit()}s`))];
  if (losses.length) {
    later(() => draw(true));
    parts.push(el("h3", {}, common(losses, "Loss")), plot(`Losses over steps. ${page.verdict.sentence}`, read, lossBox, curveRows(losses), losses));
  } else if (!page.run.minutes) parts.push(el("p", { class: "hint" }, "No loss was captured."));
  const more = [["Use of the machine, %", "utilization"], ["Seconds per step", "seconds"], ["Metrics", "metric"], ["Learning rate", "learning_rate"]];
  const others = more.map(([title, kind]) => [title, styled(drawn(page, kind))]).filter(([, items]) => items.length).map(([title, items]) => {
    const box = el("div"), reads = readout();
    later(() => lines(box, page.run.minutes ? 180 : 120, items, { read: reads, idle: "", log: title === "Seconds per step" }));
    return el("div", {}, el("h3", { class: "gap" }, common(items, title)), plot(`${title} over ${unit()}s`, reads, box, curveRows(items), items.length > 1 ? items : []));
  });
  if (page.run.minutes) parts.push(...others);
  if (!page.run.minutes) parts.push(...others);
  if (laned.length) {
    const key = (name, text) => el("span", {}, el("i", { colour: name }), text), found = laned.filter((rule) => rule.FirstViolation);
    const clean = laned.filter((rule) => !found.includes(rule));
    const keys = el("div", { class: "legend" }, key("--ok", "healthy"), key("--warning", "violation"), key("--critical", "violation, fires"), key("--line", "not judged yet"));
    if (found.length) parts.push(el("h3", { class: "gap" }, "Rules"), keys, lanes(found));
    if (clean.length) parts.push(fold("clean-lanes", `Rules without a violation (${clean.length})`, found.length ? "" : keys, lanes(clean)));
  }
  const above = page.run.minutes ? "The machine minute by minute" : "Losses", lined = marks.length ? ` Dashed lines: the ${unit()}s at which rules fired first.` : "";
  return section("timeline", "What happened", `${above}, and the verdicts of the rules at the same ${unit()}s.${lined}`, el("div", { class: "panel" }, ...parts), actions());
}

function lanes(rules) {
  const box = el("div"), words = rules.map((rule) => `${ruleName(rule)} ${(STATUSES[rule.RuleEvaluationStatus] ?? [])[1]}${rule.FirstViolation ? ` at ${where(rule.FirstViolation.step)}` : ""}`);
  const draw = (u) => {
    clipped(u, (c, dot) => rules.forEach((rule, at) => {
      const high = u.bbox.height / rules.length, top = u.bbox.top + at * high, named = isNarrow() ? 14 * dot : 0;
      for (const [from, to, kind] of rule.spans) {
        const [name, alpha, share] = LANES[kind], x = u.valToPos(from, "x", true);
        const wide = Math.max(u.valToPos(to === from && to === page.run.steps.last ? whole[1] : to, "x", true) - x, kind === "h" || kind === "u" ? dot : 3 * dot);
        c.fillStyle = faded(colour(name), alpha);
        c.fillRect(x, top + named + ((high - named) * (1 - share)) / 2, wide, (high - named) * share);
      }
    }));
    drawMarks(u);
    nameRows(u, rules.map(ruleName), isNarrow());
  };
  later(() => chart(box, rules.length * (isNarrow() ? NARROW_LANE : LANE) + 40, [[whole[0], whole[1]], [0, rules.length]], [{ stroke: "transparent", points: { show: false } }], {
    noPoints: true, y: { range: [0, rules.length] }, hooks: { draw: [draw] }, axis: NO_AXIS,
  }));
  return el("div", { class: "plot", role: "img", "aria-label": `Rules over steps: ${words.join("; ")}` }, box);
}

function actions() { // whom it was said to, and what was done
  if (!page.alerts.length) return "";
  const rows = page.alerts.map((alert) => [at(alert.step), alert.rule, alert.action, alert.outcome, alert.detail]);
  return fold("actions", `${plural(rows.length, "action")}: who was notified, and what was done`, table([unit(), "rule", "action", "outcome", "detail"], rows, ["n"]));
}
