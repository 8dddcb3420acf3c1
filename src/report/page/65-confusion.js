// Which class was taken for which.

const shareLevel = share => share === 0 ? 0 : share < 0.02 ? 1 : share < 0.1 ? 2 : share < 0.3 ? 3 : share < 0.6 ? 4 : share < 0.85 ? 5 : 6;

const confusionFigure = (index, item, number) => {
  const counts = item.counts, classes = counts.map((row, i) => i);
  const cells = counts.flatMap((row, truth) => {
    const sum = d3.sum(row);
    return row.map((count, predicted) => ({truth, predicted, count, share: sum > 0 ? count / sum : 0}));
  });
  const right = d3.sum(classes, i => counts[i][i]);
  const draw = width => {
    const side = Math.min(width, 620), numbers = classes.length <= 20 && side / classes.length > 24;
    return plot(`Confusion matrix of ${classes.length} classes: ${formatWhole(right)} of ${formatWhole(item.samples)} right; the numbers are in the table below`, {
      width: side, height: side * 0.92, marginLeft: 44, marginTop: 8, marginBottom: 40, color: {type: "identity"},
      x: {type: "band", domain: classes, label: "predicted class", tickSize: 0, padding: classes.length > 40 ? 0 : 0.04, ticks: classes.filter(i => i % Math.ceil(classes.length / 20) === 0)},
      y: {type: "band", domain: classes, label: "true class", tickSize: 0, padding: classes.length > 40 ? 0 : 0.04, ticks: classes.filter(i => i % Math.ceil(classes.length / 20) === 0)},
      marks: [Plot.cell(cells, {x: "predicted", y: "truth", fill: cell => `var(--h${shareLevel(cell.share)})`}),
        numbers ? Plot.text(cells.filter(cell => cell.count > 0), {x: "predicted", y: "truth", text: cell => formatWhole(cell.count), fill: cell => `var(--h${shareLevel(cell.share)}-ink)`, fontSize: 11}) : null,
        Plot.tip(cells, Plot.pointer({x: "predicted", y: "truth", title: cell => `true ${cell.truth}, predicted ${cell.predicted}\n${formatWhole(cell.count)}, ${formatPercent(cell.share)} of the class`}))],
    });
  };
  const makeTable = () => table("Counts: a row per true class", [{title: "true class"}, ...classes.map(i => ({title: `predicted ${i}`, number: true}))], counts.map((row, i) => [String(i), ...row.map(formatWhole)]));
  const labels = ["none", "below 2 %", "2–10 %", "10–30 %", "30–60 %", "60–85 %", "85 % or more"];
  return figure({id: `confusion-${index}-${number}`, title: report.runs.length > 1 ? `${runLabel(index)}, ${item.set} set` : `${item.set[0].toUpperCase()}${item.set.slice(1)} set`, draw, table: makeTable,
    items: labels.map((label, i) => ({label, color: `var(--h${i})`, kind: "area"})),
    caption: [runLink(index, `${formatWhole(right)} of ${formatWhole(item.samples)}`), ` right at step ${formatWhole(item.step)}. Colour: share of the true class.`]});
};

const confusionSection = () => {
  const found = report.runs.flatMap((run, index) => run.predictions.map((item, i) => ({index, item, i})));
  if (found.length === 0) return null;
  const drawn = found.filter(({item}) => item.counts).slice(0, 12);
  const why = [...new Set(found.filter(({item}) => !item.counts).map(({item}) => item.why))];
  return section("confusion", "Confusion", null, drawn.length ? figures(drawn.map(({index, item, i}) => confusionFigure(index, item, i))) : null,
    why.map(text => h("p", {class: "soft"}, `No matrix${drawn.length ? " of the other evaluations" : ""}: ${text}.`)));
};
