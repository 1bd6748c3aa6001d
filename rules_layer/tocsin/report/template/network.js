// Inside the network: layers over steps, and the distribution of one tensor.
const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const CELLS = new Uint32Array(256); // the colour of each value of a cell; 0, which was not saved, is clear
for (let value = 2; value < 255; value++) {
  const place = ((value - 2) / 252) * 8, from = Math.min(7, Math.floor(place));
  const [r, g, b] = VIRIDIS[from].map((c, at) => Math.round(c + (VIRIDIS[from + 1][at] - c) * (place - from)));
  CELLS[value] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}
CELLS[1] = 0xff000000;
CELLS[255] = 0xff3d2ee6;

function picture(width, height, values) {
  const canvas = el("canvas", { width, height }), pixels = new ImageData(width, height), out = new Uint32Array(pixels.data.buffer);
  for (let at = 0; at < out.length; at++) out[at] = CELLS[values[at]];
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  return canvas;
}

function ramp() {
  const canvas = picture(160, 1, Uint8Array.from({ length: 160 }, (_, at) => 2 + Math.round((at / 159) * 252)));
  canvas.className = "ramp";
  return canvas;
}

const drawImage = (u, image, first, end) => clipped(u, (c) => {
  const from = u.valToPos(first, "x", true), to = u.valToPos(end, "x", true);
  c.imageSmoothingEnabled = false;
  c.drawImage(image, from, u.bbox.top, Math.max(1, to - from), u.bbox.height);
});

function network() {
  const kinds = Object.keys(page.heats), names = Object.keys(page.fans);
  if (!kinds.length && !names.length) return "";
  const fan = fans(names);
  if (page.run.minutes) return section("network", "Distributions", "Of the samples in each minute.", fan.panel);
  return section("network", "Inside the network", "Rows are tensors in the order in which they were captured; a colour is an order of magnitude. A click on a row shows its distribution.", kinds.length ? maps(kinds, fan) : "", names.length ? fan.panel : "");
}

function maps(kinds, fan) {
  const box = el("div"), read = readout(), scale = el("span"), note = el("p", { class: "hint" });
  let u, row = 0, cells;
  const buttons = kinds.map((kind) => el("button", { type: "button", "aria-pressed": "false", onclick: () => show(kind) }, page.heats[kind].title));
  let heat;
  const value = (cell) => cell === 0 ? "not saved" : cell === 1 ? "0" : cell === 255 ? "not finite" : `≈ ${nice(+(10 ** (heat.lo + ((cell - 2) / 252) * (heat.hi - heat.lo))).toPrecision(2))}`;
  const say = (r, c) => {
    const size = heat.rows.length * heat.x.length, at = r * heat.x.length + c, least = cells[at], most = cells[size + at];
    read.textContent = `${heat.rows[r]}   ${where(heat.x[c])}   ${heat.unit} ${value(most)}${least !== most && least ? ` (least ${value(least)})` : ""}`;
  };
  const under = (u) => {
    const r = Math.floor((u.cursor.top / u.over.clientHeight) * heat.rows.length), step = u.posToVal(u.cursor.left, "x");
    const c = heat.x.findLastIndex((x) => x <= step);
    return r >= 0 && r < heat.rows.length && c >= 0 ? [r, c] : null;
  };
  async function show(kind) {
    heat = page.heats[kind];
    const mine = heat, rows = heat.rows.length, columns = heat.x.length;
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", kinds[at] === kind));
    const found = await unpacked(heat.cells);
    if (mine !== heat) return; // another one was chosen meanwhile
    cells = found;
    const image = picture(columns, rows, cells.subarray(rows * columns));
    const size = Math.max(1, Math.min(16, Math.floor(520 / rows)));
    remove(u);
    u = chart(box, rows * size + 40, [[whole[0], whole[1]], [0, rows]], [{ stroke: "transparent", points: { show: false } }], {
      noPoints: true, cursorY: true, y: { range: [0, rows] },
      axis: NO_AXIS,
      hooks: {
        draw: [(u) => {
          drawImage(u, image, heat.x[0], heat.end);
          drawMarks(u);
          if (!isNarrow()) nameRows(u, heat.rows);
        }],
        setCursor: [(u) => { const at = u.cursor.event && u.cursor.left >= 0 && under(u); if (at) say(...at); }],
      },
    });
    u.over.addEventListener("click", () => { const at = under(u); if (at) fan.show(heat.rows[at[0]]); });
    scale.replaceChildren(`1e${heat.lo} `, ramp(), ` 1e${heat.hi}${heat.over ? " and more" : ""}`);
    note.textContent = `${heat.unit}: ${plural(rows, "row")}, ${plural(columns, "column")}. A cell shows the largest value of its steps.${namedBelow(heat.rows)}`;
    read.textContent = "Move over the map to read a cell; arrow keys choose a row, Enter shows its distribution.";
  }
  const keys = (event) => {
    if (event.key === "Enter") fan.show(heat.rows[row]);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") row = Math.min(heat.rows.length - 1, Math.max(0, row + (event.key === "ArrowDown" ? 1 : -1)));
    else return;
    event.preventDefault();
    say(row, heat.x.length - 1);
  };
  later(() => show(kinds[0]));
  const key = (text, at) => { const dot = picture(14, 10, new Uint8Array(140).fill(at)); return el("span", {}, dot, ` ${text}`); };
  return el("div", { class: "panel" }, el("div", { class: "bar" }, ...buttons), el("div", { class: "legend" }, scale, key("not finite", 255), key("zero", 1)), note, read,
    el("div", { class: "plot", id: "map", role: "img", tabindex: 0, "aria-label": "Map of tensors over steps", onkeydown: keys }, el("div", { class: "tall" }, box)));
}

