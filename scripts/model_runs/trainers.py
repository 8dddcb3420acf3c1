"""Other libraries' trainers: examples/python/trainers, recorded, verified, killed and resumed."""

import fnmatch
import importlib.metadata
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from model_runs import environment

# name on the page: (script, package that has the trainer)
TRAINERS = {
    "Lightning's Trainer": ("lightning_trainer", "lightning"),
    "transformers' Trainer": ("transformers_trainer", "transformers"),
    "a loop with Accelerate": ("accelerate_loop", "accelerate"),
    "MONAI's SupervisedTrainer": ("monai_trainer", "monai"),
    "a loop of timm's pieces": ("timm_loop", "timm"),
}
KILL_AT = 7  # steps; each script takes 12, and saves after at most 4
LOGS = ("steps.jsonl", "metrics.jsonl", "evaluations.jsonl")

# Runs in the child before its script: the script itself knows nothing of being killed.
_KILLER = """
import os, signal
import torch.optim.optimizer as optimizer
taken = []
def kill(*_):
    taken.append(1)
    if len(taken) == int(os.environ["KILL_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)
if "KILL_AT" in os.environ:
    optimizer.register_optimizer_step_post_hook(kill)
"""


def rows(root):
    """What the last run of scripts/models --trainers found."""
    kept = root / "build" / "models" / "trainers.json"
    return json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else []


class Trainer:
    def __init__(self, root, script, folder):
        self.root, self.folder = root, folder
        self.script = root / "examples" / "python" / "trainers" / f"{script}.py"
        self.variables = dict(os.environ, PYTHONPATH=environment.package(), HF_HUB_OFFLINE="1", OMP_WAIT_POLICY="PASSIVE",
                              ISOBIT_PYTHON=sys.executable)

    def train(self, where, threads, kill_at=None):
        """(exit status, last line) of the script, called in a folder of its own."""
        folder = self.folder / where
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as site:
            (pathlib.Path(site) / "sitecustomize.py").write_text(_KILLER, encoding="utf-8")
            variables = dict(self.variables, OMP_NUM_THREADS=str(threads))
            if kill_at:
                variables.update(KILL_AT=str(kill_at), PYTHONPATH=os.pathsep.join([site, self.variables["PYTHONPATH"]]))
            done = subprocess.run([sys.executable, "-W", "ignore", str(self.script)], cwd=folder, env=variables, text=True,
                                  capture_output=True, check=False)
        lines = done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""]
        self.told = done.stderr
        return done.returncode, lines[-1]

    def record(self, where):
        """The path of the one record there."""
        (path,) = (path for path in (self.folder / where / "runs").iterdir() if (path / "steps.jsonl").exists())
        return path

    def logs(self, where):
        path = self.record(where)
        return {name: (path / name).read_bytes() for name in LOGS if (path / name).exists()}

    def verify(self):
        program = environment.package() + "/isobit"
        program = program + "/bin/isobit" if os.path.exists(program + "/bin/isobit") else str(self.root / "build/release/isobit")
        done = subprocess.run([program, "verify", str(self.record("unbroken")), "--json"], cwd=self.root, env=self.variables,
                              text=True, capture_output=True, check=False)
        try:
            return json.loads(done.stdout)["verdict"]
        except (ValueError, KeyError):
            return f"exit {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}"


def examine(root, name, folder):
    script, package = TRAINERS[name]
    shutil.rmtree(folder, ignore_errors=True)
    trainer = Trainer(root, script, folder)
    row = {"name": name, "script": f"examples/python/trainers/{script}.py", "version": importlib.metadata.version(package)}
    status, weights = trainer.train("unbroken", 1)
    if status:
        return {**row, "recorded": f"exit {status}: {weights[:200]}"}
    row.update(recorded=f"{len(trainer.logs('unbroken')['steps.jsonl'].splitlines())} steps", verified=trainer.verify())
    status, _ = trainer.train("broken", 2, KILL_AT)
    if status != -signal.SIGKILL:
        return {**row, "resumed": f"was not killed: exit {status}"}
    status, resumed = trainer.train("broken", 2)
    if status:
        return {**row, "resumed": f"exit {status}: {resumed[:200]}"}
    if "starts again from step 1" in trainer.told:
        return {**row, "resumed": "from step 1: nothing had been saved"}
    same = resumed == weights and trainer.logs("broken") == trainer.logs("unbroken")
    return {**row, "resumed": "the same bits" if same else "other bits"}


def is_good(row):
    return row.get("verified") == "identical" and row.get("resumed") == "the same bits"


def main(root, options):
    """The exit code: 1 where one of them is not as it should be."""
    kept = root / "build" / "models" / "trainers.json"
    found = {row["name"]: row for row in rows(root)}
    for name in TRAINERS:
        if options.model and not any(fnmatch.fnmatchcase(name, pattern) for pattern in options.model):
            continue
        found[name] = row = examine(root, name, root / "build" / "models" / "trainers" / TRAINERS[name][0])
        told = ", ".join(f"{kind} {row.get(kind)}" for kind in ("recorded", "verified", "resumed"))
        print(f"{name}: {told}", file=sys.stderr)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps([found[name] for name in TRAINERS if name in found], indent=1), encoding="utf-8")
    if options.json:
        print(json.dumps(list(found.values()), indent=1))
    return 0 if all(is_good(row) for row in found.values()) else 1
