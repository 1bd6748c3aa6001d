"use strict";
// Elements, numbers, colours and statuses. Text enters the page by textContent alone.
let page; // what is drawn: report.json
const root = document.documentElement;

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "colour") made.style.background = `var(${value})`;
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

function nice(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return [].concat(value).join(", ");
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return value.toLocaleString("en");
  return size >= 1e4 || (value && size < 1e-3) ? value.toExponential(2) : String(+value.toPrecision(4));
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
  critical: ["▲", "training broke", "critical"],
  warning: ["▲", "issues found", "warning"],
  ok: ["✓", "healthy", "ok"],
  none: ["●", "no verdict", "none"],
};
const chip = ([icon, word, style]) => el("span", { class: `chip ${style}` }, `${icon} ${word}`);
const statusChip = (status) => chip(STATUSES[status] ?? ["?", status, "none"]);
const withStatus = (...statuses) => page.rules.filter((rule) => statuses.includes(rule.RuleEvaluationStatus));

const section = (id, title, hint, ...content) =>
  el("section", { id, "aria-label": title }, el("h2", {}, title), hint ? el("p", { class: "hint" }, hint) : "", ...content);

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
