// The machines of a training: findings, times of steps, use of devices, how the time was spent.
const PARTS = { forward: ["--one", "forward"], step: ["--two", "rest of the step"], wait: ["--critical", "waiting for data"], evaluation: ["--three", "evaluation"], other: ["--line", "other"] };
const percent = (share) => (share === null ? "–" : `${Math.round(100 * share)} %`);

function minuteText(number) { // counted from the first minute; with its time where it has one
  const { began } = page.machine;
  return began ? `${new Date(Date.parse(began) + 60000 * number).toISOString().slice(0, 16).replace("T", " ")} UTC` : `minute ${nice(number + 1)}`;
}

function machine() {
  const found = page.machine, { nodes, minutes, every } = found;
  const thinned = every > 1 ? ` (one in ${every} is read)` : "";
  const hint = `${minutes} minutes of ${nodes.length === 1 ? nodes[0] : `${nodes.length} machines`}${thinned}, from ${minuteText(0)} on. ${found.sentence}`;
  const grid = [found.durations ? bars(found.durations) : "", found.steps ? curve(found.steps) : ""].filter(Boolean);
  return section("machine", "The machine", hint, findings(found), grid.length ? el("div", { class: "grid" }, ...grid) : "", spent(found), found.utilization ? utilization(found.utilization) : "", fold("statistics", "Statistics of the machine, and the sections of Amazon's ProfilerReport", statistics(found), found.profile ? profile(found.profile) : ""));
}

function profile({ job, usage, boxes, workloads, bottlenecks }) {
  const panel = (title, ...content) => el("div", { class: "panel" }, el("h3", {}, title), ...content), numbers = (count) => ["", "", "", ...Array(count).fill("n")];
  const parts = job ? [["initialization", job.initialization], ["training loop", job.loop], ["finalization", job.finalization]] : [], whole = parts.reduce((sum, [, time]) => sum + time, 0) || 1;
  const track = ({ lower, p25, p50, p75, upper }) => { // one line from 0 to 100 %: whiskers, box, median
    const cuts = [[lower, ""], [p25, "--line"], [p50, "--one"], [p75, "--two"], [upper, "--line"], [100, ""]], bar = el("div", { class: "spent", role: "img", "aria-label": `${nice(p25)} to ${nice(p75)} %` });
    bar.style.minWidth = "9rem";
    bar.append(...cuts.map(([end, colour], at) => el("i", { ...(colour ? { colour } : {}), grow: Math.max(0, end - (at ? cuts[at - 1][0] : 0)) })));
    return bar;
  };
  return el("div", {},
    job ? panel("The job", table(["part", "seconds", "share"], parts.map(([name, time]) => [name, nice(time), percent(time / whole)]), ["", "n", "n"])) : "",
    usage.length ? panel("Use of each machine", table(["machine", "resource", "unit", "max", "p99", "p95", "p50", "min"], usage.map((each) => [each.node, each.resource, each.unit, ...["max", "p99", "p95", "p50", "min"].map((key) => nice(each[key]))]), numbers(5))) : "",
    boxes.length ? panel("Utilization in %: quartiles and whiskers", table(["machine", "device", "0 to 100 %", "p25", "p50", "p75", "p95"], boxes.map((each) => [each.node, each.device, track(each), ...["p25", "p50", "p75", "p95"].map((key) => nice(each[key]))]), numbers(4))) : "",
    workloads.length ? el("div", { class: "grid" }, ...workloads.map(bars)) : "",
    bottlenecks.length ? panel("Samples with a GPU below 10 %", table(["machine", "", "", "of all", "beside a core above 90 %", "beside a core that waits for disks"], bottlenecks.map((each) => [each.node, "", "", percent(each.low), percent(each.cpu), percent(each.io)]), numbers(3))) : "");
}

function findings({ rules, first, verdict }) {
  if (!rules.length) return "";
  const fired = rules.filter((rule) => rule.RuleEvaluationStatus === "IssuesFound");
  const cards = fired.map((rule) => el("article", { class: "card" },
    titled(rule, rule.FiredAt ? `since ${minuteText(rule.FiredAt.step - first)}` : ""),
    el("p", {}, rule.StatusDetails), ...advice(rule)));
  const others = rules.filter((rule) => !fired.includes(rule)).map((rule) => [statusChip(rule.RuleEvaluationStatus), [el("b", {}, ruleName(rule)), el("div", { class: "hint" }, rule.StatusDetails || rule.summary)]]);
  const rest = others.length ? fold("machine-rules", `Rules about the machine that did not fire (${others.length})`, table(["status", "rule"], others)) : "";
  return el("div", {}, ...(cards.length ? cards : [el("p", {}, verdict.sentence)]), rest);
}

