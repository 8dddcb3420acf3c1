// Two runs: what differs in their records, the first step that does, and the operator at which they part.

const partNames = {experiment: "Experiment", data: "Data", code: "Code", environment: "Environment", hardware: "Hardware"};
const difference = side => side === null ? h("span", {class: "soft"}, "none") : h("code", {}, side);

const fieldNames = {weights: "weights differ", gradients: "gradients differ", optimizer: "optimizer's state differs"};

const firstStep = diff => {
  const step = diff.first_step;
  if (!step) return h("p", {}, diff.results === "equal" ? "No recorded step differs." : "No first step was found.");
  return [h("p", {}, "The records part at ", h("strong", {}, `step ${formatWhole(step.step)}`), step.epoch ? ` (epoch ${formatWhole(step.epoch)})` : "", `: the ${fieldNames[step.field] ?? `${step.field} differs`} first.`),
    pairs([["a", difference(step.a)], ["b", difference(step.b)]])];
};

const operatorOf = diff => {
  const op = diff.operator;
  if (!op) return diff.not_looked_into ? h("p", {}, "No operator is named: ", diff.not_looked_into) : null;
  const share = toNumber(op.elements) > 0 ? ` (${formatPercent(op.differing / op.elements)})` : "";
  return h("div", {class: "operator"}, h("h3", {}, "The first operator whose inputs agree and whose outputs do not"),
    pairs([["operator", h("code", {}, op.name)], ["module", op.module ? h("code", {}, op.module) : ""], ["when", `step ${formatWhole(op.step)}${op.phase ? ", " + op.phase : ""}${toNumber(op.occurrence) !== null ? `, occurrence ${op.occurrence}` : ""}`],
      ["output", `${toNumber(op.output) !== null ? `number ${op.output}, ` : ""}${op.dtype ?? ""} ${op.shape ? "[" + op.shape.join(", ") + "]" : ""}`],
      ["largest difference", toNumber(op.max_ulp) === null ? "" : `${formatNumber(op.max_ulp)} ULP${op.at ? ` at [${op.at.join(", ")}]` : ""}`],
      ["elements that differ", toNumber(op.differing) === null ? "" : `${formatWhole(op.differing)} of ${formatWhole(op.elements)}${share}`]]));
};

const codeDiff = text => h("pre", {class: "code-diff", tabindex: "0", "aria-label": "Difference of the code"}, text.split("\n").map(line =>
  h("span", {class: line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : line.startsWith("@@") ? "place" : null}, line + "\n")));

const diffSection = () => {
  const diff = report.diff;
  if (!diff) return null;
  const side = name => {
    const index = indexOfRun(diff[name].id);
    return [`${name}`, index < 0 ? diff[name].id : runLink(index, `${diff[name].name ?? ""} ${diff[name].id}`)];
  };
  const compared = diff.compared ? Object.entries(diff.compared).filter(([, n]) => toNumber(n) > 0).map(([what, n]) => `${formatWhole(n)} ${what}`).join(", ") : "";
  const verdict = {equal: ["same", "Results equal"], differ: ["other", "Results differ"], unknown: ["unknown", "Cannot be told"]}[diff.results];
  const rows = diff.differences.map(row => [partNames[row.part] ?? row.part, h("code", {}, row.key), difference(row.a), difference(row.b), row.counts === null ? "–" : row.counts ? "counts" : "does not count"]);
  return section("difference", "Difference", null,
    h("p", {class: `verdict ${verdict[0]}`}, verdict[1], compared ? h("small", {}, `compared: ${compared}`) : null),
    pairs([side("a"), side("b")]), firstStep(diff), operatorOf(diff),
    h("h3", {}, "What differs in the records"),
    rows.length === 0 ? h("p", {}, "Nothing.") : table("Differences of the records", [{title: "part"}, {title: "key"}, {title: "a"}, {title: "b"}, {title: "for the result"}], rows),
    diff.code_diff ? details("code-diff", "Difference of the code", () => codeDiff(diff.code_diff)) : null);
};
