// What a reader asks first: what came out, is it whole, is it the same.

const isFinished = run => run.state === "finished";

const tile = (name, value, note, index) => h("div", {class: "tile"}, h("dt", {}, name),
  h("dd", {}, index === undefined ? value : runLink(index, value), note ? h("small", {}, note) : null));

const stateWords = {
  finished: "finished, sealed", running: "running", interrupted: "interrupted", failed: "failed", damaged: "damaged",
};
const stateBadge = run => h("span", {class: `state ${run.state}`}, stateWords[run.state] ?? run.state);

const overviewOfOne = run => {
  const names = metricNames([run]).slice(0, 4);
  const tiles = names.map(({set, name}) => {
    const last = metricOf(run, set, name);
    return tile(`${set} ${name}`, formatNumber(last.value), `after step ${formatWhole(last.step)}`, 0);
  });
  const loss = lastOf(run.loss);
  if (names.length === 0 && loss) tiles.push(tile("loss", formatNumber(loss.value), `at step ${formatWhole(loss.step)}`, 0));
  tiles.push(tile("steps", formatWhole(run.steps), run.seconds > 0 ? `${formatSeconds(run.seconds)} by the recorder's clock` : null));
  if (run.weights) tiles.push(tile("weights", h("code", {}, run.weights.slice(run.weights.indexOf(":") + 1).slice(0, 12) + "…"), `fingerprint under ${run.contract}`, 0));
  return h("dl", {class: "tiles"}, tiles);
};

const rangeOf = (runs, {set, name}) => {
  const values = runs.map((run, index) => ({index, value: toNumber(metricOf(run, set, name)?.value)})).filter(v => Number.isFinite(v.value));
  if (values.length === 0) return null;
  const low = d3.least(values, v => v.value), high = d3.greatest(values, v => v.value);
  return {low, high, n: values.length, mean: d3.mean(values, v => v.value)};
};

const overviewOfMany = runs => {
  const tiles = [];
  for (const metric of metricNames(runs).slice(0, 2)) {
    const range = rangeOf(runs, metric);
    if (!range) continue;
    const what = `${metric.set} ${metric.name}`;
    if (range.low.value === range.high.value && range.n > 1) {
      tiles.push(tile(what, formatNumber(range.low.value), `the same in ${plural(range.n, "run")}`, range.low.index));
    } else {
      tiles.push(tile(`${what}, lowest`, formatNumber(range.low.value), runLabel(range.low.index), range.low.index));
      tiles.push(tile(`${what}, highest`, formatNumber(range.high.value), runLabel(range.high.index), range.high.index));
    }
  }
  const weights = new Set(runs.map(run => run.weights).filter(text => text !== ""));
  const finished = runs.filter(isFinished).length;
  tiles.push(tile("runs", formatWhole(runs.length), finished === runs.length ? "all finished and sealed" : `${formatWhole(finished)} finished and sealed`));
  if (finished > 1) {
    tiles.push(tile("final weights", weights.size === 1 ? "all the same" : `${formatWhole(weights.size)} different`,
      weights.size === 1 ? "to the last bit" : `of ${plural(finished, "finished run")}`));
  }
  return h("dl", {class: "tiles"}, tiles);
};

const leadOf = () => {
  const runs = report.runs;
  if (report.diff) {
    const words = {equal: "The results of the two runs are equal, to the last bit.", differ: "The results of the two runs differ.",
      unknown: "Whether the results of the two runs differ cannot be told."};
    return words[report.diff.results];
  }
  if (report.study) {
    const cells = report.study.cells.cells;
    const done = cells.filter(cell => cell.state === "finished").length;
    return `${formatWhole(done)} of ${plural(cells.length, "run")} finished, measured by ${report.study.cells.metric}.`;
  }
  if (runs.length !== 1) return runs.length === 0 ? "There are no runs to show." : null;
  const run = runs[0];
  if (run.state === "damaged") return `The record is damaged: ${run.note}`;
  if (run.state === "failed") return `The run failed after ${plural(run.steps, "step")}: ${run.note}`;
  if (run.state === "interrupted") return `The run was interrupted after ${plural(run.steps, "step")}; it can be resumed.`;
  if (run.state === "running") return `The run has done ${plural(run.steps, "step")} and goes on.`;
  return run.stock ? "Trained with stock PyTorch: nothing was promised about its bits."
    : `Trained under the contract ${run.contract}: executed again anywhere, it must give these weights, bit by bit.`;
};

const overview = () => h("header", {class: "top"},
  h("p", {class: "kicker"}, "isobit report"),
  h("h1", {}, report.title),
  leadOf() ? h("p", {class: "lead"}, leadOf()) : null,
  report.runs.length === 1 ? h("p", {class: "states"}, stateBadge(report.runs[0]),
    h("span", {}, "recorded ", h("time", {}, report.runs[0].created.slice(0, 16).replace("T", " ") + (report.runs[0].created ? " UTC" : "")))) : null,
  report.study ? overviewOfStudy(report.study) : report.runs.length === 0 ? null : report.runs.length === 1 ? overviewOfOne(report.runs[0]) : overviewOfMany(report.runs));
