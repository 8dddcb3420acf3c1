"""isobit export --to and isobit show --tables, read by other programs."""

import csv
import hashlib
import json
import os
import subprocess
import tarfile
import unittest

import made_up
from cases import PAGES, Case

READ_MLFLOW = """
import json, sys
from mlflow.tracking import MlflowClient
client, found = MlflowClient("file://" + sys.argv[1]), []
for experiment in client.search_experiments():
    for run in client.search_runs([experiment.experiment_id]):
        found.append({"experiment": experiment.name, "name": run.info.run_name, "status": run.info.status, "metrics": run.data.metrics, "params": run.data.params,
                      "tags": run.data.tags, "losses": [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, "loss")],
                      "artifacts": sorted(a.path for a in client.list_artifacts(run.info.run_id))})
print(json.dumps(found))
"""
READ_CRATE = """
import json, sys
from rocrate.rocrate import ROCrate
crate = ROCrate(sys.argv[1])
run = crate.dereference("#run")
print(json.dumps({"name": crate.name, "files": sorted(e.id for e in crate.data_entities), "instrument": run["instrument"]["name"], "result": run["result"].id,
                  "profile": crate.root_dataset["conformsTo"].id, "exist": all((crate.source / e.id).exists() for e in crate.data_entities)}))
"""


class Formats(Case):
    def other(self, module, program, *words):
        """What the program prints under the Python of scripts/setup --pages."""
        python = PAGES / "bin" / "python"
        if not python.exists() or subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
            (self.fail if "pages" in os.environ.get("ISOBIT_REQUIRE", "").split() else self.skipTest)(
                f"{module} is not installed (scripts/setup --pages)")
        return json.loads(self.call(python, "-W", "ignore", "-c", program, *words, environment={"MLFLOW_ALLOW_FILE_STORE": "true"}).splitlines()[-1])

    def test_csv(self):
        self.make_run()
        self.isobit("export", "last", "--to", "csv", "tables")
        rows = {path.stem: list(csv.reader(path.open(newline=""), strict=True)) for path in (self.folder / "tables").iterdir()}
        self.assertEqual(set(rows), {"steps", "metrics", "timings", "checkpoints", "evaluations", "outside", "settings", "data"})
        self.assertEqual(rows["steps"][0], ["step", "epoch", "loss", "loss_bits", "batch", "weights", "optimizer", "gradients"])
        self.assertEqual([row[0] for row in rows["steps"][1:]], [str(i) for i in range(1, 9)])
        self.assertEqual(rows["metrics"][-1], ["8", "2", "test", "loss", "0.125"])
        self.assertEqual(rows["settings"][1:], [["name", '"small"'], ["seed", "7"]])
        self.assertTrue((self.folder / "tables" / "steps.csv").read_bytes().endswith(b"\r\n"))
        shown = json.loads(self.isobit("show", "last", "--tables"))
        self.assertEqual(shown["claimed"], ["run", "timings.step", "timings.phase", "timings.seconds", "timings.samples",
                                            "checkpoints.size of files that were deleted", "checkpoints.sha256 of files that were deleted"])
        columns = shown["tables"]
        for name, table in columns.items():
            self.assertEqual(list(table), rows[name][0])
            self.assertEqual([["" if v is None else v if isinstance(v, str) else json.dumps(v) for v in row] for row in zip(*table.values(), strict=True)], rows[name][1:])

    def test_a_folder_is_whole_and_never_replaced(self):
        self.make_run()
        (self.folder / "there").mkdir()
        (self.folder / "there" / "mine").write_text("keep")
        for to in ("csv", "ro-crate", "mlflow"):
            self.assertIn("exists", self.isobit("export", "last", "--to", to, "there", expect=2))
        self.assertEqual([path.name for path in (self.folder / "there").iterdir()], ["mine"])
        self.assertIn("is no format", self.isobit("export", "last", "--to", "xml", expect=2))
        self.assertIn("second argument", self.isobit("export", "last", "somewhere", expect=2))
        self.make_run("going", "interrupted")
        self.isobit("export", "last", "--to", "csv", "out", expect=2)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["cache", "runs", "there"])

    def test_secrets_stop_every_format(self):
        (self.folder / "sources.json").write_text(json.dumps({"format": "isobit-sources-1", "files": {"train.py": "password = 'kq8Jf92mXw'\n"}}))
        run = self.make_run("program", "finished", "runs", "sources.json")
        for to in ("csv", "mlflow", "ro-crate"):
            self.assertIn("possible secret", self.isobit("export", run, "--to", to, "out", expect=2))
            self.assertFalse((self.folder / "out").exists())
        self.isobit("export", run, "--to", "ro-crate", "out", "--redact")
        with tarfile.open(self.folder / "out" / "run.tar") as tar:
            self.assertNotIn(b"kq8Jf92mXw", b"".join(tar.extractfile(m).read() for m in tar.getmembers()))

    def test_mlflow(self):
        first = self.make_run("small")
        second = self.make_run("small")
        for run in (first, second):
            self.isobit("export", run, "--to", "mlflow", "mlruns")
        self.assertIn("exists already", self.isobit("export", first, "--to", "mlflow", "mlruns", expect=2))
        found = self.other("mlflow", READ_MLFLOW, self.folder / "mlruns")
        self.assertEqual(sorted(run["name"] for run in found), sorted([first, second]))
        for run in found:
            self.assertEqual((run["experiment"], run["status"], run["params"]), ("small", "FINISHED", {"name": '"small"', "seed": "7"}))
            self.assertEqual(run["metrics"]["test/accuracy"], 0.58)
            self.assertEqual([step for step, _ in run["losses"]], list(range(1, 9)))
            self.assertEqual(run["tags"]["isobit.weights"], "isobit-0.1:00112233445566778899aabbccddeeff")
            self.assertEqual(run["artifacts"], ["data.json", "environment.json", "experiment.toml"])

    def test_ro_crate(self):
        run = self.make_run()
        self.isobit("export", "last", "--to", "ro-crate", "crate")
        graph = {entity["@id"]: entity for entity in json.loads((self.folder / "crate" / "ro-crate-metadata.json").read_text())["@graph"]}
        for part in graph["./"]["hasPart"]:
            content = (self.folder / "crate" / part["@id"]).read_bytes()
            self.assertEqual((graph[part["@id"]]["contentSize"], graph[part["@id"]]["sha256"]), (str(len(content)), hashlib.sha256(content).hexdigest()))
        self.isobit("export", run, "--out", "run.tar")
        self.assertEqual((self.folder / "crate" / "run.tar").read_bytes(), (self.folder / "run.tar").read_bytes())
        read = self.other("rocrate", READ_CRATE, self.folder / "crate")
        self.assertEqual((read["name"], read["instrument"], read["result"], read["exist"]), (f"Training run {run}", "isobit", "run.tar", True))
        self.assertEqual(set(read["files"]), {part["@id"] for part in graph["./"]["hasPart"]})


