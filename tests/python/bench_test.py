"""python -m isobit bench SCRIPT: both sides run, in processes of their own, and nothing is left behind."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

from isobit._views import _bench

TRAIN = """
import sys
import torch, isobit

with isobit.enabled(products="exact3"):
    print("begins", sys.argv[1:], isobit.is_enabled(), flush=True)
    open(sys.argv[1], "a").write(f"{isobit.is_enabled()} {torch.get_num_threads()}\\n")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
    other = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with isobit.record("runs") as run:
        for step in range(100):
            optimizer.zero_grad()
            (model(torch.ones(4, 8)) * torch.special.bessel_j0(torch.zeros(8))).sum().backward()
            optimizer.step()
            other.step()
print("not reached")
"""


class Script(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bench(self, text: str, *words: str, arguments: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
        script = self.folder / "train.py"
        script.write_text(textwrap.dedent(text))
        command = [sys.executable, "-W", "ignore", "-m", "isobit", "bench", *words, str(script), *arguments]
        return subprocess.run(command, check=False,
                              cwd=self.folder, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def test_errors_are_json_too(self) -> None:
        for words, error in ((["--json", "--rounds", "0"], "--rounds is 0: at least 1 (see python -m isobit bench --help)"),
                             (["--json", "--round"], "argument --rounds: invalid int value")):
            done = self.bench("", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(error, json.loads(done.stdout)["error"])
            self.assertEqual(done.stderr, f"isobit: {json.loads(done.stdout)['error']}\n")
        self.assertEqual(self.bench("", "--rounds", "0", arguments=("--json",)).stdout, "")

    def test_both_sides_run_and_nothing_is_recorded(self) -> None:
        done = self.bench(TRAIN, "--rounds", "1", "--steps", "2", "--warm-up", "1", "--threads", "1", "--json", arguments=("notes",))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = json.loads(done.stdout)
        self.assertEqual((found["format"], found["contract"], found["rounds"], found["steps"], found["threads"]),
                         ("isobit-bench-1", "isobit-0.1-exact3", 1, 2, 1))
        self.assertGreater(found["stock_ms"], 0)
        self.assertTrue("ran_ratio" not in found or 0 < found["stock_ran_ms"] <= found["stock_ms"] * 1.5)
        self.assertTrue(0 <= found["waited"] < 1, found["waited"])
        self.assertAlmostEqual(found["ratio"], found["isobit_ms"] / found["stock_ms"])
        self.assertEqual(found["refused"], ["aten::special_bessel_j0"])
        operators = {row["name"]: row for row in found["operators"]}
        for name in ("aten::linear", "aten::tanh", "AddmmBackward0", "Optimizer.step#SGD.step", _bench.BETWEEN):
            self.assertIn(name, operators)
        self.assertEqual(operators["aten::linear"]["calls"], 1)
        self.assertEqual((self.folder / "notes").read_text(), "False 1\nTrue 1\n")  # stock's side first, with the switch off
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["notes", "train.py"])

    def test_timed_steps_are_those_of_a_training(self) -> None:
        """Whole steps of the optimizer in one pass, as outside of the benchmark; one by one for the table of operators only."""
        done = self.bench("""
            import torch
            from isobit._base import _library
            whole = _library.adam_in_one_pass
            def spy(*arguments):
                taken = whole(*arguments)
                print(taken, file=open("taken", "a"))
                return taken
            _library.adam_in_one_pass = spy
            layer = torch.nn.Linear(3, 3)
            optimizer = torch.optim.Adam(layer.parameters())
            while True:
                optimizer.zero_grad()
                layer(torch.ones(2, 3)).sum().backward()
                optimizer.step()
            """, "--rounds", "1", "--steps", "4", "--warm-up", "2", "--threads", "1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.folder / "taken").read_text().split(), ["True"] * 6 + ["False"] * 3)

    def test_a_script_that_fails_is_quoted(self) -> None:
        done = self.bench("import torch\nraise ValueError('no data here')", "--rounds", "1")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("the script failed under stock (exit code 1); it said last:", done.stderr)
        self.assertIn("ValueError: no data here", done.stderr)

    def test_too_few_steps_are_counted(self) -> None:
        done = self.bench("""
            import torch
            optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
            for step in range(5):
                optimizer.step()
            """, "--rounds", "1")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("the script made 5 optimizer steps; 3 of warm-up, 20 timed and 3 for the operators are 26", done.stderr)


class Words(unittest.TestCase):
    def test_which_bench_is_meant(self) -> None:
        for words, of_a_script in ((["train.py"], True), (["--rounds", "2", "train.py", "step"], True), (["trian.py"], True),
                                   ([__file__], True), (["step", "--models", "mlp"], False), (["--rounds", "3", "ops"], False),
                                   (["--help"], False), ([], False), (["stepp"], False)):
            self.assertEqual(_bench.is_of_a_script(words), of_a_script, words)

    def test_bad_words(self) -> None:
        for words, problem in ((["missing.py"], "missing.py: no such file"), (["--rounds", "0", __file__], "--rounds is 0: at least 1"),
                               (["--threads", "-1", __file__], "--threads is -1: at least 0")):
            with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()) as said:
                _bench.main(words)
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(problem, said.getvalue())

    def test_figures_are_medians_of_rounds(self) -> None:
        options = _bench._options(["--rounds", "3", __file__])

        def turn(ms: float, tanh: float) -> "dict[str, object]":
            return {"waited": 0.06, "ran_ms": ms / 2 + tanh, "times": [ms - 1, ms, ms + 100], "threads": 2, "peak_mib": ms,
                    "refused": [], "contract": "isobit-0.1", "operators": {"aten::tanh": {"calls": 2.0, "ms": tanh}, _bench.BETWEEN: {"calls": 0.0, "ms": 0.5}}}

        found = _bench.figures(options, {"stock": [turn(10, 4), turn(20, 5), turn(40, 6)],
                                         "isobit": [turn(5, 1), turn(20, 2), turn(10, 3)]})
        self.assertEqual((found["stock_ms"], found["isobit_ms"], found["ratio"]), (20, 10, 0.5))
        self.assertEqual(found["spread"], 0.375)  # of 0.5, 1, 0.25
        self.assertEqual(found["operators"][0], {"name": "aten::tanh", "calls": 2.0, "stock_ms": 5, "isobit_ms": 2})
        text = _bench.as_text(found, 1)
        self.assertIn("aten::tanh (2)", text)
        self.assertNotIn(_bench.BETWEEN, text)
        self.assertIn("0.500   (spread 0.375)", text)
        self.assertIn("note: others use the cores: 6 % of the time the script waited for one; measure again", text)
        self.assertEqual((found["stock_ran_ms"], found["isobit_ran_ms"]), (15, 8))  # of 9, 15, 26 and 3.5, 12, 8
        self.assertEqual(found["ran_ratio"], 3.5 / 9)  # beside 0.8 and 8 / 26
        self.assertIn("of it on a core (the calling thread), ms          15.00       8.00   0.389", text)
        self.assertNotIn("note:", _bench.as_text({**found, "waited": 0.04}, 1))


if __name__ == "__main__":
    unittest.main()
