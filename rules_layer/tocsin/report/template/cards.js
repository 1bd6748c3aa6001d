// The rules that fired.
const OPEN = 5; // cards; more are folded
function cards() {
  const fired = withStatus("IssuesFound"), leads = fired.filter((rule) => !rule.explained_by);
  const folded = (id, text, rules, shown) => (rules.length ? fold(id, `${text}: ${rules.map(ruleName).join(", ")}`, ...rules.flatMap(shown)) : "");
  const explained = (lead) => fired.filter((rule) => rule.explained_by === ruleName(lead));
  const story = (lead) => [card(lead), folded(`by-${ruleName(lead)}`, `${ruleName(lead)} explains ${explained(lead).length} more`, explained(lead), card)];
  return fired.length ? section("fired", "Rules that fired", null, ...leads.slice(0, OPEN).flatMap(story), folded("later", `${leads.length - OPEN} more fired`, leads.slice(OPEN), story)) : "";
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
  const above = rule === leading(); // whose texts begin the page
  return el("article", { class: "card", id: `rule-${ruleName(rule)}` },
    el("header", {}, statusChip(rule.RuleEvaluationStatus), el("h3", {}, `${rule.likely ? "Likely cause: " : ""}${ruleName(rule)}`), el("span", { class: "none" }, `first at ${where(first?.step)} · ${nice(rule.Violations)} of ${nice(rule.DataPoints)} evaluations`)),
    above ? "" : el("p", {}, rule.StatusDetails),
    el("div", { class: "two" }, picture, el("div", {}, el("dl", { class: "evidence" }, ...facts.flatMap(([name, value]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, nice(value))])), ...(above ? [] : advice(rule)))));
}
