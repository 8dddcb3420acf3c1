// How two trainings move apart: a map of layers by steps, and what it does to loss and predictions.

const measures = {
  max_ulp: {title: "largest difference, in ULP", bounds: [0, 1, 16, 256, 4096, 65536, 1048576], labels: ["0", "1–15", "16–255", "256–4,095", "4,096–65,535", "65,536–1,048,575", "1,048,576 or more"]},
  median_ulp: {title: "median difference, in ULP", bounds: [0, 1, 4, 16, 64, 1024, 16384], labels: ["below 1", "1–3", "4–15", "16–63", "64–1,023", "1,024–16,383", "16,384 or more"]},
  relative_norm: {title: "relative norm of the difference", bounds: [0, 1e-9, 1e-7, 1e-5, 1e-3, 1e-2, 1e-1], labels: ["below 1e−9", "to 1e−7", "to 1e−5", "to 1e−3", "to 1 %", "to 10 %", "10 % or more"]},
  flipped_signs: {title: "share of flipped signs", bounds: [0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1], labels: ["below 1e−6", "to 1e−5", "to 1e−4", "to 0.1 %", "to 1 %", "to 10 %", "10 % or more"]},
};
const levelOf = (measure, value) => {
  if (!Number.isFinite(value)) return 6;
  let level = 0;
  measures[measure].bounds.forEach((bound, i) => { if (i > 0 && value >= bound) level = i; });
  return level;
};
let driftMeasure = "max_ulp";

const heatMap = (drift, redraw) => {
  const runs = drift.runs.filter(id => drift.cells.some(cell => cell.run === id));
  const known = Object.keys(measures).filter(measure => drift.cells.some(cell => toNumber(cell[measure]) !== null));
  if (!known.includes(driftMeasure)) driftMeasure = known[0];
  const measure = driftMeasure;
  const cells = drift.cells.map(cell => ({...cell, value: toNumber(cell[measure])})).filter(cell => cell.value !== null);
  const name = id => indexOfRun(id) < 0 ? id : runLabel(indexOfRun(id));
  const row = Math.max(9, Math.min(22, 420 / drift.layers.length));
  const longest = d3.max(drift.layers, layer => layer.length) ?? 0;
  const draw = width => {
    const left = Math.min(Math.max(60, longest * 6.6 + 14), width * 0.36);
    const most = Math.floor(left / 6.6) - 1;
    const shownLayers = Math.ceil(drift.layers.length / Math.max(1, Math.floor((row * drift.layers.length) / 11)));
    const every = Math.ceil(drift.steps.length / Math.max(2, Math.floor((width - left) / 60)));
    return plot(`${measures[measure].title}, by layer and step; the numbers are in the table below`, {
      width, height: 46 + runs.length * (row * drift.layers.length + (runs.length > 1 ? 26 : 0)), marginLeft: left, marginRight: 12, marginTop: runs.length > 1 ? 26 : 8, marginBottom: 42,
      x: {type: "band", domain: drift.steps, label: "step", ticks: drift.steps.filter((step, i) => i % every === 0), tickFormat: drift.steps.at(-1) < 20000 ? formatWhole : "~s", tickSize: 3, padding: drift.steps.length > 60 ? 0 : 0.06},
      y: {type: "band", domain: drift.layers, label: null, tickSize: 0, ticks: drift.layers.filter((layer, i) => i % shownLayers === 0), padding: drift.layers.length > 40 ? 0 : 0.08,
        tickFormat: layer => layer.length > most ? "…" + layer.slice(1 - most) : layer},
      fy: {domain: runs, label: null, axis: null, padding: 0.08},
      marks: [
        Plot.cell(cells, {x: "step", y: "layer", fy: runs.length > 1 ? "run" : undefined, fill: cell => `var(--h${levelOf(measure, cell.value)})`}),
        runs.length > 1 ? Plot.text(runs, {fy: d => d, text: name, frameAnchor: "top-left", dy: -14, fill: "var(--ink)", fontWeight: 600}) : null,
        cells.length > 30000 ? null : Plot.tip(cells, Plot.pointer({x: "step", y: "layer", fy: runs.length > 1 ? "run" : undefined, title: cell => `${name(cell.run)}\n${cell.layer}, step ${formatWhole(cell.step)}\n${formatNumber(cell.value)}`})),
      ],
      color: {type: "identity"},
    });
  };
  const makeTable = () => table("Drift, the largest of each layer", [{title: "run"}, {title: "layer"}, {title: "largest", number: true}, {title: "at step", number: true}, {title: "first step that differs", number: true}],
    d3.groups(cells, cell => cell.run, cell => cell.layer).flatMap(([run, layers]) => layers.map(([layer, list]) => {
      const most = d3.greatest(list, cell => cell.value) ?? list[0], first = d3.least(list.filter(cell => cell.value > 0), cell => cell.step);
      return [runLink(indexOfRun(run), name(run)), layer, formatNumber(most.value), formatWhole(most.step), first ? formatWhole(first.step) : "none"];
    })));
  const select = h("select", {id: "drift-measure", onchange: event => { driftMeasure = event.target.value; redraw(); }},
    known.map(key => h("option", {value: key, selected: key === measure}, measures[key].title)));
  const thinned = drift.steps.length < drift.all_steps || drift.layers.length < drift.all_layers
    ? `Drawn: ${formatWhole(drift.steps.length)} of ${plural(drift.all_steps, "step")}, ${formatWhole(drift.layers.length)} of ${plural(drift.all_layers, "layer")}.` : null;
  return figure({id: "drift-map", title: "Difference of the weights, by layer and step", wide: true, draw, table: makeTable,
    controls: known.length < 2 ? null : h("p", {class: "controls"}, h("label", {for: "drift-measure"}, "Measure "), select),
    items: measures[measure].labels.map((label, i) => ({label, color: `var(--h${i})`, kind: "area"})),
    caption: [`Reference: ${name(drift.reference)}. One ULP is one step between neighbouring binary32 numbers.`, thinned].filter(Boolean).join(" ")});
};

