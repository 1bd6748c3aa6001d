// The rules that fired, and the sections of XGBoost.
const OPEN = 5; // cards; more are folded
function cards() {
  const fired = withStatus("IssuesFound"), leads = fired.filter((rule) => !rule.explained_by);
  const named = (rules) => rules.map(ruleName).join(", ");
  const fold = (text, rules, shown) => (rules.length ? el("details", { ontoggle: fitCharts }, el("summary", {}, `${text}: ${named(rules)}`), ...rules.flatMap(shown)) : "");
  const explained = (lead) => fired.filter((rule) => rule.explained_by === ruleName(lead));
  const story = (lead) => [card(lead), fold(`${ruleName(lead)} explains ${explained(lead).length} more`, explained(lead), card)];
  return section("fired", fired.length ? "Rules that fired" : "No rule fired", null, ...leads.slice(0, OPEN).flatMap(story), fold(`${leads.length - OPEN} more fired`, leads.slice(OPEN), story));
}

function card(rule) {
  const first = rule.FirstViolation, then = rule.FiredAt ?? first, series = rule.series;
  const box = el("div"), read = readout();
  const judged = page.losses.find((curve) => curve.name === then?.tensor && curve.mode === then?.mode);
  let picture = el("p", { class: "hint" }, "This rule measures no single number.");
  if (series) {
    const limit = series.limits ? { x: series.x, y: series.limits } : { x: [series.x[0], series.x.at(-1)], y: [series.limit, series.limit] };
    const items = [{ ...series, label: series.label, colour: colour("--one") }, { ...limit, label: "limit", colour: colour("--critical"), dash: [6, 4], width: 1.4, plain: true }];
    later(() => lines(box, 220, items, { log: series.log, kept: limit.y, read, gutter: 56, idle: `${series.label}; ${series.side} the dashed limit it violates the rule` }));
    picture = plot(`${series.label} of ${ruleName(rule)} over ${unit()}s, and its limit`, read, box, curveRows(items));
  } else if (judged) {
    const items = [{ ...judged, label: judged.name, colour: colour("--one") }];
    later(() => lines(box, 220, items, { log: true, read, gutter: 56, idle: `${judged.name}, which the rule judges by several of its saves` }));
    picture = plot(`${judged.name} over ${unit()}s`, read, box, curveRows(items));
  }
  const evidence = { "first violation": at(first?.step), "fired at": at(then?.step), tensor: then?.tensor, worker: page.run.workers.length > 1 ? then?.worker : null, ...then?.evidence };
  const facts = Object.entries(evidence).filter(([, value]) => value !== null && value !== undefined);
  const text = (title, content) => (content ? el("p", {}, el("b", {}, `${title} `), content) : "");
  return el("article", { class: "card", id: `rule-${ruleName(rule)}` },
    el("header", {}, statusChip(rule.RuleEvaluationStatus), el("h3", {}, `${rule.likely ? "Likely cause: " : ""}${ruleName(rule)}`), el("span", { class: "none" }, `first at ${where(first?.step)} · ${nice(rule.Violations)} of ${nice(rule.DataPoints)} evaluations`)),
    el("p", {}, rule.StatusDetails),
    el("div", { class: "two" }, picture, el("div", {}, el("dl", { class: "evidence" }, ...facts.flatMap(([name, value]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, nice(value))])), text("Why it happens.", rule.causes), text("What to try.", rule.advice))));
}

function boosted() {
  const found = page.boosted;
  if (!found) return "";
  const parts = [...found.bars.map(bars), ...found.lines.map(curve)];
  if (found.matrix) parts.push(matrix(found.matrix));
  if (found.scores.length) parts.push(el("div", { class: "panel" }, el("h3", {}, "Scores"), table(["", "precision", "recall", "F1"], found.scores.map((row) => row.map((v, at) => (at ? nice(v) : v))), ["", "n", "n", "n"])));
  return section("boosted", "Boosted trees", `${found.task}, at the last step with labels and predictions`, ...found.missing.map((text) => el("p", { class: "hint" }, text)), el("div", { class: "grid" }, ...parts));
}

function bars({ title, names, series }) {
  const box = el("div"), values = Object.values(series)[0], read = readout();
  const places = names.map((_, at) => at);
  const draw = (u) => clipped(u, (c, dot) => values.forEach((value, at) => {
    if (value === null) return;
    const x = u.valToPos(at - 0.4, "x", true), zero = u.valToPos(0, "y", true), y = u.valToPos(value, "y", true);
    c.fillStyle = colour("--one");
    c.fillRect(x, Math.min(y, zero), u.valToPos(at + 0.4, "x", true) - x, Math.max(dot, Math.abs(zero - y)));
  }));
  const by = Math.ceil(names.length / 6), below = { splits: () => places.filter((at) => at % by === 0), values: (u, splits) => splits.map((at) => (names[at].length > 9 ? `${names[at].slice(0, 8)}…` : names[at])) };
  const known = values.filter((v) => v !== null), least = Math.min(0, ...known), most = Math.max(0, ...known) * 1.05 || 1;
  const say = (u) => { const at = u.cursor.idx; read.textContent = at === null || at === undefined ? "" : `${names[at]}: ${nice(values[at])}`; };
  later(() => chart(box, 180, [places, values], [{ stroke: "transparent", points: { show: false } }], { apart: true, noPoints: true, gutter: 56, y: { range: [least, most] }, hooks: { draw: [draw], setCursor: [say] }, below }).setScale("x", { min: -0.6, max: names.length - 0.4 }));
  return el("div", { class: "panel" }, el("h3", {}, title), plot(title, read, box, () => [["", Object.keys(series)[0]], names.map((name, at) => [name, nice(values[at])])]));
}

function curve({ title, x_label, x, series, steps }) {
  const box = el("div"), read = readout();
  const items = Object.entries(series).map(([label, y], at) => ({ label, x, y, ...inked(at), plain: true }));
  later(() => lines(box, 200, items, { apart: !steps, read, gutter: 56, idle: x_label }));
  return el("div", { class: "panel" }, el("h3", {}, title), plot(title, read, box, curveRows(items), items.length > 1 ? items : []));
}

function matrix({ names, counts }) {
  const rows = counts.map((row, at) => [el("b", {}, names[at]), ...row.map(nice)]);
  return el("div", { class: "panel" }, el("h3", {}, "Confusion matrix"), el("p", { class: "hint" }, "Rows are labels, columns predictions."), table(["", ...names], rows, ["", ...names.map(() => "n")]));
}
