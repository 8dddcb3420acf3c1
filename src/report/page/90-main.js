// The page: drawn from the document, and of a live page drawn again when its server says that something changed.

const contents = sections => h("nav", {"aria-label": "Contents"}, h("ul", {}, sections.map(element =>
  h("li", {}, h("a", {href: "#" + element.id}, element.querySelector("h2").textContent)))));

function render() {
  drawings.clear();
  sizes.disconnect();
  const sections = [diffSection(), ...study(), curves(), driftSection(), confusionSection(), ...componentSections(), settingsSection(), runsSection(), reproducibility()].filter(Boolean);
  const place = window.scrollY, focused = document.activeElement?.id;
  document.getElementById("page").replaceChildren(overview(), sections.length > 1 ? contents(sections) : "", h("main", {id: "content"}, sections));
  for (const container of [...drawings.keys()]) drawInto(container);
  showLinked();
  window.scrollTo(0, place);
  if (focused) document.getElementById(focused)?.focus({preventScroll: true});
}

// An answer holds every run in order, those that did not change since `version` by their id alone.
function merge(answer) {
  const known = new Map(report.runs.map(run => [run.id, run]));
  report = {...answer, runs: answer.runs.map(run => run.unchanged ? known.get(run.id) : run).filter(Boolean)};
}

async function follow() {
  let version = report.live.version, silent = 0;
  const word = h("p", {class: "live", role: "status"}, "live");
  document.body.prepend(word);
  for (;;) {
    await new Promise(done => setTimeout(done, document.hidden ? 10000 : silent > 3 ? 5000 : 1500));
    try {
      const answer = await fetch(`data.json?since=${version}`, {cache: "no-store"});
      if (!answer.ok) throw new Error(String(answer.status));
      const given = await answer.json();
      silent = 0;
      word.textContent = "live";
      word.className = "live";
      if (given.live.version === version) continue;
      version = given.live.version;
      merge(given);
      render();
    } catch {
      silent += 1;
      if (silent > 1) word.textContent = "isobit watch has ended: this is what it last said", word.className = "live ended";
    }
  }
}

// The row of the run that the address names: it may not be made yet.
function showLinked() {
  const run = /^#run-([0-9]{1,9})$/.exec(location.hash);
  if (run) showRun(Number(run[1]) - 1);
}

function visit() {
  showLinked();
  if (location.hash.length > 1) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

report = JSON.parse(document.getElementById("report").textContent);
render();
window.addEventListener("hashchange", visit);
visit();
if (report.live) follow();