const driftLines = (drift, key, title, what) => {
  const rows = drift.per_step.filter(row => Number.isFinite(toNumber(row[key])));
  if (rows.length === 0) return null;
  const groups = d3.groups(rows, row => row.run);
  const label = id => indexOfRun(id) < 0 ? id : runLabel(indexOfRun(id));
  const valueOf = row => key === "loss_difference" ? Math.abs(toNumber(row[key])) : toNumber(row[key]);
  const values = rows.map(valueOf);
  const type = scaleType(values);
  const draw = width => plot(`${title}; the numbers are in the table below`, {
    width, height: heightFor(width), marginLeft: 58, marginBottom: 42, x: stepAxis(width, d3.max(rows, row => row.step)), y: valueAxis(what, type, values),
    marks: groups.flatMap(([, list], i) => [
      Plot.line(list, {x: "step", y: valueOf, stroke: seriesColors[i % mostColored], strokeWidth: 1.6}),
      list.length < 30 ? Plot.dot(list, {x: "step", y: valueOf, fill: seriesColors[i % mostColored], r: 3, clip: false}) : null]),
  });
  const makeTable = () => table(title, [{title: "run"}, {title: "step", number: true}, {title: what, number: true}], rows.map(row => [runLink(indexOfRun(row.run), label(row.run)), formatWhole(row.step), formatNumber(row[key])]), 400);
  return figure({id: `drift-${key}`, title, draw, table: makeTable, items: groups.map(([id], i) => ({label: runLink(indexOfRun(id), label(id)), color: seriesColors[i % mostColored], kind: "line"})), caption: type === "log" ? "The scale is logarithmic." : null});
};

const driftSection = () => {
  const drift = report.drift;
  if (!drift) return null;
  if (!drift.cells.some(cell => toNumber(cell.max_ulp) > 0 || !Number.isFinite(toNumber(cell.max_ulp)))) {
    return section("drift", "Drift", null, h("p", {class: "verdict same"}, "No difference", h("small", {}, `in ${plural(drift.all_layers, "layer")} at ${plural(drift.all_steps, "step")}, to the last bit`)));
  }
  const holder = h("div", {});
  const redraw = focus => {
    holder.replaceChildren(heatMap(drift, () => redraw(true)));
    if (focus) holder.querySelector("select")?.focus();
  };
  redraw(false);
  return section("drift", "Drift", null, holder, figures(
    driftLines(drift, "loss_difference", "Difference of the loss", "absolute difference"),
    driftLines(drift, "churn", "Predictions that changed", "share"), driftLines(drift, "accuracy", "Accuracy along the way", "accuracy")));
};
