"""python -m isobit check: all refusals of a script's first steps, and no way from there to a record or a fingerprint."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import isobit

TRANSCRIPT = pathlib.Path(__file__).with_name("check.transcript")

TRAIN = """
import sys
import torch, parts

torch.manual_seed(1)
window = torch.linalg.svd(torch.eye(8))[1]
model = parts.Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
model = torch.compile(model)
print("begins", sys.argv[1:])
for step in range(100):
    loss = model(torch.randn(4, 8) * window).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print("not reached")
"""
PARTS = """
import torch

class Rounded(torch.nn.Module):
    def forward(self, x):
        return torch.round(x, decimals=1)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2
    @staticmethod
    def backward(context, gradient):
        return torch.special.bessel_j0(gradient)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = torch.nn.Linear(8, 8), Rounded()
    def forward(self, x):
        return Twice.apply(self.head(self.stem(x)))
"""
STEPS = """
optimizer = torch.optim.SGD([weight := torch.ones(2, requires_grad=True)], lr=0.1)
def step():
    weight.sum().backward()
    optimizer.step()
"""


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self, **more):
        path = os.pathsep.join([str(pathlib.Path(isobit.__file__).parents[1])])
        return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore", **more}

    def check(self, script, *words, options=(), expect=1, **more):
        (self.folder / "train.py").write_text(textwrap.dedent(script))
        done = subprocess.run([sys.executable, "-m", "isobit", "check", *options, "train.py", *words], cwd=self.folder,
                              capture_output=True, text=True, check=False, env=self.environment(**more))
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def refused(self, script, **more):
        """{operator: entry} of the JSON."""
        done = self.check(script, options=("--json", *more.pop("options", ())), **more)
        result = json.loads(done.stdout)
        self.assertIs(result["certified"], False)
        return {entry["operator"]: entry for entry in result["refused"]}, result

    def test_transcript(self):
        (self.folder / "parts.py").write_text(PARTS)
        shown = self.check(TRAIN, "--lr", "3").stdout
        if "ISOBIT_UPDATE_GOLDEN" in os.environ:
            TRANSCRIPT.write_text(shown)
        self.assertEqual(shown, TRANSCRIPT.read_text())

    def test_everything_at_once(self):
        (self.folder / "parts.py").write_text(PARTS)
        found, result = self.refused(TRAIN, options=("--steps", "3"))
        self.assertEqual(set(found), {"aten::linalg_svd", "torch.compile", "torch.amp.GradScaler", "aten::round.decimals",
                                      "aten::special_bessel_j0"})
        self.assertEqual((result["steps"], result["ended"]), (3, "ended after 3 steps"))
        rounded = found["aten::round.decimals"]
        self.assertEqual((rounded["count"], rounded["line"], rounded["module"], rounded["called"]),
                         (3, "parts.py:6", "Net.head (forward)", "torch.round"))
        self.assertEqual(rounded["lines"], ["parts.py:6"])
        self.assertEqual(found["aten::linalg_svd"]["line"], "train.py:6")
        self.assertIn("torch.linalg.qr", found["aten::linalg_svd"]["do"])
        self.assertIn("backward of TwiceBackward", found["aten::special_bessel_j0"]["module"])

    def test_the_tier_is_the_script_s(self):
        script = "import torch\n" + STEPS + """
convolution = torch.nn.Conv3d(1, 1, 2)
image = torch.arange(27.).reshape(1, 1, 3, 3, 3)
a, b = torch.rand(8, 1000), torch.rand(1000, 8)
ordered = a @ b
def both():
    step()
    convolution(image)
"""
        found, result = self.refused(script + """
import isobit
isobit.enable(products="exact3")
both()
exact, order = a @ b, torch.randperm(1000)
assert not exact.equal(ordered) and exact.equal(a[:, order] @ b[order])
try:
    isobit.enable(products="ordered")
except RuntimeError:
    both()
