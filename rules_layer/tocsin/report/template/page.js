// The page as a whole: render(report.json) draws it, and draws it again.
const leading = () => (["critical", "warning"].includes(page.verdict.level) ? withStatus("IssuesFound")[0] : undefined); // the finding that the verdict is of

function head() {
  const { verdict, run, quality } = page, [fired, idle, failed] = ["IssuesFound", "NotApplicable", "Error"].map((status) => withStatus(status).length);
  const fact = (name, value, small) => el("div", {}, el("dt", {}, name), el("dd", {}, value, small ? el("small", {}, small) : ""));
  const broken = quality.lost + quality.refused + quality.late + quality.missing_workers + quality.unreadable;
  const left = run.planned && run.steps.last !== null ? Math.max(0, 1 - (run.steps.last + 1) / run.planned) : null;
  const saved = left && fired && run.state !== "running", range = run.steps.first === run.steps.last ? where(run.steps.first) : `${at(run.steps.first)} … ${at(run.steps.last)}`;
  const sent = [...new Set(page.alerts.map((alert) => alert.action))].join(", ");
  return el("header", {},
    el("div", { class: "job" }, chip(LEVELS[verdict.level]), `  ${run.job} · ${run.url} · ${run.state}`),
    el("h1", {}, verdict.sentence), el("p", { class: "lead" }, verdict.detail), leading() ? el("div", { class: "two advice" }, ...advice(leading())) : "",
    el("dl", { class: "facts" },
      fact(`${unit()}s judged`, nice(run.steps.evaluated), run.steps.evaluated ? `${range}${run.planned ? `; ${nice(run.planned)} planned` : ""}` : "none is complete"),
      fact("rules fired", `${fired} of ${page.rules.length}`, `${idle} not applicable${failed ? `, ${failed} in error` : ""}`),
      saved ? fact("saved", `${Math.round(left * 100)} %`, "of the planned steps") : "",
      page.alerts.length ? fact("notified", plural(page.alerts.length, "action"), sent) : "",
      fact("data", broken ? "has gaps" : quality.files ? "complete" : "none", `${plural(quality.files, "file")}${quality.interval === null ? "" : quality.interval === 1 ? `, every ${unit()}` : `, every ${nice(quality.interval)} ${unit()}s`}`)),
    page.missing.length ? el("div", { class: "missing", role: "note", "aria-label": "What is missing" }, ...page.missing.map((text) => el("p", {}, text))) : "");
}

function rules() {
  const box = el("div"), parameters = (rule) => Object.entries(rule.Parameters).filter(([, value]) => value !== null && String(value)).map(([name, value]) => `${name}=${nice(value)}`).join(" ");
  const name = (rule) => (rule.RuleEvaluationStatus === "IssuesFound" ? el("a", { href: `#rule-${encodeURIComponent(ruleName(rule))}` }, ruleName(rule)) : el("b", {}, ruleName(rule)));
  const about = (rule) => (rule.RuleEvaluationStatus === "IssuesFound" ? "" : rule.StatusDetails || (rule.summary ? `Fires when: ${rule.summary.replace(/^[A-Z](?![A-Z])/, (letter) => letter.toLowerCase())}` : ""));
  const row = (rule) => [statusChip(rule.RuleEvaluationStatus), [name(rule), el("div", { class: "hint" }, about(rule))], at(rule.FirstViolation?.step), `${nice(rule.Violations)} / ${nice(rule.DataPoints)}`, el("code", {}, parameters(rule))];
  const list = (rules) => table(["status", "rule", "first at", "violations / judged", "parameters"], rules.map(row), ["", "", "n", "n wide", "wide"]);
  const folded = (id, title, status) => { const some = withStatus(status); return some.length ? fold(id, `${title} (${some.length})`, list(some)) : ""; };
  const found = withStatus("IssuesFound", "Error", "Stopped");
  const all = () => [found.length ? list(found) : "", folded("clean", "No issues found", "NoIssuesFound"), folded("so-far", "No issues so far", "InProgress"), folded("idle", "Not applicable to this run", "NotApplicable")];
  const search = (text) => box.replaceChildren(...(text ? [list(page.rules.filter((rule) => `${ruleName(rule)} ${rule.StatusDetails} ${rule.summary}`.toLowerCase().includes(text)))] : all()));
  search("");
  return section("rules", "All rules", null, el("div", { class: "bar" }, el("input", { type: "search", placeholder: "find a rule", "aria-label": "find a rule", oninput: (event) => search(event.target.value.toLowerCase()) })), box);
}

