"""What mypy says of a user's program: the installed package has types (py.typed), right uses pass, wrong ones are found.

Skipped where mypy is absent: scripts/setup --lint installs it, or ISOBIT_LINT_VENV names an environment that has it.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(importlib.util.find_spec("isobit").origin).parent
TORCH = pathlib.Path(importlib.util.find_spec("torch").origin).parent.parent

RIGHT = """
import pathlib

import isobit
import torch
from torch.utils.data import DataLoader, TensorDataset


def train(folder: pathlib.Path) -> str:
    isobit.seed(3)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = TensorDataset(torch.ones(4, 3))
    with isobit.record(folder, name="run", every=2, resume=True) as run:
        if saved := run.load():
            model.load_state_dict(saved["model"])
        for epoch in run.epochs(2):
            for (x,) in run.batches(DataLoader(data)):
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            run.log("test", accuracy=0.5, loss=torch.ones(()), epoch=epoch)
            run.save({"model": model.state_dict()})
        for step in run.steps((torch.ones(4, 3),), batch=4, grain=2, epochs=2, weights=[1, 1, 2, 2]):
            for (x,) in step.grains():
                step.backward(model(x).sum())
            torch.nn.utils.clip_grad_norm_(step.gradients(), 1.0)
            step.finish(optimizer)
            loss: float = step.loss + len(step)
        where: pathlib.Path = run.path / run.id
        steps: int = run.steps + run.epoch + run.batch
    return f"{isobit.fingerprint(model)} {where} {steps}"


@isobit.enabled(isa="reference")
def forward(x: torch.Tensor) -> torch.Tensor:
    try:
        return torch.round(x, decimals=1)
    except isobit.RefusedError as refused:
        name: str = refused.operator
        raise ValueError(name) from refused
    except isobit.RecordError as error:
        runtime: RuntimeError = error
        raise runtime


def state() -> tuple[bool, str, int, str, str]:
    isobit.enable("avx2")
    isobit.disable()
    return isobit.is_enabled(), isobit.isa(), isobit.release_memory(), isobit.__version__, isobit.contract_version


reveal_type(forward)
"""
WRONG = {
    'isobit.enable("sse")': "arg-type",
    "isobit.enable(isa=2)": "arg-type",
    "isobit.fingerprint(3)": "arg-type",
    'isobit.seed("3")': "arg-type",
    'isobit.record(every="often")': "arg-type",
    "isobit.record().log(3, loss=1.0)": "arg-type",
    "isobit.record().track(3)": "arg-type",
    'isobit.record().log(loss="low")': "arg-type",
    "isobit.record().batches([1, 2])": "arg-type",
    "isobit.enabel()": "attr-defined",
    "isobit.is_enabled(True)": "call-arg",
    "word: int = isobit.isa()": "assignment",
    "none: str = isobit.disable()": "func-returns-value",
}


def mypy():
    """How to call it, or None."""
    for python in (sys.executable, os.path.join(os.environ.get("ISOBIT_LINT_VENV", ""), "bin", "python")):
        if os.path.exists(python) and subprocess.run([python, "-c", "import mypy.api"], capture_output=True, check=False).returncode == 0:
            return [python, "-m", "mypy"]
    return None


@unittest.skipIf(mypy() is None, "mypy is not installed (scripts/setup --lint)")
class Typing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="isobit-typing-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.cache = pathlib.Path(".mypy_cache").absolute()  # in the build's folder: PyTorch's types are read once

    def check(self, cache, leave_out=()):
        """Lines that mypy writes of the programs, as a user with the package installed beside PyTorch gets them."""
        environment = self.folder / f"environment{len(leave_out)}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        (site,) = environment.glob("lib/python*/site-packages")
        for file in PACKAGE.rglob("*"):
            if file.exists() and file.suffix in (".py", ".pyi", ".typed") and file.name not in leave_out:
                copy = site / "isobit" / file.relative_to(PACKAGE)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.read_bytes())
        (site / "torch.pth").write_text(f"{TORCH}\n")
        (self.folder / "right.py").write_text(RIGHT)
        (self.folder / "wrong.py").write_text("import isobit\n" + "\n".join(WRONG) + "\n")
        done = subprocess.run([*mypy(), "--strict", "--python-executable", environment / "bin" / "python", "--cache-dir", cache,
                               "--config-file", os.devnull, "--show-error-codes", "--no-pretty", "right.py", "wrong.py"],
                              cwd=self.folder, capture_output=True, text=True, check=False, env={**os.environ, "MYPYPATH": "", "PYTHONPATH": ""})
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        text = done.stdout + done.stderr
        return [line for line in text.splitlines() if re.match(r"(right|wrong)\.py:", line)], text

    def test_a_user_s_program(self):
        lines, text = self.check(self.cache)
        self.assertNotIn("isobit/", text, "errors within the package")
        right = [line for line in lines if line.startswith("right.py")]
        self.assertEqual(len(right), 1, right)
        self.assertRegex(right[0], r'Revealed type is "def \(x: torch\._tensor\.Tensor\) -> torch\._tensor\.Tensor"')
        for number, (statement, code) in enumerate(WRONG.items(), 2):
            with self.subTest(statement):
                self.assertTrue(any(line.startswith(f"wrong.py:{number}: error") and line.endswith(f"[{code}]") for line in lines), text)

    def test_without_the_marker_there_are_no_types(self):
        if (pathlib.Path(TORCH) / "isobit" / "py.typed").exists():
            self.skipTest("isobit is installed beside torch, with its marker: mypy would find that one")
        _, text = self.check(os.devnull, leave_out=("py.typed",))
        self.assertIn("missing library stubs or py.typed marker", text)


if __name__ == "__main__":
    unittest.main()
