// Loss at each step and the measurements between, of one run or of many.

const mostColored = seriesColors.length;

// Long lists of runs share one colour; the pointer names the run.
const colorOf = (index, count) => count > mostColored ? "var(--many)" : seriesColors[index];

const pointsOf = (curve, index, set) => curve.steps.map((step, i) => ({step, value: toNumber(curve.values[i]), index, set}));

// Lines over steps: `series` is [{index, set, curve, color, dashed}].
const linesFigure = ({id, title, what, series, caption, table: makeTable, items, wide}) => {
  const points = series.map(s => pointsOf(s.curve, s.index, s.set));
  const all = points.flat();
  if (all.length === 0) return null;
  const lost = all.filter(point => !Number.isFinite(point.value));
  const type = scaleType(all.map(point => point.value));
  const many = report.runs.length > mostColored;
  const label = `${title}: ${series.length === 1 ? "one line" : series.length + " lines"} over ${plural(d3.max(all, p => p.step), "step")}; the numbers are in the table below`;
  const nameOf = point => (report.runs.length > 1 ? runLabel(point.index) + ", " : "") + (point.set ?? what);
  const draw = width => plot(label, {
    width, height: heightFor(width), marginLeft: 52, marginRight: 14, marginBottom: 42,
    x: stepAxis(width, d3.max(all, p => p.step)), y: valueAxis(what, type, all.map(point => point.value)),
    marks: [
      ...(many ? [false, true].map(dashed => Plot.line(series.flatMap((s, i) => Boolean(s.dashed) === dashed ? points[i].filter(p => Number.isFinite(p.value)) : []),
        {x: "step", y: "value", z: "index", stroke: "var(--many)", strokeWidth: 0.8, strokeOpacity: Math.max(0.12, Math.min(0.6, 12 / series.length)), strokeDasharray: dashed ? "5 4" : null}))
        : series.map((s, i) => Plot.line(points[i].filter(p => Number.isFinite(p.value)), {x: "step", y: "value", stroke: s.color,
          strokeWidth: points[i].length > 300 ? 1.1 : 1.8, strokeDasharray: s.dashed ? "5 4" : null}))),
      ...series.map((s, i) => points[i].length > 40 || many ? null : Plot.dot(points[i].filter(p => Number.isFinite(p.value)), {x: "step", y: "value", r: 2.5,
        fill: s.dashed ? "var(--panel)" : s.color, stroke: s.color})),
      lost.length ? Plot.dot(lost, {x: "step", frameAnchor: "top", symbol: "times", stroke: "var(--bad)", r: 4}) : null,
      all.length > 60000 ? null : Plot.tip(all.filter(p => Number.isFinite(p.value)), Plot.pointer({x: "step", y: "value", maxRadius: 30,
        title: p => `${nameOf(p)}\nstep ${formatWhole(p.step)}\n${formatNumber(p.value)}`})),
    ],
  });
  const captions = [caption];
  if (lost.length) {
    const first = d3.least(lost, point => point.step);
    captions.push(`Not a finite number from step ${formatWhole(first.step)}${report.runs.length > 1 ? " of " + runLabel(first.index) : ""} (×).`);
  }
  if (type === "log") captions.push("The scale is logarithmic.");
  return figure({id, title, items, draw, caption: captions.filter(Boolean).join(" "), table: makeTable, wide});
};

const lossFigure = runs => {
  const series = runs.map((run, index) => ({index, set: null, curve: run.loss, color: colorOf(index, runs.length)}))
    .filter(s => s.curve.steps.length > 0);
  const thinned = series.filter(s => s.curve.steps.length < s.curve.of);
  const caption = thinned.length === 0 ? "Every recorded step is drawn."
    : `Drawn: ${series.length === 1 ? `${formatWhole(thinned[0].curve.steps.length)} of ${formatWhole(thinned[0].curve.of)} recorded steps`
      : `at most ${formatWhole(d3.max(thinned, s => s.curve.steps.length))} steps of each run`}: the lowest and the highest loss of each stretch. The record has all.`;
  const makeTable = () => table("Loss, by run", [{title: "run"}, {title: "recorded steps", number: true}, {title: "first", number: true},
    {title: "lowest", number: true}, {title: "at step", number: true}, {title: "last", number: true}], series.map(({index, curve}) => () => {
    const values = curve.values.map(toNumber);
    const least = d3.leastIndex(values, (a, b) => d3.ascending(a, b));
    return [runLink(index), formatWhole(curve.of), formatNumber(values[0]), formatNumber(values[least] ?? null),
      least >= 0 ? formatWhole(curve.steps[least]) : "–", formatNumber(values.at(-1))];
  }));
  const items = runs.length > 1 && runs.length <= mostColored ? series.map(s => ({label: runLink(s.index), color: s.color, kind: "line"})) : [];
  return linesFigure({id: "loss-by-step", title: "Training loss at each step", what: "loss", series, caption, table: makeTable, items, wide: true});
};

const metricFigure = (runs, name) => {
  const one = runs.length === 1;
  const sets = ["test", "train"].filter(set => runs.some(run => run.metrics[set]?.[name]));
  const series = sets.flatMap((set, i) => runs.map((run, index) => run.metrics[set]?.[name] && ({
    index, set, curve: run.metrics[set][name], color: one ? seriesColors[i] : colorOf(index, runs.length), dashed: i > 0}))).filter(Boolean);
  const measured = d3.sum(series, s => s.curve.steps.length);
  const row = (s, i) => () => [runLink(s.index), s.set, formatWhole(s.curve.steps.at(i)), formatNumber(s.curve.values.at(i))];
  const columns = [{title: "run"}, {title: "set"}, {title: "step", number: true}, {title: name, number: true}];
  const makeTable = () => measured <= 400 ? table(`${name}, each measurement`, columns, series.flatMap(s => s.curve.steps.map((_, i) => row(s, i))))
    : table(`${name}, last measurement`, columns, series.map(s => row(s, -1)), 2000);
  const items = one ? sets.map((set, i) => ({label: set, color: seriesColors[i], kind: i > 0 ? "line dashed" : "line", always: true}))
    : [...(runs.length <= mostColored ? runs.map((run, index) => ({label: runLink(index), color: seriesColors[index], kind: "line"})) : []),
      ...(sets.length > 1 ? [{label: sets[0], color: "var(--soft)", kind: "line"}, {label: sets[1], color: "var(--soft)", kind: "line dashed"}] : [])];
  const title = `${name[0].toUpperCase()}${name.slice(1)} on the ${sets.map(set => set === "train" ? "training" : set).join(" and ")} set${sets.length > 1 ? "s" : ""}`;
  return linesFigure({id: `metric-${[...new Set(metricNames(runs).map(m => m.name))].indexOf(name)}`, title, what: name, series, table: makeTable, items});
};

const curves = () => {
  const runs = report.runs;
  const names = [...new Set(metricNames(runs).map(metric => metric.name))].slice(0, 12);
  const drawn = [lossFigure(runs), ...names.map(name => metricFigure(runs, name))].filter(Boolean);
  return drawn.length === 0 ? null : section("curves", "Curves",
    runs.length > mostColored ? `${formatWhole(runs.length)} runs, one line each. The pointer names the run.` : null, figures(drawn));
};
