// The runs themselves: settings, each run's entry, and how anyone executes them again.

const settingsSection = () => {
  const runs = report.runs, sound = runs.map((run, index) => ({run, index})).filter(({run}) => run.state !== "damaged");
  if (sound.length === 0) return null;
  const differing = report.differing.slice(0, 40);
  const common = Object.entries(report.common);
  const list = () => table("Settings", [{title: "key"}, {title: "value"}], common.map(([key, value]) => [h("code", {}, key), h("code", {}, value)]));
  if (runs.length === 1) return section("settings", "Settings", null, details("settings-all", plural(common.length, "setting") + " of the experiment", list));
  return section("settings", "Settings", differing.length === 0 ? "All runs have the same settings." : null,
    differing.length === 0 ? null : table("What differs between the runs", [{title: "run"}, ...differing.map(key => ({title: key}))],
      sound.map(({run, index}) => () => [runLink(index), ...differing.map(key => run.settings[key] === undefined ? "–" : h("code", {}, run.settings[key]))])),
    report.differing.length > differing.length ? h("p", {class: "soft"}, `${formatWhole(report.differing.length - differing.length)} more keys differ.`) : null,
    common.length === 0 ? null : details("settings-all", plural(common.length, "setting") + " that all share", list));
};

// Of very many runs the first rows are made at once, more where a link leads to one or the button asks for them.
const mostRows = 500;
let showRun = () => {};

// `showRun(index)` puts a row that is not there yet where it belongs.
const growingTable = (label, columns, rows) => {
  const words = () => `${label}: ${formatWhole(body.rows.length)} are shown; a link to a run shows that one`;
  const element = table(label, columns, rows, mostRows), body = element.querySelector("tbody"), caption = element.querySelector("caption");
  const button = h("button", {type: "button", onclick: () => {
    const missing = rows.map((_, index) => index).filter(index => !document.getElementById(runAnchor(index))).slice(0, mostRows);
    missing.forEach(showRun);
    button.hidden = body.rows.length === rows.length;
  }}, `Show ${formatWhole(mostRows)} more runs`);
  showRun = index => {
    if (!(index >= 0 && index < rows.length) || body.querySelector(`#${runAnchor(index)}`)) return;
    const after = [...body.rows].find(row => Number(row.id.slice(4)) > index + 1) ?? null;
    body.insertBefore(tableRow(columns, rows[index]), after);
    caption.textContent = words();
  };
  caption.textContent = words();
  return [element, h("p", {class: "controls"}, button)];
};

const runsSection = () => {
  const runs = report.runs;
  showRun = () => {};
  if (runs.length === 0) return null;
  const names = metricNames(runs).slice(0, 4);
  const rows = runs.map((run, index) => () => ({id: runAnchor(index), cells: [
    [h("strong", {}, runs.length > 1 ? runLabel(index) : run.name), h("small", {class: "where"}, h("code", {}, run.id), h("br"), "path ", h("code", {}, run.path),
      run.seal ? [h("br"), "seal ", h("code", {}, runs.length > 50 ? run.seal.slice(0, 16) + "…" : run.seal)] : null, run.note ? [h("br"), run.note] : null)],
    stateBadge(run), formatWhole(run.steps), ...names.map(({set, name}) => formatNumber(metricOf(run, set, name)?.value ?? null)),
    h("code", {title: run.weights}, shortWeights(run.weights))]}));
  const columns = [{title: "run"}, {title: "state"}, {title: "steps", number: true}, ...names.map(({set, name}) => ({title: `${set} ${name}`, number: true})), {title: "weights"}];
  if (runs.length > 2 * mostRows) return section("runs", "Runs", null, growingTable(`${formatWhole(runs.length)} runs`, columns, rows));
  return section("runs", runs.length === 1 ? "The run" : "Runs", null, table(runs.length === 1 ? "The run" : `All ${formatWhole(runs.length)} runs`, columns, rows));
};

