// What happened: losses, one lane for each rule, and learning rates, on the same steps.
const COLOURS = ["--one", "--two", "--three", "--four"];
const inked = (at) => ({ ink: COLOURS[at % COLOURS.length], colour: colour(COLOURS[at % COLOURS.length]) });
const LANES = { u: ["--line", 0.9, 0.36], h: ["--ok", 0.35, 0.36], v: ["--warning", 1, 0.8], f: ["--critical", 1, 0.8] };
const LANE = 19, NARROW_LANE = 30; // with the name above it

const curves = (kind) => page.losses.filter((curve) => curve.kind === kind).map((curve, at) => ({
  ...curve,
  label: [page.run.minutes ? "" : curve.mode.toLowerCase(), curve.name, page.run.workers.length > 1 ? curve.worker : ""].filter(Boolean).join(" "),
  ...inked(at),
  dash: curve.mode === "EVAL" ? [6, 3] : undefined,
}));

function timeline() {
  const losses = curves("loss");
  const laned = page.rules.filter((rule) => rule.spans.length);
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
  const parts = [el("div", { class: "bar" }, losses.length ? log : "", marks.length ? toMarks : "", el("button", { type: "button", onclick: () => zoom(null) }, "all steps"))];
  if (losses.length) {
    later(() => draw(true));
    parts.push(plot(`Losses over steps. ${page.verdict.sentence}`, read, lossBox, curveRows(losses), losses));
  } else if (!page.run.minutes) parts.push(el("p", { class: "hint" }, "No loss was captured."));
  const more = [["Use of the machine, %", "utilization"], ["Seconds per step", "seconds"], ["Metrics", "metric"], ["Learning rate", "learning_rate"]];
  const others = more.map(([title, kind]) => [title, curves(kind)]).filter(([, items]) => items.length).map(([title, items]) => {
    const box = el("div"), reads = readout();
    later(() => lines(box, page.run.minutes ? 180 : 120, items, { read: reads, idle: "", log: title === "Seconds per step" }));
    return el("div", {}, el("h3", { class: "gap" }, title), plot(`${title} over ${unit()}s`, reads, box, curveRows(items), items));
  });
  if (page.run.minutes) parts.push(...others);
  if (laned.length) {
    const box = el("div"), key = (name, text) => el("span", {}, el("i", { colour: name }), text);
    later(() => lanes(box, laned));
    const words = laned.map((rule) => `${ruleName(rule)} ${(STATUSES[rule.RuleEvaluationStatus] ?? [])[1]}${rule.FirstViolation ? ` at ${where(rule.FirstViolation.step)}` : ""}`);
    parts.push(el("div", { class: "plot", role: "img", "aria-label": `Rules over steps: ${words.join("; ")}` }, box));
    parts.push(el("div", { class: "legend" }, key("--ok", "healthy"), key("--warning", "violation"), key("--critical", "violation, fires"), key("--line", "not judged yet")));
  }
  if (!page.run.minutes) parts.push(...others);
  const above = page.run.minutes ? "The machine minute by minute" : "Losses", dashed = marks.length ? ` Dashed lines: the ${unit()}s at which rules fired first.` : "";
  return section("timeline", "What happened", `${above}, then one lane for each rule on the same ${unit()}s.${dashed}`, el("div", { class: "panel" }, ...parts), actions());
}

function lanes(box, rules) {
  const short = (name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name);
  const draw = (u) => {
    clipped(u, (c, dot) => rules.forEach((rule, at) => {
      const high = u.bbox.height / rules.length, top = u.bbox.top + at * high, named = isNarrow() ? 14 * dot : 0;
      for (const [from, to, kind] of rule.spans) {
        const [name, alpha, share] = LANES[kind], x = u.valToPos(from, "x", true);
        const wide = Math.max(u.valToPos(to === from && to === page.run.steps.last ? whole[1] : to, "x", true) - x, kind === "h" || kind === "u" ? dot : 3 * dot);
        c.fillStyle = faded(colour(name), alpha);
        c.fillRect(x, top + named + ((high - named) * (1 - share)) / 2, wide, (high - named) * share);
      }
      if (!isNarrow()) return;
      c.fillStyle = colour("--ink");
      c.font = `${11 * dot}px sans-serif`;
      c.textBaseline = "middle";
      c.textAlign = "left";
      c.fillText(short(ruleName(rule)), u.bbox.left, top + 8 * dot);
    }));
    drawMarks(u);
  };
  chart(box, rules.length * (isNarrow() ? NARROW_LANE : LANE) + 40, [[whole[0], whole[1]], [0, rules.length]], [{ stroke: "transparent", points: { show: false } }], {
    noPoints: true, y: { range: [0, rules.length] }, splits: () => rules.map((_, at) => at + 0.5), hooks: { draw: [draw] },
    axis: { grid: { show: false }, values: () => rules.map((_, at) => (isNarrow() ? "" : short(ruleName(rules[rules.length - 1 - at])))) },
  });
}

function actions() { // whom it was said to, and what was done
  if (!page.alerts.length) return "";
  const rows = page.alerts.map((alert) => [at(alert.step), alert.rule, alert.action, alert.outcome, alert.detail]);
  return el("details", {}, el("summary", {}, `${rows.length} ${rows.length === 1 ? "action" : "actions"}: who was notified, and what was done`), table([unit(), "rule", "action", "outcome", "detail"], rows, ["n"]));
}
