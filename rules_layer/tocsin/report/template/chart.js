// Charts of uPlot. Those over steps share the axis, its zoom and its cursor.
const charts = [];
const COUNTS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((k) => k * 10 ** power)).flat();
const MINUTES = [1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 720, 1440, 2880, 7200, 14400];
const pending = [];
let whole, marks; // first and last step; the steps at which rules fired first
let shown = null; // the steps that are zoomed to

const font = (dot) => `${12 * dot}px system-ui, DejaVu Sans, sans-serif`;
const later = (draw) => pending.push(new Promise((done) => setTimeout(async () => { try { await draw(); } finally { done(); } }))); // each in a task of its own

function zoom(from, to) {
  shown = from === null ? null : [Math.max(whole[0], from), Math.min(whole[1], to)];
  const [min, max] = shown ?? whole;
  for (const one of charts) if (one.overSteps) one.setScale("x", { min, max });
  root.dataset.zoom = shown ? `${min} ${max}` : "";
}

function chart(holder, height, data, series, options = {}) {
  const ink = colour("--soft"), overSteps = !options.apart;
  const steps = overSteps ? { incrs: isClock() ? MINUTES : COUNTS, space: 24 + 7 * at(whole[1], false).length } : {};
  const axis = { stroke: ink, grid: { stroke: faded(ink, 0.18), width: 1 }, ticks: { show: false }, font: font(1) };
  const select = (u) => {
    if (u.select.width <= 4) return;
    if (overSteps) zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  };
  const u = new uPlot({
    width: holder.clientWidth || 640, height, padding: [8, 10, 0, 0], bands: options.bands,
    series: [{}, ...series],
    hooks: { ...options.hooks, setSelect: [select], ready: [(u) => u.over.addEventListener("dblclick", () => zoom(null))] },
    cursor: { sync: overSteps ? { key: "steps", scales: ["x", null] } : undefined, drag: { x: true, y: false, setScale: false }, points: { show: !options.noPoints }, y: !!options.cursorY },
    scales: { x: { time: false, range: (u, low, high) => (overSteps ? shown ?? whole : [low, high]) }, y: options.y ?? {} },
    axes: [
      { ...axis, size: 30, ...steps, values: (u, values) => values.map((x) => (overSteps ? at(x, whole[1] - whole[0] > 2880) : nice(x))), ...options.below },
      { ...axis, size: options.gutter ?? parseInt(variable("--gutter")), values: (u, values) => values.map((v) => (v === null ? "" : nice(v))), ...(options.splits ? { splits: options.splits } : {}), ...options.axis },
    ],
  }, data, holder);
  u.holder = holder;
  u.overSteps = overSteps;
  charts.push(u);
  return u;
}

function remove(u) {
  if (!u) return;
  charts.splice(charts.indexOf(u), 1);
  u.destroy();
}

function drawMarks(u) { // where rules fired first: a dashed line through every chart
  const c = u.ctx, dot = devicePixelRatio;
  c.save();
  c.lineWidth = dot;
  c.setLineDash([3 * dot, 3 * dot]);
  c.strokeStyle = faded(colour("--critical"), 0.75);
  for (const step of marks) {
    const x = Math.round(u.valToPos(step, "x", true));
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
    c.beginPath();
    c.moveTo(x, u.bbox.top);
    c.lineTo(x, u.bbox.top + u.bbox.height);
    c.stroke();
  }
  c.restore();
}

function drawLost(u, items) { // where a loss is not finite: a line at the top, which the curve would leave through
  clipped(u, (c, dot) => items.forEach((item) => item.y.forEach((value, at) => {
    if (value !== null) return;
    const from = u.valToPos(item.x[at], "x", true), to = u.valToPos(item.x[at + 1] ?? whole[1], "x", true);
    c.fillStyle = colour("--critical");
    c.fillRect(from, u.bbox.top, Math.max(2 * dot, to - from), 4 * dot);
  })));
}

const NO_AXIS = { grid: { show: false }, values: (u, splits) => splits.map(() => "") }; // of charts that have rows