function fans(names) {
  const box = el("div"), read = readout();
  const pick = el("select", { "aria-label": "tensor", onchange: () => show(pick.value) }, ...names.map((name) => el("option", { value: name }, name)));
  let u;
  const rows = () => { const fan = page.fans[pick.value]; return [[unit(), ...fan.q], fan.x.map((x, i) => [at(x), ...fan.v.map((line) => nice(line[i]))])]; };
  const holder = el("div");
  function show(name) {
    if (!page.fans[name]) { read.textContent = `The distribution of ${name} is not in this report.`; return; }
    pick.value = name;
    const fan = page.fans[name], count = fan.v.length, middle = (count - 1) / 2, ink = colour("--one"), bands = [];
    for (let at = 0; at < Math.floor(count / 2); at++) bands.push({ series: [count - at, at + 1], fill: faded(ink, 0.12 + 0.1 * at) });
    const near = [].concat(fan.v[Math.max(0, Math.ceil(middle) - 1)]).filter((v) => v !== null).map(Math.abs).sort((a, b) => a - b);
    const say = (u) => { const i = u.cursor.idx; read.textContent = i === null || i === undefined ? fan.q.join(", ") : `${where(fan.x[i])}   ${fan.q.map((q, k) => `${q} ${nice(fan.v[k][i])}`).join("   ")}`; };
    const apart = (u, splits) => { // zero, then the largest: a label too near to another one is left out
      const taken = [], place = (v) => u.valToPos(v, "y");
      for (const v of [...splits].sort((a, b) => (b === 0) - (a === 0) || Math.abs(b) - Math.abs(a))) if (taken.every((one) => Math.abs(place(one) - place(v)) > 13)) taken.push(v);
      return splits.map((v) => (taken.includes(v) ? nice(v) : ""));
    };
    const splits = (u, axis, low, high) => {
      const top = Math.floor(Math.log10(Math.max(-low, high)));
      const inside = (factors) => {
        const sizes = [0, 1, 2].flatMap((k) => factors.map((factor) => +`${factor}e${top - k}`));
        return [...sizes.map((v) => -v), 0, ...sizes].filter((v) => v >= low && v <= high).sort((a, b) => a - b);
      };
      return inside([1]).length > 2 ? inside([1]) : inside([1, 2, 5]);
    };
    remove(u);
    u = chart(box, 220, [fan.x, ...fan.v], fan.v.map((_, at) => ({ stroke: at === middle ? ink : "transparent", width: at === middle ? 2 : 1, points: { show: at === middle && fan.x.length < 60, size: 5, fill: ink } })), {
      bands, axis: { splits, filter: (u, found) => found, values: apart }, hooks: { draw: [drawMarks], setCursor: [say] }, y: { distr: 4, asinh: near[near.length >> 1] || 1 },
    });
    read.textContent = fan.q.join(", ");
    holder.replaceChildren(asTable(rows));
  }
  const suspect = withStatus("IssuesFound").map((rule) => rule.FirstViolation?.tensor).find((name) => page.fans[name]);
  if (names.length) later(() => show(suspect ?? names[0]));
  const panel = el("div", { class: "panel", id: "fan" }, el("div", { class: "bar" }, el("h3", {}, "Distribution over time"), pick), read, el("div", { class: "plot", role: "img", tabindex: 0, "aria-label": "Distribution of a tensor over steps", onkeydown: moveCursor }, box), holder);
  return { panel, show };
}
