"""Jobs of several workers beside the same experiment in one process, for scripts/worker-moments and scripts/worker-crowds.

Standard library only; the experiments train on made data.
"""
import contextlib
import glob
import json
import os
import random
import signal
import struct
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPARED = ("steps.jsonl", "metrics.jsonl")

IMAGES = """\
[data]
format = "idx"
path = "made"
train_images = "x"
train_labels = "y"
test_images = "x"
test_labels = "y"
"""
TEXT = """\
[data]
format = "text"
path = "made"
train = "text"
window = 24
target = "next"

[split]
rule = "blocks"
"""
# name: data, model, images or windows in a grain, grains in a step, steps
EXPERIMENTS = {
    "mlp": (IMAGES, 'name = "mlp"\nhidden = [256]\ndropout = 0.25', 4, 12, 40),
    "lenet5": (IMAGES, 'name = "lenet5"', 4, 12, 40),
    "resnet18": (IMAGES, 'name = "resnet18"', 2, 12, 24),
    "gpt": (TEXT, 'name = "gpt2"\nclasses = 256\nwidth = 64\ndepth = 2\nheads = 2', 2, 12, 40),
}


def experiment(model, steps=None):
    """(its text, its number of steps)"""
    data, network, grain, grains, usual = EXPERIMENTS[model]
    steps = steps or usual
    text = (f'name = "{model}"\nseed = 3\nsteps = {steps}\nbatch = {grain * grains}\ngrain = {grain}\n\n'
            f'{data}\n[model]\n{network}\n\n'
            '[optimizer]\nname = "adam"\nlr = 0.001\n\n[evaluate]\nevery = 1\nbatch = 16\n\n[checkpoint]\nevery = 3\n')
    return text, steps


def make_data(folder, count=384):
    """IDX files of grey images and labels, and a text."""
    os.makedirs(folder)
    numbers = random.Random(1)
    with open(f"{folder}/x", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, 28, 28) + numbers.randbytes(count * 784))
    with open(f"{folder}/y", "wb") as file:
        file.write(struct.pack(">II", 0x801, count) + bytes(numbers.randrange(10) for _ in range(count)))
    with open(f"{folder}/text", "w", encoding="ascii") as file:
        file.write(" ".join(numbers.choice(("grain", "sum", "worker", "step", "bits", "noise")) for _ in range(4000)))


def children(pid):
    """Its living child processes, by number."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
            if fields[1] == str(pid) and fields[0] != "Z":
                found.append(int(name))
    return sorted(found)


def send(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Jobs:
    """A scratch folder with data, the experiment, and what one process made of it."""

    def __init__(self, program, model, steps=None):
        self.program = os.path.abspath(program)
        self.scratch = tempfile.mkdtemp(prefix="isobit-jobs-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.environment = {**os.environ, "XDG_CACHE_HOME": f"{self.scratch}/cache"}
        make_data(f"{self.scratch}/made")
        text, self.length = experiment(model, steps)
        with open(f"{self.scratch}/small.toml", "w", encoding="ascii") as file:
            file.write(text)
        alone = self.start(["small.toml", "--runs", "alone"])
        out, err = alone.communicate()
        if alone.returncode != 0:
            raise SystemExit(f"{model} in one process: {err.strip()}")
        self.expected = json.loads(out)["weights_sha256"]
        self.alone = self.logs(self.folder("alone"))

    def logs(self, folder):
        texts = []
        for name in COMPARED:
            with open(os.path.join(self.scratch, folder, name), encoding="ascii") as file:
                texts.append(file.read())
        return texts

    def folder(self, runs):
        return next(iter(glob.glob(f"{self.scratch}/{runs}/2*")), None)

    def steps(self, runs):
        """Those that the record has."""
        folder = self.folder(runs)
        with contextlib.suppress(OSError, TypeError), open(f"{folder}/steps.jsonl", encoding="ascii") as log:
            return sum(1 for _ in log)
        return 0

    def recorder(self, runs):
        """The process that the record's lock names."""
        for path in glob.glob(f"{self.scratch}/{runs}/.locks/2*"):
            with contextlib.suppress(OSError, ValueError, KeyError), open(path, encoding="utf-8") as file:
                return int(json.load(file)["pid"])
        return None

    def finished(self, folder):
        """The result that a finished record holds; None where there is no record or it is not finished."""
        shown = folder and self.show(folder)
        if not shown or shown.returncode != 0 or json.loads(shown.stdout)["state"] != "finished":
            return None
        return {"folder": folder, "weights_sha256": json.loads(shown.stdout)["weights_sha256"]}

    def show(self, folder):
        return subprocess.run([self.program, "show", folder, "--json"], cwd=self.scratch, env=self.environment,
                              capture_output=True, text=True, check=False)

    def start(self, words):
        return subprocess.Popen([self.program, "run", *words, "--threads", "1", "--json"], cwd=self.scratch, env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process, patience):
        """(the job's result, why it is wrong or "")"""
        try:
            out, err = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            for pid in children(process.pid):
                send(pid, signal.SIGKILL)
            process.kill()
            process.communicate()
            return {}, f"no end after {patience} s"
        if process.returncode != 0:
            return {}, f"exit code {process.returncode}: {err.strip()[-300:]}"
        result = json.loads(out.strip().splitlines()[-1])
        return result, self.problem(result)

    def problem(self, result):
        """Why the result is not that of one process, in words, or ""."""
        if result["weights_sha256"] != self.expected:
            return "OTHER WEIGHTS"
        for name, alone, now in zip(COMPARED, self.alone, self.logs(result["folder"]), strict=True):
            if alone != now:
                return f"other {name}"
        shown = self.show(result["folder"])
        return "" if shown.returncode == 0 and '"sound: ' in shown.stdout else f"no sound record: {shown.stderr.strip()}"
