"use strict";
// Elements, numbers, colours and statuses. Text enters the page by textContent alone.
let page; // what is drawn: report.json
const root = document.documentElement;

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "colour") made.style.background = `var(${value})`;
    else if (name === "grow") made.style.flexGrow = value;
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const isNarrow = () => innerWidth <= 640;
const variable = (name) => getComputedStyle(root).getPropertyValue(name).trim();

function colour(name) { // a variable of the style sheet as rgb(): canvases know no light-dark()
  const probe = el("i", { hidden: true });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const faded = (rgb, alpha) => rgb.replace(/^rgba?\(([^)]+)\)$/, (_, numbers) => `rgba(${numbers.split(",").slice(0, 3)}, ${alpha})`);

const CLOCK = 1e8; // minutes of a machine are numbered since 1970; those of a demo are shorter, and counted
const isClock = () => page.run.minutes && page.run.steps.first < CLOCK;
const unit = () => (page.run.minutes ? "minute" : "step");
const utc = (text) => text.replace("T", " ").replace("+00:00", "");

function at(step, day = true) { // a step as text, or the time of a machine's minute
  if (step === null || step === undefined) return "–";
  if (isClock()) return utc(new Date(step * 6e4).toISOString()).slice(day ? 0 : 11, 16);
  return (page.run.minutes ? step - page.run.steps.first + 1 : step).toLocaleString("en");
}
const where = (step) => (isClock() && step !== null ? at(step) : `${unit()} ${at(step)}`);

function nice(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return [].concat(value).join(", ");
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return value.toLocaleString("en");
  return size >= 1e4 || (value && size < 1e-3) ? value.toExponential(2).replace(/\.?0+e/, "e") : String(+value.toPrecision(4));
}

const STATUSES = {
  IssuesFound: ["▲", "issues found", "critical"],
  Error: ["✕", "error", "warning"],
  Stopped: ["■", "stopped", "none"],
  InProgress: ["●", "in progress", "none"],
  NoIssuesFound: ["✓", "no issues", "ok"],
  NotApplicable: ["–", "not applicable", "none"],
};
const LEVELS = {
  critical: ["▲", "critical", "critical"],
  warning: ["▲", "issues found", "warning"],
  ok: ["✓", "healthy", "ok"],
  none: ["●", "no verdict", "none"],
};
const chip = ([icon, word, style]) => el("span", { class: `chip ${style}` }, `${icon} ${word}`);
const statusChip = (status) => chip(STATUSES[status] ?? ["?", status, "none"]);
const ruleName = (rule) => rule.RuleConfigurationName;
const withStatus = (...statuses) => page.rules.filter((rule) => statuses.includes(rule.RuleEvaluationStatus));

const readout = () => el("div", { class: "read", "aria-live": "polite" });
const plural = (count, word) => `${nice(count)} ${word}${count === 1 ? "" : "s"}`;

const section = (id, title, hint, ...content) =>
  el("section", { id, "aria-label": title }, el("h2", {}, title), hint ? el("p", { class: "hint" }, hint) : "", ...content);

const fold = (id, title, ...content) => el("details", { id, ontoggle: fitCharts }, el("summary", {}, title), ...content);
const told = (title, content) => (content ? el("p", {}, el("b", {}, `${title} `), content) : "");
const advice = (rule) => [told("Why it happens.", rule.causes), told("What to do.", rule.advice)];

function table(headings, rows, classes = []) {
  const cell = (tag, content, at) => el(tag, { class: classes[at] ?? null, scope: tag === "th" ? "col" : null }, ...[].concat(content));
  const body = el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((content, at) => cell("td", content, at)))));
  const head = headings.length ? el("thead", {}, el("tr", {}, ...headings.map((text, at) => cell("th", text, at)))) : "";
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "table" }, el("table", {}, head, body));
}

async function unpacked(text) { // base64 of zlib, which the browser inflates by itself
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