function comparison() {
  if (!page.others.length) return "";
  const runs = [page, ...page.others], box = el("div"), read = readout();
  const items = runs.flatMap((one, at) => drawn(one, "loss").map((curve, _, own) => ({ ...curve, lo: undefined, hi: undefined, label: `${one.run.job} ${curve.label}`, ...inked(at), dash: dashed(curve, own) })));
  if (items.length) later(() => lines(box, 230, items, { log: true, lost: true, read, idle: "losses of all runs" }));
  const status = (one, name) => one.rules.find((rule) => ruleName(rule) === name)?.RuleEvaluationStatus;
  const names = [...new Set(runs.flatMap((one) => one.rules.map(ruleName)))];
  const differ = names.filter((name) => new Set(runs.map((one) => status(one, name))).size > 1);
  const rows = differ.map((name) => [name, ...runs.map((one) => (status(one, name) ? statusChip(status(one, name)) : "–"))]);
  const verdicts = runs.map((one) => el("p", {}, chip(LEVELS[one.verdict.level]), " ", el("b", {}, one.run.job), ` ${one.verdict.sentence}`));
  return section("compare", `Compared with ${page.others.map((one) => one.run.job).join(", ")}`, `${differ.length} of ${names.length} verdicts differ.`, ...verdicts,
    items.length ? el("div", { class: "panel" }, plot("Losses of all runs over steps", read, box, curveRows(items), items)) : "", rows.length ? table(["rule", ...runs.map((one) => one.run.job)], rows) : "");
}

function quality() {
  const { run, quality: q } = page, mark = (value, bad) => (bad ? el("span", { class: "warning" }, `▲ ${nice(value)}`) : nice(value));
  const rows = [
    ["workers", nice(run.workers)], ["tensors", nice(run.tensors)], [`${unit()}s with data`, nice(q.steps)], [`save interval (median), ${unit()}s`, nice(q.interval)], ["index files", nice(q.files)],
    [`${unit()}s lost`, mark(q.lost, q.lost)], ["late files", mark(q.late, q.late)], ["files refused", mark(q.refused, q.refused)], ["tensors that could not be read", mark(q.unreadable, q.unreadable)], ["missing workers", mark(q.missing_workers, q.missing_workers)],
    ["first save", utc(run.began ?? "–")], ["last save", utc(run.ended ?? "–")], ["start of the job", nice(run.run_id)], ...(q.thinned ? [["left out of the pictures", q.thinned]] : []), ...q.problems.map(([what, why]) => [what, mark(why, true)]),
  ];
  return section("quality", "Data quality and capture", "The data behind the verdicts.", el("dl", { class: "facts" }, ...rows.map(([what, value]) => el("div", {}, el("dt", {}, what), el("dd", {}, value)))));
}

function navigation() {
  const theme = el("button", { type: "button", title: "light / dark", "aria-label": "light / dark", onclick: () => {
    const now = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    render(page);
  } }, "◐");
  const links = [...document.querySelectorAll("main > section")].map((one) => el("a", { href: `#${one.id}` }, one.id === "boosted" ? "trees" : one.id === "quality" ? "data" : one.id));
  document.querySelector("nav").replaceChildren(el("div", {}, el("b", {}, "Tocsin"), ...links, theme));
}

function render(data) {
  page = data;
  for (const u of charts.splice(0)) u.destroy();
  const open = [...document.querySelectorAll("details[open]")].map(({ id }) => id); // they stay so
  const { first, last } = page.run.steps;
  whole = first === null ? [0, 1] : first === last ? [first, last + 1] : [first, last];
  marks = [...new Set(withStatus("IssuesFound").map((rule) => rule.FirstViolation?.step).filter((step) => step !== undefined))].sort((a, b) => a - b);
  setGutter();
  const footer = el("footer", {}, `Made by Tocsin ${page.tocsin} at ${utc(page.made)}. Times are UTC. ${document.querySelector("main").dataset.live ? "" : "This file needs no network."}`);
  document.querySelector("main").replaceChildren(...[head(), timeline(), cards(), comparison(), page.machine ? machine() : "", page.step_trace ? stepTrace() : "", network(), page.boosted ? boosted() : "", rules(), quality(), footer].filter(Boolean));
  navigation();
  for (const id of open.filter(Boolean)) document.getElementById(id)?.setAttribute("open", "");
  Promise.all(pending.splice(0)).then(() => requestAnimationFrame(() => requestAnimationFrame(() => { performance.mark("drawn"); root.dataset.drawn = charts.length; })));
}

function fitCharts() {
  for (const u of charts) if (u.holder.clientWidth) u.setSize({ width: u.holder.clientWidth, height: u.height });
}

async function follow(path, tag = "") { // a server that is asked again draws what is new
  try {
    const answer = await fetch(path, { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
    if (answer.ok) {
      const above = scrollY;
      render(await answer.json());
      scrollTo(0, above);
    }
    tag = answer.headers.get("ETag") ?? tag;
  } catch { /* the server has ended: what was drawn last stays */ }
  setTimeout(() => follow(path, tag), 2000);
}

let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(fitCharts, 150); });
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
render(JSON.parse(document.getElementById("data").textContent));
if (document.querySelector("main").dataset.live) follow(document.querySelector("main").dataset.live);
