"""The scripts of docs/libraries.md: the same weights with other threads and kernels, and a record that has them.

The libraries are no requirement: what is missing is skipped by name (docs/libraries.md has an environment for all).
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

import isobit

EXAMPLES = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "examples" / "libraries"
NEEDS = {"lightning_finetune": ["lightning"], "transformers_finetune": ["transformers", "accelerate", "safetensors"],
         "accelerate_train": ["accelerate", "safetensors"], "timm_finetune": ["timm", "torchvision"]}


def reads_safetensors():
    """Whether files of safetensors can be read under the switch: that takes views of floats as other types."""
    with isobit.enabled():
        try:
            return torch.zeros(4, dtype=torch.uint8).view(torch.float32) is not None
        except isobit.RefusedError:
            return False


class Libraries(unittest.TestCase):
    def run_example(self, name, before="", **environment):
        """(the last line, the record's weights, its metrics)"""
        with tempfile.TemporaryDirectory() as folder:
            program = (f"import runpy, sys\nimport isobit\n{before}\nsys.argv = ['{name}.py', '--epochs', '2', '--runs', 'runs']\n"
                       f"runpy.run_path({str(EXAMPLES / f'{name}.py')!r}, run_name='__main__')")
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", program], cwd=folder, capture_output=True, text=True, check=False,
                env={**os.environ, "PYTHONPATH": str(pathlib.Path(isobit.__file__).parents[1]), "HF_HUB_OFFLINE": "1", **environment})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            record, = (pathlib.Path(folder) / "runs").glob("2*")
            state = json.loads((record / "state.json").read_text())
            lines = [json.loads(line) for line in (record / "metrics.jsonl").read_text().splitlines()]
            return done.stdout.splitlines()[-1], state["weights"], lines

    def compare(self, name):
        missing = [package for package in NEEDS[name] if importlib.util.find_spec(package) is None]
        if missing:
            self.skipTest(f"{', '.join(missing)}: not installed")
        if "safetensors" in NEEDS[name] and not reads_safetensors():
            self.skipTest("this build refuses views of floats as other types, which safetensors takes to read files")
        last, weights, metrics = self.run_example(name, OMP_NUM_THREADS="1")
        self.assertEqual(last, f"weights {weights}")
        self.assertEqual(self.run_example(name, "isobit.enable('reference')", OMP_NUM_THREADS="3"), (last, weights, metrics))
        self.assertEqual({line["epoch"] for line in metrics}, {1, 2})
        self.assertTrue(any("accuracy" in value for line in metrics for value in line["values"]), metrics)
        self.assertTrue(any(value in ("lr", "learning_rate") for line in metrics for value in line["values"]), metrics)

    def test_lightning(self):
        self.compare("lightning_finetune")

    def test_transformers(self):
        self.compare("transformers_finetune")

    def test_accelerate(self):
        self.compare("accelerate_train")

    def test_timm(self):
        self.compare("timm_finetune")

    def test_every_script_is_on_the_page(self):
        page = (EXAMPLES.parents[1] / "docs" / "libraries.md").read_text()
        self.assertEqual(sorted(script.stem for script in EXAMPLES.glob("*.py")), sorted(NEEDS))
        for name in NEEDS:
            self.assertIn(f"examples/libraries/{name}.py", page)


if __name__ == "__main__":
    unittest.main()