function spent({ shares }) {
  const shown = Object.entries(PARTS).filter(([part]) => shares.some((share) => share[part] !== null));
  const named = (part, text) => (part === "step" && shares[0].forward === null ? "training steps" : text);
  const bar = (share) => el("div", { class: "spent", role: "img", "aria-label": `${share.node}: ${shown.map(([part, [, text]]) => `${named(part, text)} ${percent(share[part])}`).join(", ")}` },
    ...shown.map(([part, [colour]]) => el("i", { colour, grow: share[part] ?? 0 })));
  const key = ([part, [colour, text]]) => el("span", {}, el("i", { colour }), named(part, text));
  const rows = shares.map((share) => [share.node, ...shown.map(([part]) => percent(share[part]))]);
  return el("div", { class: "panel" }, el("h3", {}, "How the time was spent"), el("div", { class: "legend" }, ...shown.map(key)), ...shares.slice(0, 32).map((share) => el("div", { class: "node" }, el("span", {}, share.node), bar(share))),
    table(["machine", ...shown.map(([part, [, text]]) => named(part, text))], rows, ["", ...shown.map(() => "n")]));
}

function utilization({ rows, x, end, cells }) {
  const box = el("div"), read = readout(), size = Math.max(1, Math.min(18, Math.floor(520 / rows.length)));
  const value = (cell) => (cell ? `${Math.round(((cell - 2) / 252) * 100)} %` : "not known");
  let known;
  const say = (r, c) => { read.textContent = `${rows[r]}   ${minuteText(x[c])}   ${value(known[r * x.length + c])}`; };
  later(async () => {
    known = await unpacked(cells);
    const image = picture(x.length, rows.length, known);
    const draw = (u) => {
      drawImage(u, image, x[0], end);
      if (!isNarrow()) nameRows(u, rows);
    };
    const under = (u) => {
      const r = Math.floor((u.cursor.top / u.over.clientHeight) * rows.length), c = x.findLastIndex((at) => at <= u.posToVal(u.cursor.left, "x"));
      if (r >= 0 && r < rows.length && c >= 0) say(r, c);
    };
    chart(box, rows.length * size + 40, [[x[0], end], [0, rows.length]], [{ stroke: "transparent", points: { show: false } }], {
      apart: true, noPoints: true, cursorY: true, y: { range: [0, rows.length] },
      axis: NO_AXIS, below: { incrs: COUNTS },
      hooks: { draw: [draw], setCursor: [(u) => { if (u.cursor.event && u.cursor.left >= 0) under(u); }] },
    });
    read.textContent = `Move over the map to read a cell; arrow keys choose a row.${namedBelow(rows)}`;
  });
  let row = -1;
  const keys = (event) => {
    if (!["ArrowDown", "ArrowUp"].includes(event.key) || !known) return;
    event.preventDefault();
    row = Math.min(rows.length - 1, Math.max(0, row + (event.key === "ArrowDown" ? 1 : -1)));
    say(row, x.length - 1);
  };
  const means = () => [["device", "first", "mean", "last"], rows.map((name, r) => {
    const own = [...known.subarray(r * x.length, (r + 1) * x.length)], seen = own.filter(Boolean);
    return [name, value(own[0]), value(seen.reduce((sum, cell) => sum + cell, 0) / seen.length), value(own.at(-1))];
  })];
  return el("div", { class: "panel" }, el("h3", {}, "Utilization of devices"), el("div", { class: "legend" }, el("span", {}, "0 % ", ramp(), " 100 %"), el("span", {}, "minutes since the first")), read,
    el("div", { class: "plot", id: "devices", role: "img", tabindex: 0, "aria-label": "Utilization of each device, minute by minute", onkeydown: keys }, box), asTable(means));
}

function statistics({ statistics }) {
  if (!statistics.length) return "";
  const rows = statistics.map((each) => [each.name, each.unit, ...["mean", "p50", "p95", "p99", "max"].map((key) => nice(each[key])), each.of]);
  return el("div", { class: "panel" }, el("h3", {}, "Statistics"), table(["metric", "unit", "mean", "p50", "p95", "p99", "max", "of"], rows, ["", "", "n", "n", "n", "n", "n", "wide"]));
}