const qrImage = qr => {
  const rows = qr.rows, size = rows.length + 8;
  const path = rows.flatMap((row, y) => [...row].map((bit, x) => bit === "1" ? `M${x + 4} ${y + 4}h1v1h-1z` : "")).join("");
  const name = "http://www.w3.org/2000/svg", svg = document.createElementNS(name, "svg");
  for (const [key, value] of Object.entries({viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": "QR code of the verify command, the weights' fingerprint and the seal", class: "qr", "shape-rendering": "crispEdges"})) svg.setAttribute(key, value);
  const ground = document.createElementNS(name, "rect");
  for (const [key, value] of Object.entries({width: size, height: size, fill: "#ffffff"})) ground.setAttribute(key, value);
  const dark = document.createElementNS(name, "path");
  dark.setAttribute("d", path);
  dark.setAttribute("fill", "#000000");
  svg.append(ground, dark);
  return svg;
};

const promise = run => {
  if (run.state === "damaged") return "The record is damaged: nothing that it says is shown.";
  if (!isFinished(run)) return "The run is not finished: it has no seal yet and cannot be verified.";
  if (run.stock) return `Recorded with stock PyTorch (${run.contract}). Nothing is promised about its bits: executed again, it may give others.`;
  return `Recorded under the contract ${run.contract}, which defines every result to the last bit. The command below executes the run again and compares each step; on any machine it must find these weights.`;
};

const machineOf = environment => {
  if (!environment) return "";
  const hardware = environment.hardware ?? {}, execution = environment.run ?? {};
  return [hardware.cpu, hardware.cores ? `${hardware.cores} cores` : null, execution.device && execution.device !== "cpu" ? execution.device : null, execution.isa, execution.threads ? `${execution.threads} threads` : null,
    execution.torch ? `torch ${execution.torch}` : null, environment.libraries?.system].filter(Boolean).map(String).join(", ");
};

const dataTable = data => !data?.files?.length ? null : table("Data", [{title: "file"}, {title: "bytes", number: true}, {title: "SHA-256"}],
  data.files.map(file => [String(file.name), formatWhole(Number(file.size)), h("code", {}, String(file.sha256))]));

const statementCard = (run, index) => h("article", {class: "statement"},
  h("h3", {}, runLink(index, report.runs.length > 1 ? runLabel(index) : run.name)),
  h("div", {class: "beside"}, h("div", {},
    h("p", {}, promise(run)),
    run.outside.length ? h("p", {class: "callout"}, "Parts of it ran in stock arithmetic: ", run.outside.join("; "), ".") : null,
    run.verify ? h("pre", {class: "command", tabindex: "0", "aria-label": "Command"}, run.verify) : null,
    pairs([["weights", run.weights ? h("code", {}, run.weights) : ""], ["SHA-256 of the weights", run.weights_sha256 ? h("code", {}, run.weights_sha256) : ""], ["seal of the record", run.seal ? h("code", {}, run.seal) : ""],
      ["record", run.record], ["parts of components", run.parts ? run.parts.join(", ") : ""], ["claimed by the recorder: machine", machineOf(report.environments[run.environment])], ["claimed: began", run.created]]),
    run.data ? details(`data-${run.id}`, "Data files with their digests", () => dataTable(run.data) ?? h("p", {}, "The record names no data files: steps.jsonl has a digest of each batch.")) : null),
  run.qr?.rows.length ? h("div", {class: "code"}, qrImage(run.qr), h("p", {class: "soft"}, "the command, the weights and the seal")) : null));

const reproducibility = () => {
  const runs = report.runs;
  if (runs.length === 0) return null;
  if (runs.length <= 4) return section("reproducibility", "Reproducibility", null, runs.map(statementCard));
  const finished = runs.filter(isFinished), stock = finished.filter(run => run.stock).length, outside = runs.filter(run => run.outside.length).length;
  const contracts = [...new Set(finished.map(run => run.contract))];
  return section("reproducibility", "Reproducibility", null,
    h("p", {}, `${formatWhole(finished.length)} of ${plural(runs.length, "run")} are finished and sealed${contracts.length ? `, recorded under ${contracts.join(" and ")}` : ""}. `,
      stock < finished.length ? "Executed again on any machine, each run of isobit must give the same weights, bit by bit." : ""),
    stock ? h("p", {}, `${plural(stock, "run")} with stock PyTorch: nothing is promised about ${stock === 1 ? "its" : "their"} bits.`) : null,
    outside ? h("p", {class: "callout"}, `Parts of ${plural(outside, "run")} ran in stock arithmetic.`) : null,
    finished.length ? h("pre", {class: "command", tabindex: "0", "aria-label": "Command"}, `isobit verify RUN        # for example ${finished[0].id}`) : null,
    h("p", {class: "soft"}, "RUN is the id in the table of runs, with the seal of its record."));
};
