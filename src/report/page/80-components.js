// Sections of components: `drawSection[NAME]` is a function (whole, runs) that returns an element or null (page_section.h).

const drawSection = {};

const componentSections = () => Object.entries(drawSection).map(([name, draw]) => {
  const given = report.runs.map((run, index) => ({index, run, data: run.sections?.[name] ?? null})).filter(({data}) => data !== null);
  const problems = given.filter(({data}) => data.problem !== undefined), runs = given.filter(({data}) => data.problem === undefined);
  const whole = report.sections?.[name] ?? null;
  const drawn = whole === null && runs.length === 0 ? null : draw(whole, runs);
  if (problems.length === 0) return drawn;
  return section(drawn ? name + "-problems" : name, drawn ? `Not shown of ${name}` : name, null, drawn,
    problems.map(({index, data}) => h("p", {class: "callout"}, runLink(index), ": ", data.problem)));
});
