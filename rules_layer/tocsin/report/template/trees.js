// The sections of XGBoost, and what those of a machine share with them: bars and curves.
function boosted() {
  const found = page.boosted;
  const measures = found.bars.filter(({ title }) => title.startsWith("Feature importance")), rest = found.bars.filter((each) => !measures.includes(each));
  const parts = [...measures.slice(0, 1), ...rest].map(bars).concat(found.lines.map(curve));
  if (found.matrix) parts.push(matrix(found.matrix));
  if (found.scores.length) parts.push(el("div", { class: "panel" }, el("h3", {}, "Scores"), table(["", "precision", "recall", "F1"], found.scores.map((row) => row.map((v, at) => (at ? nice(v) : v))), ["", "n", "n", "n"])));
  return section("boosted", "Boosted trees", `${found.task}, at the last step with labels and predictions`, ...found.missing.map((text) => el("p", { class: "hint" }, text)), el("div", { class: "grid" }, ...parts), measures.length > 1 ? fold("importances", "Other measures of importance", el("div", { class: "grid" }, ...measures.slice(1).map(bars))) : "");
}

function bars({ title, names, series }) { // a row for each name; what is below zero has another colour
  const [[what, values]] = Object.entries(series), most = Math.max(...values.map(Math.abs)) || 1;
  const row = (name, value) => { const bar = el("i", { colour: value < 0 ? "--two" : "--one" }); bar.style.width = `${(100 * Math.abs(value)) / most}%`; return [name, bar, nice(value)]; };
  return el("div", { class: "panel bars" }, el("h3", {}, title.toLowerCase().includes(what) ? title : `${title}: ${what}`), table([], names.map((name, at) => row(name, values[at])), ["", "", "n"]));
}

function curve({ title, x_label, x, series, steps }) {
  const box = el("div"), read = readout();
  const items = Object.entries(series).map(([label, y], at) => ({ label, x, y, ...inked(at), plain: true }));
  later(() => lines(box, 200, items, { apart: !steps, read, gutter: 56, idle: x_label, below: x_label.startsWith("minute") ? { incrs: COUNTS } : {} }));
  return el("div", { class: "panel" }, el("h3", {}, title), plot(title, read, box, curveRows(items), items.length > 1 ? items : []));
}

function matrix({ names, counts }) {
  const rows = counts.map((row, at) => [el("b", {}, names[at]), ...row.map(nice)]);
  return el("div", { class: "panel" }, el("h3", {}, "Confusion matrix"), el("p", { class: "hint" }, "Rows are labels, columns predictions."), table(["", ...names], rows, ["", ...names.map(() => "n")]));
}
