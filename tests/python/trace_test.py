"""isobit.trace around ordinary scripts, and isobit trace, diff and bisect from outside.

Stock PyTorch with 1 and 2 threads parts somewhere and isobit does not: diff names the operator. What changes no bit, what is
refused, and what a forged or half trace is told.
"""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tempfile
import typing
import unittest

import torch
from records import write_images

import isobit

PROGRAM = os.environ["ISOBIT_PROGRAM"]
STEPS = 3


def make_model() -> torch.nn.Sequential:
    """With the same weights under stock and isobit."""
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 5), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 24 * 24, 64),
                                torch.nn.Tanh(), torch.nn.Linear(64, 10))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.arange(parameter.numel()).remainder(17).sub(8).div(64).reshape(parameter.shape))
    return model


def train(model: torch.nn.Module, steps: int = STEPS) -> str:
    """Trains and evaluates; the fingerprint of the weights."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    x = torch.arange(64 * 28 * 28).remainder(23).div(23).reshape(64, 1, 28, 28)
    y = torch.arange(64).remainder(10)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            model(x[:4])
    return isobit.fingerprint(model)


def run(*words: object, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *map(str, words)], check=False, cwd=folder, capture_output=True, text=True, timeout=120)


class Traces(unittest.TestCase):
    def setUp(self) -> None:
        self.temporary = tempfile.TemporaryDirectory(prefix="isobit-test-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)

    def traced(self, name: str, threads: int, **options: object) -> str:
        torch.set_num_threads(threads)
        model = make_model()
        with isobit.trace(self.folder / name, **{"steps": (1, STEPS), **options}):  # type: ignore[arg-type]
            return train(model)

    def diff(self, a: str, b: str, code: int, command: str = "diff") -> dict[str, object]:
        done = run(command, a, b, "--json", folder=self.folder)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return dict(json.loads(done.stdout))


class Scripts(Traces):
    def test_stock_with_one_and_two_threads_parts_at_an_operator(self) -> None:
        one, two = self.traced("one", 1, values="all"), self.traced("two", 2, values="all")
        self.traced("again", 1)
        if one == two:
            self.skipTest("this processor's stock kernels do not depend on threads")
        self.assertEqual(self.diff("one", "again", 0)["results"], "equal")
        found = self.diff("one", "two", 1)
        self.assertEqual(found["format"], "isobit-diff-1")
        operator = found["operator"]
        assert isinstance(operator, dict)
        self.assertGreater(operator["max_ulp"], 0)
        self.assertGreater(operator["differing"], 0)
        self.assertEqual(operator["elements"], torch.Size(operator["shape"]).numel())
        self.assertTrue(operator["module"].startswith("Sequential"))
        self.assertTrue(operator["name"].startswith("aten::"))
        self.assertEqual(len(operator["at"]), len(operator["shape"]))
        self.assertEqual([(d["key"], d["a"], d["b"], d["counts"]) for d in found["differences"]],  # type: ignore[attr-defined]
                         [("run.threads", "1", "2", False)])
        # Without values the operator is the same, and bisect says what to trace next.
        next_one = self.diff("again", "two", 1, command="bisect")
        same = next_one["operator"]
        assert isinstance(same, dict)
        self.assertEqual({**same, "max_ulp": 0, "at": 0, "differing": 0, "elements": 0},
                         {**operator, "max_ulp": 0, "at": 0, "differing": 0, "elements": 0})
        self.assertIsNone(same["max_ulp"])
        step = next_one["next"]
        assert isinstance(step, dict)
        self.assertIn(f'values="{operator["step"]}/{operator["phase"]}/{operator["module"]}/{operator["name"]}', step["a"])

    def test_isobit_is_equal(self) -> None:
        with isobit.enabled():
            one, two = self.traced("one", 1), self.traced("two", 2)
        self.assertEqual(one, two)
        found = self.diff("one", "two", 0)
        self.assertEqual(found["results"], "equal")
        self.assertEqual(found["a"]["contract"], isobit.contract_version)  # type: ignore[index]
        self.assertGreater(found["compared"]["operators"], 30 * STEPS)  # type: ignore[index]
        # Against stock another arithmetic is listed, and the first operator named.
        self.traced("stock", 1)
        mixed = self.diff("one", "stock", 1)
        # Which one is a matter of the CPU: with AVX-512, stock's first convolution has the contract's bits.
        self.assertIn(mixed["operator"]["module"], ("Sequential.0", "Sequential.3"))  # type: ignore[index]

    def test_changes_no_bit(self) -> None:
        for switch in (contextlib.nullcontext(), isobit.enabled()):
            with self.subTest(switch=switch), switch:
                torch.set_num_threads(1)
                alone = train(make_model())
                name = f"t{isobit.is_enabled()}"
                self.assertEqual(self.traced(name, 1, values="all", samples=5, statistics=True), alone)
                self.assertEqual(train(make_model()), alone)

    def test_keys_name_modules_phases_and_occurrences(self) -> None:
        self.traced("t", 1, steps=range(2, 3), samples=3, statistics=True)
        lines = [json.loads(line) for line in (self.folder / "t").read_text().splitlines()]
        header, operators, seal = lines[0], lines[1:-2], lines[-1]
        self.assertEqual((header["first"], header["count"], header["arithmetic"]), (2, 1, "stock-" + torch.__version__.split("+")[0]))
        keys = {(line["phase"], line["module"], line["name"], line["occurrence"]) for line in operators}
        self.assertEqual(len(keys), len(operators))
        for key in (("forward", "Sequential.3", "aten::linear", 1), ("backward", "Sequential.0", "aten::convolution_backward", 1),
                    ("backward", "Sequential.5", "aten::mm", 2), ("evaluate", "Sequential.5", "aten::linear", 1)):
            self.assertIn(key, keys)
        self.assertIn("optimizer", {line["phase"] for line in operators})
        self.assertEqual({line["step"] for line in operators}, {2})
        linear = next(line for line in operators if line["name"] == "aten::linear")
        self.assertEqual(len(linear["outputs"][0]["samples"]), 3)
        self.assertEqual(linear["outputs"][0]["statistics"]["nan"], 0)
        content = (self.folder / "t").read_bytes()
        self.assertEqual(seal["sealed"], hashlib.sha256(content[:content.rindex(b'{"sealed"')]).hexdigest())

    def test_a_scripted_module_names_its_submodules(self) -> None:
        """An interpreter hands an operator its whole stack: what is not the operator's own is no input and no output of it."""
        scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(5, 3))))
        with isobit.enabled(), isobit.trace(self.folder / "t", steps=(1, 4)):
            for _ in range(4):
                optimizer = torch.optim.SGD(scripted.parameters(), lr=0.1)
                scripted(torch.ones(4, 6)).sum().backward()
                optimizer.step()
        lines = [json.loads(line) for line in (self.folder / "t").read_text().splitlines()[1:-1]]
        linear = [(line["module"], len(line["inputs"]), len(line["outputs"])) for line in lines if line.get("name") == "aten::linear"]
        self.assertEqual(linear, [("RecursiveScriptModule.0", 3, 1), ("RecursiveScriptModule.1.1", 3, 1)] * 4)
        backward = [line["module"] for line in lines if line.get("name") == "aten::mm"]
        self.assertEqual(set(backward), {"RecursiveScriptModule.0", "RecursiveScriptModule.1.1"})
        torch.set_num_threads(1)
        with isobit.trace(self.folder / "stock", steps=(1, 4)):  # its profiling executor, from the third step on
            for _ in range(4):
                scripted(torch.ones(4, 6)).sum().backward()
                optimizer.step()
        for line in map(json.loads, (self.folder / "stock").read_text().splitlines()[1:-1]):
            if line.get("name") in ("aten::t", "aten::relu", "aten::linear", "aten::reshape", "aten::matmul"):
                self.assertEqual((len(line["outputs"]), line["arguments"].count("t") <= 3), (1, True), line)

    def test_a_forged_operator_is_named(self) -> None:
        self.traced("t", 1)
        lines = (self.folder / "t").read_text().splitlines()
        at = next(i for i, line in enumerate(lines) if '"step":2' in line and "convolution_backward" in line)
        line = json.loads(lines[at])
        line["outputs"][1]["fingerprint"] = "0" * 32
        lines[at] = json.dumps(line, separators=(",", ":"))
        body = "\n".join(lines[:-1]) + "\n"
        (self.folder / "altered").write_text(body + lines[-1] + "\n")
        refused = run("diff", "t", "altered", folder=self.folder)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("was altered", refused.stderr)
        seal = json.dumps({"sealed": hashlib.sha256(body.encode()).hexdigest(), "values": ""}, separators=(",", ":"))
        (self.folder / "sealed").write_text(body + seal + "\n")
        found = self.diff("t", "sealed", 1)["operator"]
        assert isinstance(found, dict)
        self.assertEqual((found["step"], found["phase"], found["module"], found["name"], found["output"]),
                         (2, "backward", "Sequential.0", "aten::convolution_backward", 1))

    def test_errors(self) -> None:
        for steps in ((0, 1), (1, 0), range(3, 3), range(1, 9, 2)):
            with self.assertRaisesRegex(ValueError, "names no steps"):
                isobit.trace(self.folder / "t", steps=steps)
        with self.assertRaisesRegex(isobit.RecordError, "the window begins with step 9"):
            self.traced("t", 1, steps=(9, 1))
        with self.assertRaisesRegex(ZeroDivisionError, ""), isobit.trace(self.folder / "t", steps=(1, 1)):
            train(make_model(), 1)
            raise ZeroDivisionError
        self.assertEqual(os.listdir(self.folder), [])
        with isobit.trace(self.folder / "t", steps=(1, 1)):
            with self.assertRaisesRegex(isobit.RecordError, "one at a time"), isobit.trace(self.folder / "u", steps=(1, 1)):
                pass
            train(make_model(), 1)
        self.assertEqual(os.listdir(self.folder), ["t"])

    def test_the_switch_must_not_turn_within(self) -> None:
        with self.assertRaisesRegex(isobit.RecordError, "begun under stock, but aten::.* was called under isobit"), \
                isobit.trace(self.folder / "t", steps=(1, STEPS)), isobit.enabled():
            train(make_model())
        self.assertEqual(os.listdir(self.folder), [])
        self.traced("t", 1)  # another one works

    def test_a_block_that_ends_early_lacks_steps(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.traced("short", 1, steps=(2, 5))
        self.assertIn("lacks steps 4 to 6", said.getvalue())
        self.traced("whole", 1)
        found = self.diff("short", "whole", 0)
        self.assertEqual(found["compared"]["steps"], 2)  # type: ignore[index]
        self.assertIn("only b has step 1", found["notes"])  # type: ignore[arg-type]


class Records(Traces):
    """Runs of isobit run, of 6 steps, executed again."""

    runs: typing.ClassVar[dict[str, str]] = {}

    @classmethod
    def setUpClass(cls) -> None:
        cls.home = tempfile.TemporaryDirectory(prefix="isobit-test-")
        cls.addClassCleanup(cls.home.cleanup)
        cls.root = pathlib.Path(cls.home.name)
        write_images(cls.root / "data", train=90)
        (cls.root / "e.toml").write_text('name = "small"\nseed = 3\nsteps = 6\nbatch = 20\n[data]\npath = "data"\n[model]\n'
                                         'name = "lenet5"\n[optimizer]\nname = "sgd"\nlr = 0.05\n[checkpoint]\nevery = 2\n'
                                         '[fingerprint]\nevery = 1\n')
        for name, settings in (("a", []), ("b", []), ("lr", ["--set", "schedule.name=step"]),
                               ("seed", ["--set", "seed=4"])):
            done = run("run", "e.toml", "--json", *settings, folder=cls.root)
            assert done.returncode == 0, done.stderr
            cls.runs[name] = json.loads(done.stdout)["id"]

    def setUp(self) -> None:
        super().setUp()
        self.folder = self.root

    def test_equal_runs(self) -> None:
        found = self.diff(self.runs["a"], self.runs["b"], 0)
        self.assertEqual(found["results"], "equal")
        self.assertEqual(found["compared"]["steps"], 6)  # type: ignore[index]
        self.assertIsNone(found["first_step"])

    def test_another_rate_is_found_where_it_enters(self) -> None:
        found = self.diff(self.runs["a"], self.runs["lr"], 1)
        self.assertEqual((found["first_step"]["step"], found["first_step"]["field"]), (6, "weights"))  # type: ignore[index]
        self.assertIsNone(found["operator"])
        self.assertIn("came in from outside", str(found["not_looked_into"]))
        self.assertRegex("\n".join(found["notes"]),  # type: ignore[arg-type]
                         r"the arguments \(6,0.05,.* \| 6,0.005.* of 6/optimizer/.*isobit::sgd_step/1 differs first")

    def test_another_seed_is_another_batch(self) -> None:
        found = self.diff(self.runs["a"], self.runs["seed"], 1)
        self.assertEqual(found["first_step"]["field"], "batch")  # type: ignore[index]
        self.assertIn("no operator before it", str(found["not_looked_into"]))

    def test_a_trace_agrees_with_its_record(self) -> None:
        for threads in (1, 2):
            done = run("trace", self.runs["a"], "--steps", "3:2", "--out", f"t{threads}", "--threads", threads, "--json",
                       folder=self.root)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIsNone(json.loads(done.stdout)["differs_at"])
        self.assertIn('"end":4,"operators":', (self.root / "t1").read_text())
        self.assertIn('"record":"agrees"', (self.root / "t1").read_text())
        self.assertEqual(self.diff("t1", "t2", 0)["results"], "equal")
        again = run("trace", self.runs["a"], "--steps", "3:2", "--out", "t1", folder=self.root)
        self.assertEqual(again.returncode, 2)
        self.assertIn("exists already", again.stderr)

    def test_bad_input(self) -> None:
        for words, expected in ((["trace", "last", "--steps", "0:1", "--out", "x"], "no window of steps"),
                                (["trace", "last", "--steps", "6:2", "--out", "x"], "--steps 6:2: the run has 6 steps (choose some of its steps 1..6)"),
                                (["trace", "last", "--steps", "1:1", "--samples", "x", "--out", "x"], "not a number of samples"),
                                (["diff", "last", "nobody"], "no such run"), (["bisect", "e.toml", "last"], "e.toml")):
            done = run(*words, folder=self.root)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(expected, done.stderr)
        self.assertFalse((self.root / "x").exists())

    def test_bisect_of_records_names_the_next_window(self) -> None:
        found = self.diff(self.runs["a"], self.runs["lr"], 1, command="bisect")
        self.assertEqual(found["format"], "isobit-bisect-1")
        self.assertEqual(found["next"]["a"], f"isobit trace {self.runs['a']} --steps 6:1 --out a.trace")  # type: ignore[index]


del Traces

if __name__ == "__main__":
    unittest.main()
