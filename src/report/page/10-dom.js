// Elements and texts. Every text that comes from a record reaches the page through textContent: it is never markup.

const h = (tag, attributes, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
};

// NaN and infinities are texts in JSON.
const toNumber = value => value === null || value === undefined ? null
  : typeof value === "number" ? value
  : value === "nan" ? NaN : value === "inf" ? Infinity : value === "-inf" ? -Infinity : null;

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const formatWhole = value => whole.format(value);

// Four significant digits or more, never more than a reader can use; NaN and infinities by name.
const formatNumber = given => {
  const value = toNumber(given);
  if (value === null) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e15) return formatWhole(value).replace("-", "−");
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(2) : size >= 100 ? value.toFixed(1) : value.toFixed(4);
  return text.replace(/^-/, "−").replace("e-", "e−").replace("e+", "e");
};

const formatSigned = value => (toNumber(value) > 0 ? "+" : "") + formatNumber(value);
const formatProbability = value => toNumber(value) === null ? "–" : toNumber(value) < 0.0001 ? "< 0.0001" : toNumber(value).toFixed(4);
const formatPercent = value => toNumber(value) === null ? "–" : (100 * toNumber(value)).toFixed(1) + " %";
const formatSeconds = value => value < 120 ? value.toFixed(1) + " s" : value < 7200 ? (value / 60).toFixed(1) + " min" : (value / 3600).toFixed(1) + " h";
const plural = (count, what) => `${formatWhole(count)} ${what}${count === 1 ? "" : "s"}`;

// "isobit-0.1:3f8c9fce…"
const shortWeights = text => {
  const colon = text.indexOf(":");
  return text === "" ? "–" : text.length > colon + 13 ? text.slice(0, colon + 9) + "…" : text;
};

// Opened details stay open when a live page is drawn again.
const opened = new Set();
const details = (key, summary, content, open = false) => {
  const element = h("details", {"data-key": key, open: open || opened.has(key)}, h("summary", {}, summary));
  let filled = false;
  const fill = () => {
    if (!filled) element.append(...[content()].flat());
    filled = true;
  };
  if (element.open) fill();
  element.addEventListener("toggle", () => {
    if (element.open) fill(), opened.add(key);
    else opened.delete(key);
  });
  return element;
};

const tableRow = (columns, given) => {
  const row = typeof given === "function" ? given() : given;
  const cell = (value, i, tag) => h(tag, {class: columns[i].number ? "number" : null, scope: tag === "th" ? "row" : null}, value);
  return h("tr", {id: row.id ?? null}, (row.cells ?? row).map((value, i) => cell(value, i, i === 0 ? "th" : "td")));
};

// columns: [{title, number}], rows: lists of texts or elements, or functions that make one where it is shown. Rows beyond
// the limit are left out, and the table says so.
const table = (label, columns, rows, limit = 1000) => {
  const shown = rows.slice(0, limit);
  return h("div", {class: "scroll", role: "region", "aria-label": "Table: " + label, tabindex: "0"},
    h("table", {},
      h("caption", {}, label + (shown.length < rows.length ? ` (the first ${formatWhole(limit)} of ${formatWhole(rows.length)} rows)` : "")),
      h("thead", {}, h("tr", {}, columns.map(c => h("th", {class: c.number ? "number" : null, scope: "col"}, c.title)))),
      h("tbody", {}, shown.map(row => tableRow(columns, row)))));
};

const pairs = items => h("dl", {class: "pairs"}, items.filter(item => item[1] !== null && item[1] !== "").map(
  ([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

// ---- runs

let report;  // the document, "isobit-report-1"

// What is looked up by name and id, made once per document: there may be ten thousand runs.
const lookups = new WeakMap();
const lookup = () => {
  let found = lookups.get(report);
  if (!found) {
    found = {count: new Map(), index: new Map()};
    report.runs.forEach((run, index) => {
      found.count.set(run.name, (found.count.get(run.name) ?? 0) + 1);
      if (!found.index.has(run.id)) found.index.set(run.id, index);
    });
    lookups.set(report, found);
  }
  return found;
};

const runAnchor = index => `run-${index + 1}`;
const runLabel = index => {
  const run = report.runs[index];
  return lookup().count.get(run.name) === 1 ? run.name : `${run.name} #${index + 1}`;
};
// Every number leads to the run that it came from.
const runLink = (index, text, attributes = {}) =>
  index < 0 ? h("span", {}, text) : h("a", {href: "#" + runAnchor(index), class: "run", ...attributes}, text ?? runLabel(index));
const indexOfRun = id => lookup().index.get(id) ?? -1;

// The last value that was measured: {set, name, value, step}; the test set's before the training set's.
const lastOf = curve => curve && curve.values.length > 0 ? {value: curve.values.at(-1), step: curve.steps.at(-1)} : null;
const metricOf = (run, set, name) => lastOf(run.metrics[set]?.[name]);
const metricNames = runs => {
  const names = [];
  for (const run of runs) {
    for (const set of ["test", "train"]) {
      for (const name of Object.keys(run.metrics[set] ?? {})) {
        if (!names.some(other => other.set === set && other.name === name)) names.push({set, name});
      }
    }
  }
  const order = ({set, name}) => (set === "test" ? 0 : 10) + (name === "accuracy" ? 0 : name === "loss" ? 2 : 1);
  return names.sort((a, b) => order(a) - order(b));
};