""")
        self.assertIn("aten::convolution", found)
        self.assertEqual((result["contract"], result["ended"]), ("isobit-0.1-exact3", "ended after 2 steps"))
        found, result = self.refused(script + "both(); both()", expect=0)
        self.assertEqual((found, result["contract"]), ({}, "isobit-0.1"))

    def test_nothing_refused(self):
        script = "import subprocess, torch\nprint('noise', flush=True)\nsubprocess.run(['echo', 'child'])\n" + STEPS
        done = self.check(script + "for _ in range(9): step()", expect=0)
        self.assertEqual(done.stdout, "noise\nchild\nisobit check train.py: nothing is refused (ended after 2 steps)\n")
        done = self.check(script + "import sys; sys.exit(0)", options=("--json",), expect=0)
        result = json.loads(done.stdout)  # alone there
        self.assertEqual((result["refused"], result["ended"]), ([], "the script ended after 0 steps"))
        self.assertIn("noise\nchild\n", done.stderr)

    def test_values_stand_in(self):
        """The script goes on with stock's values: 16 bits, binary64 products, in place, out=, in a backward, without gradients."""
        found, _ = self.refused("""
            import math, torch
            from isobit import math as exact_math
            x = torch.full((2, 2), 0.5)
            assert abs(torch.round(x / 3, decimals=1)[0, 0].item() - 0.2) < 1e-5
            y = (x / 3).round_(decimals=1)
            assert abs(y[0, 0].item() - 0.2) < 1e-5
            out = torch.empty(2, 2)
            torch.round(x / 3, decimals=1, out=out)
            assert torch.equal(out, y)
            double = torch.full((2, 2), 3.0, dtype=torch.float64)
            assert (double @ double)[0, 0].item() == 18
            half = torch.full((2,), 1.5, dtype=torch.bfloat16)
            assert (half + half)[0].item() == 3
            parameter = torch.zeros(2, 2, requires_grad=True)
            torch.matrix_exp(parameter).sum().backward()
            assert abs(parameter.grad[0, 0].item() - 1) < 1e-5
            assert abs(torch.linalg.eigvalsh(torch.eye(3) * 2)[0].item() - 2) < 1e-5
            assert torch.fft.fft(torch.ones(4))[0].real.item() == 4
            assert torch.sparse_coo_tensor([[0], [1]], [2.0], (2, 2)).to_dense()[0, 1] == 2
            class Own(torch.nn.Module):
                def forward(self, x):
                    return torch.special.bessel_j0(x)
            assert abs(Own()(torch.ones(1)).item() - 0.7651977) < 1e-5
            @torch.library.custom_op("check_test::twice", mutates_args=())
            def twice(x: torch.Tensor) -> torch.Tensor:
                return x * 2
            assert twice(torch.ones(2))[0] == 2
            @torch.jit.script
            def scaled(x: torch.Tensor, a: float):
                return x * math.exp(a)
            for _ in range(3):
                assert abs(scaled(torch.ones(1), 1.0).item() - 2.718281) < 1e-5
            assert exact_math.gamma(5) == 24
        """)
        self.assertLessEqual({"aten::round.decimals", "aten::round_.decimals", "aten::round.decimals_out", "aten::linalg_eigvalsh",
                              "aten::fft_fft", "aten::special_bessel_j0", "check_test::twice", "aten::exp.float", "math.gamma is not certified"},
                             set(found))
        self.assertEqual(found["aten::special_bessel_j0"]["module"], "Own (forward)")

    # ---- scripts that use isobit themselves

    def test_what_stands_outside_of_the_script_s_own_switch_is_its_business(self):
        found, _ = self.refused("""
            import torch, isobit
            torch.special.bessel_j0(torch.zeros(1))
            with isobit.enabled():
                torch.special.bessel_j0(torch.ones(1))
                with isobit.disabled():
                    torch.special.bessel_j1(torch.ones(1))
            torch.special.bessel_j0(torch.zeros(1))
            try:
                isobit.disable()
            except RuntimeError as error:
                assert "without isobit.enable()" in str(error)
            else:
                raise SystemExit("a disable too many went through")
            assert isobit.is_enabled()
        """)
        self.assertEqual(list(found), ["aten::special_bessel_j0"])

    # ---- no record, no fingerprint

    def test_a_record_is_not_made(self):
        done = self.check("""
            import torch, isobit
            with isobit.record("runs", resume=True) as run:
                model = torch.nn.Linear(2, 2)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                print(run.id, run.load(), isobit.fingerprint(model))
                assert run.path.is_dir()
                for run.epoch in run.epochs(3):
                    torch.round(model(torch.ones(1, 2)), decimals=1).sum().backward()
                    optimizer.step()
                    run.log("test", accuracy=1.0)
                    run.save({"model": model.state_dict()})
        """, "--lr", "3")
        self.assertIn("not-recorded None none-within-isobit-check\n", done.stdout)
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["train.py"])

    def test_the_library_makes_neither(self):
        """Past the Python package: its C functions say no."""
        self.check("""
            import ctypes, os, torch, isobit
            from isobit._base import _check_mode, _library
            from isobit._recording import _record_files
            os.environ.pop("ISOBIT_CHECK")
            _check_mode.on = False                       # a script that wants to hide it
            tensor = torch.ones(2)
            for call in (lambda: isobit.fingerprint(tensor), lambda: isobit.fingerprint({"a": tensor}),
                         lambda: _record_files.RunFolder("runs", "x", {"experiment.toml": b"", "environment.json": b"{}", "data.json": b"{}"}),
                         lambda: _record_files.weights_sha256([("a", tensor)]), lambda: isobit.record("runs").__enter__(),
                         lambda: _library.begin_check(_check_mode._callback)):
                try:
                    call()
                except (RuntimeError, TypeError) as error:
                    assert "isobit check" in str(error) or "before isobit is switched on" in str(error), error
                else:
                    raise SystemExit("went through")
            arguments = (ctypes.c_char_p * 2)(b"isobit", b"--version")
            assert _library._library.isobit_program(2, arguments) == 2
            assert not os.path.exists("runs")
        """, expect=0)

    def test_children_make_no_record(self):
        done = self.check("""
            import multiprocessing, os, subprocess, sys, torch, isobit
            TRY = '''
            import isobit
            try:
                with isobit.record("runs"):
                    pass
            except isobit.RecordError as error:
                print("no record:", str(error).partition(chr(10))[0])
            '''
            if __name__ == "__main__":
                sys.stdout.flush()
                subprocess.run([sys.executable, "-c", TRY.replace(chr(10) + " " * 12, chr(10))], check=True)
                if (child := os.fork()) == 0:
                    with isobit.record("runs"):
                        torch.special.bessel_j0(torch.zeros(2))
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
                assert not os.path.exists("runs")
        """)
        self.assertIn("no record: isobit.record: this process was started within isobit check", done.stdout)
        self.assertIn("aten::special_bessel_j0", done.stdout)  # the forked child's, too

    def test_workers_of_loaders(self):
        found, _ = self.refused("""
            import torch
            class Data(torch.utils.data.Dataset):
                def __len__(self):
                    return 4
                def __getitem__(self, index):
                    return torch.special.bessel_j0(torch.tensor([0.1]))
            if __name__ == "__main__":
                for context in ("fork", "spawn"):
                    loader = torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context=context)
                    assert len(list(loader)) == 4
        """)
        self.assertEqual((found["aten::special_bessel_j0"]["count"], found["aten::special_bessel_j0"]["line"]), (8, "train.py:7"))

    def test_no_other_way_in(self):
        """Neither the variable for children nor anything that enable and record take begins a check."""
        program = textwrap.dedent("""
            import isobit, pathlib, torch
            isobit.enable()
            try:
                torch.special.bessel_j0(torch.ones(1))
            except isobit.RefusedError:
                print("refused")
            isobit.disable()
            from isobit._switching import _switch
            try:
                _switch.begin_check(pathlib.Path("x"))
            except RuntimeError as error:
                print(error)
        """)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                              env=self.environment(ISOBIT_CHECK="1"))
        self.assertEqual(done.stdout, "refused\na check begins before isobit is switched on\n")

    # ---- how it ends

    def test_a_script_that_catches_everything_ends_with_the_next_step(self):
        done = self.check("import torch\n" + STEPS + """
for _ in range(9):
    try:
        step()
    except Exception:
        pass
print("not reached")
""", expect=0)
        self.assertNotIn("not reached", done.stdout)

    def test_a_script_that_fails(self):
        done = self.check("import torch\ntorch.special.bessel_j0(torch.zeros(1))\nraise ValueError('its own')")
        self.assertIn("the script failed after 0 steps: ValueError: its own", done.stdout)
        self.assertIn("aten::special_bessel_j0", done.stdout)
        self.assertIn('File "train.py", line 3', done.stderr.replace(str(self.folder) + "/", ""))
        self.assertNotIn("runpy", done.stderr)
        self.check("import sys; sys.exit(3)", expect=2)

    def test_a_script_that_fails_by_itself(self):
        done = self.check("import torch\ntorch.ones(2).add_(1)\nraise ValueError('its own')", expect=2)
        self.assertIn("nothing is refused (the script failed after 0 steps: ValueError: its own)", done.stdout)

    def test_a_refusal_that_ends_the_script(self):
        done = self.check("import isobit\nraise isobit.RefusedError('isobit: aten::x is not certified under isobit-0.1\\n  do     y')")
        self.assertIn("a refusal ended the script after 0 steps", done.stdout)
        self.assertIn("aten::x", done.stdout)

    def test_ctrl_c(self):
        (self.folder / "train.py").write_text("import torch, time\ntorch.special.bessel_j0(torch.zeros(1))\nopen('there', 'w')\ntime.sleep(60)")
        process = subprocess.Popen([sys.executable, "-m", "isobit", "check", "train.py"], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment())
        while not (self.folder / "there").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate()
        self.assertEqual(process.returncode, 1, told)
        self.assertIn("interrupted after 0 steps", shown)
        self.assertIn("aten::special_bessel_j0", shown)

    def test_bad_input(self):
        for words, text in ((("missing.py",), "missing.py: no such file"), (("--steps", "0", "train.py"), "--steps is 0"), ((), "script"),
                            (("--steps", "many", "train.py"), "many"), ((".",), ".: no such file")):
            with self.subTest(words):
                (self.folder / "train.py").write_text("")
                done = subprocess.run([sys.executable, "-m", "isobit", "check", *words], cwd=self.folder, capture_output=True, text=True,
                                      check=False, env=self.environment())
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertTrue(done.stderr.startswith("isobit: ") and text in done.stderr, done.stderr)

    def test_help_has_an_example(self):
        done = subprocess.run([sys.executable, "-m", "isobit", "check", "--help"], capture_output=True, text=True, check=True,
                              env=self.environment())
        self.assertIn("\n  python -m isobit check train.py --epochs 1\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
