// A study: what was compared, how far values spread, and what explains the spread.

const factorText = factors => Object.entries(factors).map(([key, value]) => `${key} = ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
// Levels alone, for an axis: their keys stand in the caption.
const levelText = factors => Object.values(factors).map(value => typeof value === "string" ? value : JSON.stringify(value)).join(" · ");
const hasLevels = (factors, cell) => Object.entries(factors).every(([key, value]) => JSON.stringify(cell.factors[key]) === JSON.stringify(value));

const comparisonsFigure = ({comparisons, metric}) => {
  if (comparisons.length === 0) return null;
  const rows = comparisons.map((row, i) => ({...row, i, label: `${row.a} − ${row.b}`, difference: toNumber(row.difference),
    low: toNumber(row.low), high: toNumber(row.high), noise: toNumber(row.noise)}));
  const draw = width => plot(`Differences of ${metric} with their intervals, against the noise; the numbers are in the table below`, {
    width, height: 56 + 44 * rows.length, marginLeft: Math.min(220, Math.max(110, width * 0.28)), marginRight: 20, marginBottom: 42,
    x: {label: `difference of ${metric}`, grid: true, ticks: Math.max(3, Math.round(width / 120)), nice: true},
    y: {type: "band", domain: rows.map(row => row.i), label: null, tickFormat: i => rows[i].label.length > 30 ? rows[i].label.slice(0, 29) + "…" : rows[i].label, tickSize: 0},
    marks: [
      Plot.barX(rows.filter(row => row.noise !== null), {y: "i", x1: row => -row.noise, x2: row => row.noise, fill: "var(--noise)"}),
      Plot.ruleX([0], {stroke: "var(--soft)"}),
      Plot.ruleY(rows.filter(row => row.low !== null && row.high !== null), {y: "i", x1: "low", x2: "high", stroke: "var(--c1)", strokeWidth: 3}),
      Plot.dot(rows.filter(row => row.difference !== null), {y: "i", x: "difference", r: 5.5, fill: "var(--c1)", stroke: "var(--panel)", strokeWidth: 1.5}),
    ],
  });
  const makeTable = () => table("Comparisons", [{title: "factor"}, {title: "a"}, {title: "b"}, {title: "pairs", number: true}, {title: "a − b", number: true},
    {title: "interval"}, {title: "noise", number: true}, {title: "p, permutation", number: true}, {title: "p, McNemar", number: true}, {title: "p, corrected t", number: true},
    {title: "runs needed", number: true}, {title: "verdict"}], rows.map(row => [row.factor, row.a, row.b, formatWhole(row.n), formatSigned(row.difference),
    row.low === null ? "–" : `${formatSigned(row.low)} to ${formatSigned(row.high)}`, formatNumber(row.noise), formatProbability(row.p_permutation),
    formatProbability(row.p_mcnemar), formatProbability(row.p_corrected_t), row.runs_needed === null ? "–" : formatWhole(row.runs_needed), row.verdict]));
  return [h("ul", {class: "verdicts"}, rows.map(row => h("li", {}, h("strong", {}, `${row.factor}: ${row.a} against ${row.b}. `), `${row.verdict}.`,
      row.runs_needed > 0 ? ` Runs still needed for a verdict: ${formatWhole(row.runs_needed)}.` : ""))),
    figures(figure({id: "comparisons-figure", title: "Difference against noise", draw, table: makeTable, wide: true,
      items: [{label: "difference with its interval", color: "var(--c1)", kind: "line"}, {label: "noise: what chance alone gives", color: "var(--noise)", kind: "area"}],
      caption: "A difference whose interval leaves the grey band is more than noise."}))];
};

const spreadFigure = (cells, results) => {
  const measured = cells.cells.filter(cell => Number.isFinite(toNumber(cell.value)));
  if (measured.length === 0) return null;
  const keys = new Set(cells.cells.flatMap(cell => Object.keys(cell.factors)));
  const groups = results && results.summary.length > 0 ? results.summary
    : d3.groups(measured, cell => JSON.stringify(cell.factors)).map(([, list]) => ({factors: list[0].factors, n: list.length, mean: d3.mean(list, c => toNumber(c.value)), sd: null, low: null, high: null}));
  const rows = groups.map((group, i) => ({...group, i, label: levelText(group.factors) || "all runs", mean: toNumber(group.mean), low: toNumber(group.low), high: toNumber(group.high)}));
  const dots = rows.flatMap(row => measured.filter(cell => hasLevels(row.factors, cell)).map(cell => ({...cell, i: row.i, value: toNumber(cell.value)})));
  const lost = cells.cells.filter(cell => cell.value !== null && !Number.isFinite(toNumber(cell.value)));
  const draw = width => plot(`${cells.metric} of each run, by level of the factors; the numbers are in the table below`, {
    width, height: 60 + 38 * rows.length, marginBottom: 42, marginLeft: Math.min(280, Math.max(120, width * 0.26)), marginRight: 16,
    x: {label: cells.metric, grid: true, ticks: Math.max(3, Math.round(width / 120)), nice: true},
    y: {type: "band", domain: rows.map(row => row.i), label: null, tickSize: 0, tickFormat: i => {
      const most = Math.floor(Math.min(280, Math.max(120, width * 0.26)) / 6.6);
      return rows[i].label.length > most ? rows[i].label.slice(0, most - 1) + "…" : rows[i].label;
    }},
    marks: [
      Plot.ruleY(rows.filter(row => row.low !== null), {y: "i", x1: "low", x2: "high", stroke: "var(--noise-strong)", strokeWidth: 9}),
      Plot.dot(dots, {y: "i", x: "value", r: 3, fill: "var(--c1)", fillOpacity: 0.65}),
      Plot.tickX(rows.filter(row => row.mean !== null), {y: "i", x: "mean", stroke: "var(--ink)", strokeWidth: 2, insetTop: 5, insetBottom: 5}),
      Plot.tip(dots, Plot.pointer({y: "i", x: "value", title: d => `${factorText(d.factors)}\n${formatNumber(d.value)}`})),
    ],
  });
  const makeTable = () => [table("By level", [{title: "factors"}, {title: "runs", number: true}, {title: "mean", number: true}, {title: "standard deviation", number: true}, {title: "interval"}],
    rows.map(row => [factorText(row.factors) || "all runs", formatWhole(row.n), formatNumber(row.mean), formatNumber(row.sd), row.low === null ? "–" : `${formatNumber(row.low)} to ${formatNumber(row.high)}`])),
  table("Each cell of the study", [{title: "run"}, ...[...keys].map(title => ({title})), {title: "state"}, {title: cells.metric, number: true}],
    cells.cells.map(cell => [runLink(indexOfRun(cell.run), cell.run || `cell ${cell.index}`), ...[...keys].map(key => cell.factors[key] === undefined ? "–" : String(cell.factors[key])),
      cell.state, runLink(indexOfRun(cell.run), formatNumber(cell.value) + (cell.standing === "claimed" && cell.value !== null ? " (claimed)" : ""))]))];
  const named = Object.keys(rows[0].factors).join(" · ");
  const caption = [named ? `Each line: ${named}.` : null, "A dot is a run, the tick the mean, the bar its interval.", lost.length ? `${plural(lost.length, "run")} without a finite value ${lost.length === 1 ? "is" : "are"} left out.` : null];
  return figure({id: "spread-figure", title: `${cells.metric[0]?.toUpperCase() ?? ""}${cells.metric.slice(1)} by factor`, draw, table: makeTable, wide: true, caption: caption.filter(Boolean).join(" ")});
};

const componentsFigure = ({components}) => {
  const rows = components.filter(row => toNumber(row.share) !== null).map(row => ({...row, share: toNumber(row.share), low: toNumber(row.low), high: toNumber(row.high)}));
  if (rows.length === 0) return null;
  const draw = width => plot("Share of the spread that each factor explains; the numbers are in the table below", {
    width, height: 60 + 32 * rows.length, marginBottom: 42, marginLeft: Math.min(200, Math.max(100, width * 0.25)), marginRight: 20,
    x: {label: "share of the variance (%)", percent: true, domain: [0, 100], grid: true, ticks: 5},
    y: {type: "band", domain: rows.map(row => row.factor), label: null, tickSize: 0, padding: 0.3},
    marks: [Plot.barX(rows, {y: "factor", x: "share", fill: "var(--c1)", fillOpacity: 0.75}),
      Plot.ruleY(rows.filter(row => row.low !== null), {y: "factor", x1: "low", x2: "high", stroke: "var(--ink)", strokeWidth: 2}),
      Plot.ruleX([0], {stroke: "var(--soft)"})],
  });
  const makeTable = () => table("Variance components", [{title: "factor"}, {title: "variance", number: true}, {title: "share", number: true}, {title: "interval"}],
    rows.map(row => [row.factor, formatNumber(row.variance), formatPercent(row.share), row.low === null ? "–" : `${formatPercent(row.low)} to ${formatPercent(row.high)}`]));
  return figure({id: "components-figure", title: "What explains the spread", draw, table: makeTable, wide: true, caption: "The bar is the share, the line its interval."});
};

const overviewOfStudy = ({cells, results}) => {
  const done = cells.cells.filter(cell => cell.state === "finished").length;
  const tiles = [tile("runs finished", `${formatWhole(done)} of ${formatWhole(cells.cells.length)}`)];
  const means = (results?.summary ?? []).map(row => ({...row, mean: toNumber(row.mean)})).filter(row => Number.isFinite(row.mean));
  if (means.length > 1) {
    const most = d3.greatest(means, row => row.mean), least = d3.least(means, row => row.mean);
    tiles.push(tile(`highest mean ${cells.metric}`, formatNumber(most.mean), factorText(most.factors)));
    tiles.push(tile(`lowest mean ${cells.metric}`, formatNumber(least.mean), factorText(least.factors)));
  }
  const cause = d3.greatest((results?.components ?? []).filter(row => toNumber(row.share) !== null), row => toNumber(row.share));
  if (cause) tiles.push(tile("explains most of the spread", cause.factor, formatPercent(cause.share)));
  return h("dl", {class: "tiles"}, tiles);
};

const study = () => {
  if (!report.study) return [];
  const {cells, results} = report.study;
  const warnings = results?.warnings ?? [];
  const notes = warnings.length === 0 ? null : h("div", {class: "callout", role: "note"}, h("strong", {}, warnings.length === 1 ? "Warning" : "Warnings"), h("ul", {}, warnings.map(text => h("li", {}, text))));
  const waiting = cells.cells.filter(cell => cell.state === "waiting" || cell.state === "running").length;
  const failed = cells.cells.filter(cell => cell.state === "failed");
  const claimed = cells.cells.filter(cell => cell.standing === "claimed" && cell.value !== null).length;
  const standing = [claimed > 0 ? `${plural(claimed, "value")} without a sound record here: claimed.` : null,
    results ? "Means, intervals and verdicts are those of results.json (claimed); isobit study FILE --gather computes them from the records." : null].filter(Boolean).join(" ");
  return [
    section("comparisons", "Comparisons", standing || null, notes, results ? comparisonsFigure(results) : null),
    section("spread", "Spread", waiting > 0 ? `${plural(waiting, "cell")} not finished yet: these are the values so far.` : null,
      figures(spreadFigure(cells, results), results ? componentsFigure(results) : null),
      failed.length === 0 ? null : table("Failed cells", [{title: "run"}, {title: "factors"}, {title: "why"}], failed.map(cell => [runLink(indexOfRun(cell.run), cell.run || `cell ${cell.index}`), factorText(cell.factors), cell.note ?? ""]))),
  ];
};
