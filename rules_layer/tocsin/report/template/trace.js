// The newest step trace: what the GPU's time went into, and what took longest.
const TIMES = { compute: ["--one", "compute"], rest: ["--two", "communication and copies alone"], idle: ["--line", "idle"] };

function stepTrace() {
  const { url, made, steps, seconds, span, shares, operators, problem } = page.step_trace;
  const shown = Object.entries(TIMES).map(([part, [colour, text]]) => [shares[part], colour, text]), whole = (share) => `${Math.round(100 * share)} %`;
  const says = problem ? `It cannot be shown: ${problem}` : `${plural(steps, "step")}${seconds === null ? "" : `, ${nice(seconds)} s each while they were recorded`}. ${span === null ? "No kernel of a GPU is in it." : ""}`;
  const bar = () => {
    const pieces = shown.map(([grow, colour]) => el("i", { colour, grow }));
    const beside = shares.communication ? `Communication ran in ${whole(shares.communication)} of the time; during ${whole(shares.overlap)} of it, compute kernels ran as well.` : "No kernel of a communication library (NCCL) is in it.";
    return el("div", { class: "panel" }, el("h3", {}, "The GPU's time, from the first kernel to the last"), el("div", { class: "legend" }, ...shown.map(([share, colour, text]) => el("span", {}, el("i", { colour }), `${text} ${whole(share)}`))),
      el("div", { class: "spent", role: "img", "aria-label": shown.map(([share, , text]) => `${text} ${whole(share)}`).join(", ") }, ...pieces), el("p", { class: "hint" }, beside));
  };
  const rows = (each) => each.rows.map(([name, count, time, share]) => [el("code", {}, name), nice(count), nice(1000 * time), whole(share)]);
  return section("trace", "Step trace", `Recorded on request at ${utc(made)}: ${says}`, el("p", { class: "hint" }, `${url}: open it in ui.perfetto.dev`), span === null ? "" : bar(),
    ...operators.map((each) => el("div", { class: "panel" }, el("h3", {}, each.title), table(["name", "count", "ms", "of these"], rows(each), ["", "n", "n", "n"]))));
}
