// A figure: title, legend, drawing, caption, and a table with its numbers. Drawn anew when its width changes.

const seriesColors = ["var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)", "var(--c7)", "var(--c8)"];
const drawings = new Map();  // container -> draw
const sizes = new ResizeObserver(entries => {
  for (const {target} of entries) drawInto(target);
});

function drawInto(container) {
  const draw = drawings.get(container);
  const width = Math.floor(container.clientWidth);
  if (!draw || width < 60 || container.drawnWidth === width) return;
  container.drawnWidth = width;
  const svg = draw(width);
  container.replaceChildren(svg);
}

// Plot's own <style> is not among those that the page's policy lets pass; page.css has its rules.
const plot = (label, options) => {
  const svg = Plot.plot({className: "plot", ...options});
  svg.querySelectorAll("style").forEach(style => style.remove());
  // An image with one name: Plot names every mark, too, which groups must not have.
  svg.querySelectorAll("[aria-label], [aria-description]").forEach(mark => (mark.removeAttribute("aria-label"), mark.removeAttribute("aria-description")));
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  return svg;
};

const legend = items => items.length < 2 && !items.some(item => item.always) ? null : h("ul", {class: "legend"}, items.map(item => {
  const swatch = h("span", {class: "swatch " + (item.kind ?? ""), "aria-hidden": "true"});
  swatch.style.setProperty("--color", item.color);
  return h("li", {}, swatch, item.label);
}));

// {id, title, items: of the legend, draw(width): svg, caption, table(): element, controls, wide}
const figure = ({id, title, items = [], draw, caption, table: makeTable, controls, wide}) => {
  const container = h("div", {class: "drawing"});
  drawings.set(container, draw);
  sizes.observe(container);
  return h("figure", {id, class: wide ? "wide" : null, role: "group", "aria-labelledby": id + "-title"},
    h("h3", {id: id + "-title"}, title), controls, legend(items), container,
    caption ? h("figcaption", {}, caption) : null,
    makeTable ? details(id + "-table", "As a table", makeTable) : null);
};

const heightFor = width => Math.round(Math.min(340, Math.max(210, width * 0.55)));

// Logarithmic where values spread over two powers of ten and are all above zero.
const scaleType = values => {
  const finite = values.filter(value => Number.isFinite(value));
  const extent = d3.extent(finite);
  return extent[0] > 0 && extent[1] / extent[0] > 60 ? "log" : "linear";
};

const stepAxis = (width, most) => ({label: "step", ticks: Math.max(3, Math.round(width / 110)), tickFormat: most < 20000 ? formatWhole : "~s"});

// On a logarithmic scale: powers of ten, with 2 and 5 between where there are few.
const valueAxis = (label, type, values) => {
  if (type !== "log") return {label, grid: true, nice: true, ticks: 6};
  const [low, high] = d3.extent(values.filter(value => Number.isFinite(value)));
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const every = Math.max(1, Math.ceil((last - first) / 7));
  const steps = last - first <= 2 ? [1, 2, 5] : [1];
  const ticks = d3.range(first, last + 1).filter(power => (power - first) % every === 0)
    .flatMap(power => steps.map(factor => factor * 10 ** power)).filter(tick => tick >= low * 0.999 && tick <= high * 1.001);
  return {label, grid: true, type, ticks, tickFormat: value => value >= 1e6 || value < 1e-4 ? value.toExponential(0).replace("e-", "e−").replace("e+", "e") : d3.format("~g")(value)};
};

// A section of the page; null where it has nothing to show.
const section = (id, title, lead, ...content) => {
  const kept = content.flat(Infinity).filter(Boolean);
  if (kept.length === 0) return null;
  return h("section", {id, "aria-labelledby": id + "-heading"}, h("h2", {id: id + "-heading"}, title),
    lead ? h("p", {class: "lead"}, lead) : null, kept);
};
const figures = (...content) => h("div", {class: "figures"}, content.flat().filter(Boolean));