function nameRows(u, names, inside) { // in the gutter, or above each row; a longer name is condensed
  const c = u.ctx, dot = devicePixelRatio, high = u.bbox.height / names.length, room = inside ? u.bbox.width : u.bbox.left - 12 * dot;
  c.save();
  c.fillStyle = colour(inside ? "--ink" : "--soft");
  c.font = font(dot);
  c.textBaseline = "middle";
  c.textAlign = inside ? "left" : "right";
  const every = inside ? 1 : Math.ceil((13 * dot) / high);
  c.strokeStyle = colour("--card");
  c.lineWidth = inside ? 4 * dot : 0;
  names.forEach((name, at) => {
    if (at % every) return;
    const place = [inside ? u.bbox.left : u.bbox.left - 8 * dot, u.bbox.top + (inside ? at * high + 8 * dot : (at + 0.5) * high), room];
    if (inside) c.strokeText(name, ...place); // hides the marks behind it
    c.fillText(name, ...place);
  });
  c.restore();
}

const namedBelow = (names) => (isNarrow() && names.length <= 12 ? ` From the top: ${names.join(", ")}.` : ""); // where they have no gutter

function setGutter() { // charts over steps share it: as wide as the longest name
  const c = el("canvas").getContext("2d"), names = [...page.rules.filter((rule) => rule.spans.length).map(ruleName), ...Object.values(page.heats).flatMap((heat) => heat.rows)];
  c.font = font(1);
  root.style.setProperty("--gutter", `${isNarrow() ? 46 : Math.min(300, Math.max(60, ...names.map((name) => c.measureText(name).width + 16)))}px`);
}

function clipped(u, draw) {
  const c = u.ctx;
  c.save();
  c.beginPath();
  c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
  c.clip();
  draw(c, devicePixelRatio);
  c.restore();
}

function limits(values, log, kept = []) { // an exploded step must not flatten everything: the axis is cut, and says so
  if (!values.length) return { range: [0, 1], beyond: "" };
  const q = (p) => values[Math.min(values.length - 1, Math.floor(p * values.length))], most = values.at(-1);
  const top = Math.max(...kept, log ? Math.min(most, q(0.98) * 1e3) : Math.min(most, q(0.5) + 20 * (q(0.95) - q(0.05) || Infinity)));
  const least = log ? Math.min(...kept, Math.max(values[0], q(0.02) / 1e3)) : values[0];
  const pad = log ? 1.3 : (top - least) * 0.05 || Math.abs(top) * 0.1 || 1;
  const range = log ? [least / pad, top * pad] : [least >= 0 ? 0 : least - pad, top + pad];
  return { range, beyond: most > top ? `   ↑ beyond the chart: up to ${nice(most)}` : "" };
}

function decades([low, high]) {
  const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high)), by = Math.max(1, Math.ceil((to - from) / 7)), found = [];
  for (let power = from; power <= to; power += by) for (const k of to - from > 3 ? [1] : [1, 2, 5]) found.push(+`${k}e${power}`);
  const inside = found.filter((v) => v >= low && v <= high);
  return inside.length > 1 ? inside : [1, 2, 3].map((k) => +(low + ((high - low) * k) / 4).toPrecision(3));
}

