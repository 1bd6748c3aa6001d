// The rules that fired.
const OPEN = 5; // cards; more are folded
function cards() {
  const fired = withStatus("IssuesFound"), leads = fired.filter((rule) => !rule.explained_by);
  const folded = (id, text, rules, shown) => (rules.length ? fold(id, `${text}: ${rules.map(ruleName).join(", ")}`, ...rules.flatMap(shown)) : "");
  const explained = (lead) => fired.filter((rule) => rule.explained_by === ruleName(lead));
  const story = (lead) => [card(lead), folded(`by-${ruleName(lead)}`, `${ruleName(lead)} explains ${explained(lead).length} more`, explained(lead), card)];
  return fired.length ? section("fired", "Rules that fired", null, ...leads.slice(0, OPEN).flatMap(story), folded("later", `${leads.length - OPEN} more fired`, leads.slice(OPEN), story)) : "";
}

const titled = (rule, when) => el("header", {}, statusChip(rule.RuleEvaluationStatus), el("h3", {}, `${rule.likely ? "Likely cause: " : ""}${ruleName(rule)}`), el("span", { class: "none" }, when));

function card(rule) {
  const first = rule.FirstViolation, then = rule.FiredAt ?? first, series = rule.series;
  const judged = page.losses.find((curve) => curve.name === then?.tensor && curve.mode === then?.mode);
  let picture = el("p", { class: "hint" }, "This rule measures no single number.");
  const plotted = (items, label, idle, options) => {
    const box = el("div"), read = readout();
    later(() => lines(box, 220, items, { ...options, read, gutter: 56, idle }));
    picture = plot(label, read, box, curveRows(items));
  };
  if (series) {
    const limit = series.limits ? { x: series.x, y: series.limits } : { x: [series.x[0], series.x.at(-1)], y: [series.limit, series.limit] };
    const items = [{ ...series, colour: colour("--one") }, { ...limit, label: "limit", colour: colour("--critical"), dash: [6, 4], width: 1.4, plain: true }];
    plotted(items, `${series.label} of ${ruleName(rule)} over ${unit()}s, and its limit`, `${series.label}; ${series.side} the dashed limit it violates the rule`, { log: series.log, kept: limit.y });
  } else if (judged) plotted([{ ...judged, label: judged.name, colour: colour("--one") }], `${judged.name} over ${unit()}s`, `${judged.name}, which the rule judges by several of its saves`, { log: true });
  const evidence = { "first violation": at(first?.step), "fired at": at(then?.step), tensor: then?.tensor, worker: page.run.workers.length > 1 ? then?.worker : null, ...then?.evidence };
  const facts = Object.entries(evidence).filter(([, value]) => value !== null && value !== undefined);
  const above = rule === leading(); // whose texts begin the page
  const before = withStatus("IssuesFound").find((other) => other.advice === rule.advice); // a text stands once
  const texts = above ? [] : before === rule ? advice(rule) : [told("What to do.", `See ${ruleName(before)}.`)];
  return el("article", { class: "card", id: `rule-${ruleName(rule)}` },
    titled(rule, `first at ${where(first?.step)} · ${nice(rule.Violations)} of ${nice(rule.DataPoints)} evaluations`),
    above ? "" : el("p", {}, rule.StatusDetails),
    el("div", { class: "two" }, picture, el("div", {}, el("dl", { class: "evidence" }, ...facts.flatMap(([name, value]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, nice(value))])), ...texts)));
}
