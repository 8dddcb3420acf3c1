"""scripts/models: its page is current, the models that need no other library train to the same bits, and it finds what it is for."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import torch
from cases import Case

import isobit

ROOT = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "scripts"))

from model_runs import command, entries, gradients, judge, page, probe  # noqa: E402


class Page(Case):
    def test_page_is_current(self):
        self.assertEqual(page.check(ROOT), 0)

    def test_no_promise_is_broken(self):
        stored = json.loads((ROOT / "docs" / "models.json").read_text(encoding="utf-8"))
        self.assertEqual([key for key, row in stored["models"].items() if row["outcome"] in judge.BAD], [])
        self.assertGreaterEqual(sum(row["outcome"] == "equal" for row in stored["models"].values()), 150)
        self.assertEqual([row["name"] for row in stored["trainers"] if row["verified"] != "identical" or row["resumed"] != "the same bits"], [])

    def test_another_row_is_another_page(self):
        stored = json.loads((ROOT / "docs" / "models.json").read_text(encoding="utf-8"))
        before = page.render(stored)
        next(iter(stored["models"].values()))["outcome"] = "other bits"
        self.assertNotEqual(page.render(stored), before)


class Builds(unittest.TestCase):
    def test_a_change_in_any_room_is_another_build(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, {"PYTHONPATH": folder}):
            package = pathlib.Path(folder) / "isobit"
            (package / "_base").mkdir(parents=True)
            digests = []
            for name, text in (("libisobit_torch.so", "1"), ("__init__.py", "1"), ("_base/_library.py", "1"), ("_base/_library.py", "2")):
                (package / name).write_text(text, encoding="utf-8")
                digests.append(command.build_digest())
        self.assertEqual(len({*digests}), 4)


class Times(Case):
    """scripts/models --time --page: into the page that is there, all of one build."""

    def write(self, change=None, partial=False):
        stored = json.loads((ROOT / "docs" / "models.json").read_text(encoding="utf-8"))
        rows = {key: {"ratio": 0.5, "spread": 0.1, "build": "a", "date": "2026-11-01", "rounds": 7}
                for key, row in stored["models"].items() if row["outcome"] == "equal"}
        if change:
            change(rows)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as said:
            root = pathlib.Path(folder)
            (root / "docs").mkdir()
            (root / "docs" / "models.json").write_text(json.dumps(stored), encoding="utf-8")
            code = page.write_times(root, unittest.mock.Mock(rows=rows), partial)
            written = {path.name: path.read_text(encoding="utf-8") for path in (root / "docs").iterdir()}
        return code, written, said.getvalue()

    def test_all_of_one_build(self):
        code, written, _ = self.write()
        self.assertEqual(code, 0)
        stored = json.loads(written["models.json"])
        self.assertEqual({row.get("time") for row in stored["models"].values() if row["outcome"] == "equal"}, {0.5})
        self.assertEqual(stored["timed"]["dates"], "2026-11-01")
        self.assertEqual(written["models.md"], page.render(stored))
        self.assertIn("above 1: 0 of", written["models.md"])

    def test_missing_or_of_two_builds(self):
        for change in (lambda rows: rows.pop("torch.nn/LeNet-5"), lambda rows: rows["torch.nn/LeNet-5"].update(build="b"),
                       lambda rows: rows.clear()):
            code, written, said = self.write(change)
            self.assertEqual((code, list(written)), (2, ["models.json"]))
            self.assertIn("scripts/models --time", said)
        code, written, _ = self.write(lambda rows: rows.pop("torch.nn/LeNet-5"), partial=True)
        self.assertEqual(code, 0)
        self.assertNotIn("time", json.loads(written["models.json"])["models"]["torch.nn/LeNet-5"])

    def test_a_run_keeps_them(self):
        _, written, _ = self.write()
        stored = json.loads(written["models.json"])
        for row in stored["models"].values():
            row.pop("spread", None)
            if "time" in row:
                row["time"] = 9.0
        del stored["timed"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "models.json"
            path.write_text(written["models.json"], encoding="utf-8")
            page.keep_times(stored, path)
        self.assertEqual(page.render(stored), written["models.md"])

    def test_what_was_too_slow_is_tried_again(self):
        asked = []

        class Worker:
            def ask(self, name, *_, **more):
                asked.append((name, more["rounds"]))
                return {"slow": 1.0} if len(asked) == 1 else {"ratio": 0.5, "spread": 0.1, "rounds": more["rounds"], "seconds": 1.0, "stock_seconds": 2.0}

        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()), \
                unittest.mock.patch.object(command, "with_workers", lambda entries: ((entry, Worker()) for entry in entries)):
            for count in ("3", "3", "3", "4"):  # too slow, then done, then there, then of other rounds
                options = command.parse(["--time", "--model", "LeNet-5", f"--rounds={count}", "--results", f"{folder}/rows.jsonl"])
                command.time_steps(options, command.Results(options.results))
        self.assertEqual(asked, [("LeNet-5", 3), ("LeNet-5", 3), ("LeNet-5", 4)])

    def test_rounds(self):
        for words in ("1", "many", "-3"):
            with self.assertRaises(SystemExit) as stopped, contextlib.redirect_stderr(io.StringIO()) as said:
                command.parse(["--time", f"--rounds={words}"])
            self.assertEqual(stopped.exception.code, 2)
            self.assertIn("at least 2", said.getvalue())


class Models(Case):
    def test_a_dozen_without_another_library(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-W", "ignore", ROOT / "scripts" / "models", "--here", "--library", "torch.nn", "--json",
                                   "--results", f"{folder}/rows.jsonl"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)
        self.assertGreaterEqual(len(rows), 12)
        for row in rows:
            self.assertEqual(row["outcome"], "equal", row)
            self.assertEqual(len(row["executions"]), 4)
            self.assertIn("reference, 1 thread", row["executions"])
            self.assertTrue(row["gradients"].get("within") or row["gradients"].get("draws"), row)


class Judging(Case):
    """What is wrong on purpose is told apart from what is right."""

    def examine(self, **answers):
        def ask(work, isa, threads, timed):
            found = answers.get(f"{isa}_{threads}") or answers.get(isa or work) or answers["other"]
            return {"seconds": 1.0, "parameters": 1, "loss": 0.5, **found} if "fingerprint" in found else found

        return judge.examine("torchvision/alexnet", ask, ["avx2"])

    def test_outcomes(self):
        good = {"fingerprint": "a"}
        row = self.examine(other=good, gradients={"within": True})
        self.assertEqual((row["outcome"], judge.is_bad(row)), ("equal", False))
        self.assertTrue(judge.is_bad(self.examine(other=good, gradients={"within": False})))
        row = self.examine(other=good, avx2_2={"fingerprint": "b"})
        self.assertEqual((row["outcome"], judge.is_bad(row)), ("other bits", True))
        row = self.examine(stock=good, other={"error": "ValueError: x"})
        self.assertEqual((row["outcome"], judge.is_bad(row)), ("fails", True))
        self.assertEqual(self.examine(stock={"error": "ValueError: x"}, other=good)["outcome"], "stock fails too")
        self.assertEqual(self.examine(stock=good, other={"slow": 9})["outcome"], "too slow")
        row = self.examine(stock=good, avx2={"refused": "aten::a", "message": "m"}, probe={"refusals": [{"operator": "aten::b"}]})
        self.assertEqual((row["outcome"], row["refusals"]), ("refused", [{"operator": "aten::b"}]))

    def test_gradients(self):
        exact = torch.arange(1, 9, dtype=torch.float64)
        stock = exact * (1 + 2**-24)
        self.assertTrue(gradients.judge(exact * (1 - 2**-24), stock, exact)["within"])
        self.assertFalse(gradients.judge(exact * (1 + 2**-14), stock, exact)["within"])
        self.assertFalse(gradients.judge(exact * float("nan"), stock, exact)["within"])
        self.assertFalse(gradients.judge(exact * 2, stock, None)["within"])
        self.assertTrue(gradients.judge(exact * (1 + 2**-14), stock, None)["within"])

    def test_an_altered_model_is_not_equal(self):
        model = torch.nn.Linear(3, 2)
        from model_runs.execute import fingerprint

        before = fingerprint(model, [torch.tensor(1.0)])
        self.assertEqual(fingerprint(model, [torch.tensor(1.0)]), before)
        self.assertNotEqual(fingerprint(model, [torch.tensor(1.0 + 2**-23)]), before)
        with torch.no_grad():
            model.bias[1] = torch.nextafter(model.bias[1], torch.tensor(9.0))
        self.assertNotEqual(fingerprint(model, [torch.tensor(1.0)]), before)

    def test_probe_names_every_refusal(self):
        class Transformed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(8))

            def forward(self, x):
                return torch.fft.rfft(x * self.weight).real + torch.linalg.svdvals(x.T @ x)[:5]

        entry = entries.Entry("tests", "transformed", lambda: entries.Case(Transformed(), (entries.uniform(8, 8),)))
        check_graph = isobit._base._library.check_graph
        try:
            names = [refusal["operator"] for refusal in probe.probe(entry)["refusals"]]
        finally:
            isobit._base._library.check_graph = check_graph
        self.assertFalse(isobit.is_enabled())
        self.assertTrue(any("fft" in name for name in names), names)
        self.assertTrue(any("svd" in name for name in names), names)


class Kept(Case):
    def test_a_killed_run_resumes(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.jsonl"
            results = command.Results(file)
            results.add({"library": "a", "name": "x", "outcome": "equal"})
            results.add({"library": "a", "name": "y", "outcome": "refused"})
            file.write_text(file.read_text() + '{"library": "a", "na', encoding="utf-8")  # it was writing this line
            self.assertEqual(list(command.Results(file).rows), ["a/x", "a/y"])
            command.Results(file).add({"library": "a", "name": "z", "outcome": "equal"})
            self.assertEqual(list(command.Results(file).rows), ["a/x", "a/y", "a/z"])

    def test_page_needs_every_model(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as told:
            results = command.Results(pathlib.Path(folder) / "rows.jsonl")
            self.assertEqual(page.write(pathlib.Path(folder), results, [], 1, ""), 2)
        self.assertIn("have no result", told.getvalue())

    def test_models_of_full_size_are_a_list_of_their_own(self):
        large = entries.all_entries(full_size=True)
        self.assertGreaterEqual(len(large), 30)
        self.assertFalse(set(large) & set(entries.all_entries()))
        for words in (["--full-size"], ["--full-size", "--time", "--page"]):  # times alone, and not for the page
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()) as told, self.assertRaises(SystemExit) as ended:
                command.parse(words)
            self.assertEqual(ended.exception.code, 2)
            self.assertIn("--full-size goes with", told.getvalue())

    def test_a_model_of_full_size_trains(self):
        case = entries.all_entries(full_size=True)["torch.nn/variational autoencoder, 128 x 784"].make()
        with isobit.enabled():
            loss = case.model(*case.inputs)["loss"]
            loss.backward()
        self.assertTrue(all(p.grad is not None for p in case.model.parameters()))

    def test_names_are_unique(self):
        first = next(iter(entries.all_entries().values()))
        with self.assertRaises(ValueError):
            entries.add(first.library, first.name, first.make)


if __name__ == "__main__":
    unittest.main()