// Several thinned curves on one chart, each with its envelope. An item: x, y, lo, hi, label, colour, dash.
function lines(holder, height, items, options = {}) {
  const log = options.log && items.some((item) => item.y.some((v) => v > 0));
  const xs = [...new Set(items.flatMap((item) => item.x))].sort((a, b) => a - b);
  const data = [xs], series = [], bands = [];
  for (const item of items) {
    const place = new Map(item.x.map((x, at) => [x, at]));
    const column = (key) => xs.map((x) => {
      const value = place.has(x) ? item[key][place.get(x)] : undefined;
      return log && value !== undefined && !(value > 0) ? null : value;
    });
    const few = item.x.length < 60 && !item.plain;
    data.push(column("y"));
    series.push({ label: item.label, stroke: item.colour, width: item.width ?? 1.6, dash: item.dash, points: { show: few, size: 5, fill: item.colour }, spanGaps: false });
    if (item.lo) {
      data.push(column("hi"), column("lo"));
      series.push({ stroke: "transparent" }, { stroke: "transparent" });
      bands.push({ series: [data.length - 2, data.length - 1], fill: faded(item.colour, 0.25) });
    }
  }
  const seen = items.flatMap((item) => [...item.y, ...(item.hi ?? [])]).filter((v) => v !== null && (!log || v > 0)).sort((a, b) => a - b);
  const { range, beyond } = limits(seen, log, (options.kept ?? []).filter((v) => v !== null && (!log || v > 0)));
  const idle = (options.idle ?? "") + beyond, read = options.read;
  if (read) read.textContent = idle;
  const tell = (u) => {
    const step = u.cursor.idx;
    if (!read) return;
    if (step === null || step === undefined) { read.textContent = idle; return; }
    const parts = items.map((item) => {
      const i = item.x.findLastIndex((x) => x <= xs[step]);
      return i < 0 ? "" : `${item.label} ${item.y[i] === null ? "not finite" : nice(item.y[i])}`;
    });
    read.textContent = [options.apart ? nice(xs[step]) : where(xs[step]), ...parts.filter(Boolean)].join("   ");
  };
  return chart(holder, height, data, series, {
    ...options, bands, y: { distr: log ? 3 : 1, range: range },
    splits: log ? () => decades(range) : undefined,
    hooks: { draw: options.apart ? [] : options.lost ? [drawMarks, (u) => drawLost(u, items)] : [drawMarks], setCursor: [tell] },
    axis: log ? { filter: (u, splits) => splits, values: (u, v) => v.map((x) => (Math.abs(Math.log10(x)) < 4 ? nice(x) : x.toExponential(0).replace("+", ""))) } : {},
  });
}

function moveCursor(event) { // arrow keys read a chart
  const u = charts.find((one) => event.currentTarget.contains(one.root));
  if (!u || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
  event.preventDefault();
  const by = (event.key === "ArrowRight" ? 1 : -1) * (event.shiftKey ? 20 : 1);
  const at = Math.min(u.data[0].length - 1, Math.max(0, (u.cursor.idx ?? 0) + by));
  u.setCursor({ left: u.valToPos(u.data[0][at], "x"), top: 20 });
}

// A chart with its read-out and its numbers as a table, which a canvas cannot give to everybody.
function plot(label, read, holder, numbers, items = []) {
  const picture = el("div", { class: "plot", role: "img", tabindex: 0, "aria-label": label, onkeydown: moveCursor }, holder);
  return el("div", {}, read, legend(items), picture, numbers ? asTable(numbers) : "");
}

function legend(items) {
  const key = (ink, text, style) => el("span", {}, el("i", { colour: ink, class: style }), text);
  const lost = items.some((item) => item.kind === "loss" && item.y.includes(null));
  return items.length ? el("div", { class: "legend" }, ...items.map((item) => key(item.ink, item.label, item.dash ? "thin dashed" : "thin")), lost ? key("--critical", "not finite") : "") : "";
}

const MOST_ROWS = 25;
function asTable(numbers) { // numbers(): headings and rows
  const box = el("div");
  const fill = () => {
    const [headings, rows] = numbers(), by = Math.max(1, Math.ceil(rows.length / MOST_ROWS));
    box.replaceChildren(table(headings, rows.filter((_, at) => at % by === 0 || at === rows.length - 1)));
  };
  return el("details", { ontoggle: (event) => event.currentTarget.open && !box.hasChildNodes() && fill() }, el("summary", {}, "show as a table"), box);
}

const curveRows = (items) => () => [
  [unit(), "curve", "value", "least", "greatest"],
  items.flatMap((item) => item.x.map((x, i) => [at(x), item.label, item.y[i] === null ? "not finite" : nice(item.y[i]), nice(item.lo?.[i]), nice(item.hi?.[i])])),
];