class Reports(Case):
    """Inputs that a report refuses, and what it leaves alone."""

    def test_bad_inputs_are_named(self):
        run = self.make_run()
        sound = made_up.diff(run, run)
        for change, words in (({"format": "isobit-diff-2"}, "is not isobit-diff-1"), ({"results": "maybe"}, "results: is not equal, differ or unknown"),
                              ({"a": 3}, "a: is not an object"), ({"differences": [{"part": "data"}]}, "differences[0].key: is missing"),
                              ({"operator": {"name": 7, "step": 1}}, "operator.name: is not a text")):
            made_up.write(self.folder / "diff.json", {**sound, **change})
            self.assertIn(f"diff.json: {words}" if "is not isobit" not in words else words, self.isobit("report", run, "--diff", "diff.json", expect=2))
        for text in ("", "{", "[" * 100, '{"format": "isobit-diff-1", "format": "isobit-diff-1"}'):
            (self.folder / "diff.json").write_text(text)
            self.assertIn("diff.json: cannot be read as JSON", self.isobit("report", run, "--diff", "diff.json", expect=2))
        drift = made_up.drift(run, [run], layers=2, steps=2)
        drift["cells"][1].pop("layer")
        made_up.write(self.folder / "drift.json", drift)
        self.assertIn("cells[1].layer: is missing", self.isobit("report", run, "--drift", "drift.json", expect=2))
        study = made_up.study(self.folder / "study", ["../../etc"])
        self.assertIn("is no run's id", self.isobit("report", study, expect=2))
        self.assertEqual(list(self.folder.glob("*.html")), [])

    def test_a_studys_list_is_held_against_its_records(self):
        run = self.make_run("cell", "finished", "study/runs")
        study = made_up.study(self.folder / "study", [run])
        self.isobit("report", study, "--out", "page.html")
        cells = self.document("page.html")["study"]["cells"]["cells"]
        self.assertEqual([cell["standing"] for cell in cells], ["record"] + ["claimed"] * 39)
        sound = json.loads((study / "cells.json").read_text())
        for forge, words in ((lambda cell: cell.update(value=0.999), "test.accuracy is 0.58 in it, 0.999 here"),
                             (lambda cell: cell["factors"].update(seed=4711), "seed is ")):
            forged = json.loads(json.dumps(sound))
            forge(forged["cells"][0])
            made_up.write(study / "cells.json", forged)
            self.assertIn(words, self.isobit("report", study, "--out", "forged.html", expect=2))
        self.assertFalse((self.folder / "forged.html").exists())

    def test_no_word_is_every_run_and_a_folder_all_of_its_runs(self):
        self.assertIn("isobit: runs: holds no runs", self.isobit("report", expect=2))
        oldest, newest = (self.make_run(name, "finished", "runs") for name in ("oldest", "newest"))
        unfinished = self.make_run("unfinished", "interrupted", "runs")
        elsewhere = self.make_run("small", "finished", "else where/of the lab")
        made = sorted([oldest, newest, unfinished])

        def shown(*words, **keywords):
            told = json.loads(self.isobit("report", *words, "--json", **keywords))
            self.assertEqual(told["runs"], [run["id"] for run in self.document(told["file"])["runs"]])
            return told["runs"]
        for words in ((), ("runs",), ("./runs/",), (self.folder / "runs",), ("--runs", "runs")):
            self.assertEqual(sorted(shown(*words)), made)
        self.assertEqual(sorted(shown(environment={"ISOBIT_RUNS": "runs"})), made)
        self.assertEqual(shown(environment={"ISOBIT_RUNS": "else where/of the lab"}), [elsewhere])
        self.assertEqual(shown("else where/of the lab"), [elsewhere])
        self.assertEqual(sorted(shown("else where/of the lab", "runs")), sorted([*made, elsewhere]))
        self.assertEqual(shown("else where/of the lab", oldest), [elsewhere, oldest])
        self.assertEqual(shown(f"runs/{newest}"), [newest])  # a run is one, though it is a folder, too
        (self.folder / "last").symlink_to("else where/of the lab")
        self.assertIn(shown("last")[0], made)
        study = made_up.study(self.folder / "study", [self.make_run("cell", "finished", "study/runs")])
        self.isobit("report", study, "--out", "study.html")
        self.assertEqual(self.document("study.html")["study"]["cells"]["name"], "lr and arithmetic")
        self.assertEqual(len(shown("study/runs")), 1)
        self.assertIn("study, which a report shows by itself", self.isobit("report", study, "runs", expect=2))
        (self.folder / "nothing").mkdir()
        self.assertIn("isobit: nothing/: not a run's folder", self.isobit("report", "nothing/", expect=2))
        self.assertIn("isobit: nobody: holds no runs", self.isobit("report", "--runs", "nobody", expect=2))

    def test_two_runs_of_a_folder_are_compared(self):
        for name in ("one", "two"):
            self.make_run(name)
        self.isobit("report", "--out", "all.html")
        compared = self.document("all.html")["diff"]
        self.assertEqual({compared["a"]["name"], compared["b"]["name"]}, {"one", "two"})

    def test_only_a_report_is_replaced(self):
        run = self.make_run()
        page = self.folder / "page.html"
        page.write_text("mine")
        self.assertIn("exists and is no report", self.isobit("report", run, "--out", page, expect=2))
        self.assertEqual(page.read_text(), "mine")
        page.unlink()
        first = self.isobit("report", run, "--out", page, "--json")
        text = page.read_bytes()
        self.assertEqual(json.loads(first)["sha256"], hashlib.sha256(text).hexdigest())
        self.isobit("report", run, "--out", page)
        self.assertEqual(page.read_bytes(), text)
        self.assertEqual(self.isobit("report", run, "--out", "-"), text.decode())

    def test_large_tables_are_thinned(self):
        run = self.make_run()
        made_up.write(self.folder / "drift.json", made_up.drift(run, ["another"], layers=180, steps=300))
        self.isobit("report", run, "--drift", "drift.json", "--out", "page.html")
        drift = self.document("page.html")["drift"]
        self.assertEqual((len(drift["steps"]), len(drift["layers"]), drift["all_steps"], drift["all_layers"]), (240, 160, 300, 180))
        self.assertEqual(len(drift["cells"]), 240 * 160)
        self.assertEqual((drift["steps"][0], drift["steps"][-1]), (1, 1 + 25 * 299))

    def test_home_and_secrets_stay_here(self):
        run = self.make_run("small", "finished", "home/runs")
        home = {"HOME": str(self.folder / "home")}
        self.isobit("report", "last", "--runs", self.folder / "home/runs", "--out", "page.html", environment=home)
        self.assertEqual(self.document("page.html")["runs"][0]["path"], f"~/runs/{run}")
        diff = made_up.diff(run, run)
        diff["code_diff"] = "+password = 'kq8Jf92mXw'\n"
        made_up.write(self.folder / "diff.json", diff)
        words = ("report", "last", "--runs", "home/runs", "--diff", "diff.json", "--out", "secret.html")
        self.assertIn("possible secret", self.isobit(*words, expect=2))
        self.assertFalse((self.folder / "secret.html").exists())
        self.isobit(*words, "--redact")
        self.assertNotIn("kq8Jf92mXw", (self.folder / "secret.html").read_text())


if __name__ == "__main__":
    unittest.main()
