"""Records as whoever can write their folder can alter them, and small data for runs of the program. Needs no torch."""

import gzip
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ.get("ISOBIT_PROGRAM", "")


def write_images(folder, train=40, test=10):
    """Random images and labels in the four files that isobit run reads."""
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(1)
    for name, count in (("train", train), ("t10k", test)):
        for kind, sizes, elements in (("images-idx3", (count, 28, 28), draw.randbytes(count * 784)),
                                      ("labels-idx1", (count,), bytes(draw.randrange(10) for _ in range(count)))):
            header = bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)
            with gzip.open(os.path.join(folder, f"{name}-{kind}-ubyte.gz"), "wb") as file:
                file.write(header + elements)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, content):
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def digest(path):
    content = read(path)
    return len(content), hashlib.sha256(content).hexdigest()


def state_of(run):
    return json.loads(read(f"{run}/state.json"))


def put_state(run, **changes):
    state = {**state_of(run), **changes}
    state["inputs"] = dict(sorted(state["inputs"].items()))
    write(f"{run}/state.json", json.dumps(state, indent=2, ensure_ascii=False) + "\n")


def seal_anew(run):
    """state.json's inputs, checkpoints.jsonl's logs and files, the manifest: all fit what lies there now."""
    state = state_of(run)
    for name in state["inputs"]:
        size, sha = digest(f"{run}/{name}")
        state["inputs"][name] = {"size": size, "sha256": sha}
    put_state(run, inputs=state["inputs"])
    lines = []
    for line in map(json.loads, read(f"{run}/checkpoints.jsonl").splitlines()):
        if os.path.exists(f"{run}/{line['file']}"):
            line["size"], line["sha256"] = digest(f"{run}/{line['file']}")
        for log, covered in line["logs"].items():
            text = read(f"{run}/{log}").splitlines(keepends=True)
            text = b"".join(entry for entry in text if json.loads(entry).get("step", json.loads(entry).get("until")) <= line["step"])
            covered["size"], covered["sha256"] = len(text), hashlib.sha256(text).hexdigest()
        lines.append(json.dumps(line, separators=(",", ":")) + "\n")
    write(f"{run}/checkpoints.jsonl", "".join(lines))
    names = sorted(os.path.relpath(os.path.join(folder, name), run) for folder, _, files in os.walk(run) for name in files)
    entries = []
    for name in names:
        if name != "manifest.json":
            size, sha = digest(f"{run}/{name}")
            entries.append(f'    {{"path": {json.dumps(name)}, "size": {size}, "sha256": "{sha}"}}')
    text = f'{{\n  "format": "isobit-manifest-1",\n  "run": {json.dumps(state["id"])},\n  "files": [\n' + ",\n".join(entries) + "\n  ],\n"
    write(f"{run}/manifest.json", text + f'  "digest": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n')


def lines_of(run, log):
    return [json.loads(line) for line in read(f"{run}/{log}").splitlines()]


def put_lines(run, log, lines):
    write(f"{run}/{log}", "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


# ---- alterations: each takes the folder of a record


def altered_line(log, number, **changes):
    def alter(run):
        lines = lines_of(run, log)
        lines[number] = {**lines[number], **changes}
        put_lines(run, log, lines)
    return alter


def without_key(log, number, key):
    def alter(run):
        lines = lines_of(run, log)
        del lines[number][key]
        put_lines(run, log, lines)
    return alter


def altered_text(name, old, new):
    def alter(run):
        text = read(f"{run}/{name}").decode()
        assert old in text, (name, old)
        write(f"{run}/{name}", text.replace(old, new, 1))
    return alter


def without_line(log, number):
    return lambda run: put_lines(run, log, [line for i, line in enumerate(lines_of(run, log)) if i != number])


def put_state_without(run, key):
    state = state_of(run)
    del state[key]
    write(f"{run}/state.json", json.dumps(state, indent=2) + "\n")


# ---- runs of the program


def experiment(data, **tables):
    """The text of a small experiment file over `data` (write_images); each of `tables` stands for the one of its name, `top` for the
    keys before them: a dict, or the lines themselves."""
    wanted = {"top": {"name": "small", "seed": 3, "epochs": 2, "batch": 20}, "arithmetic": {}, "data": {"path": data},
              "model": {"name": "mlp", "hidden": [8]}, "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
              "evaluate": {"batch": 16}, "checkpoint": {"every": 2, "keep": 2}, "fingerprint": {"every": 3}} | tables
    text = ""
    for name, keys in wanted.items():
        lines = keys if isinstance(keys, str) else "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
        text += f"{'' if name == 'top' else f'[{name}]'}\n{lines}\n" if lines else ""
    return text


class RecordedRuns(unittest.TestCase):
    """`folder` with images in `data`, where the program is called; removed afterwards."""

    images = (40, 10)  # of the training and of the test set

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="isobit-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        write_images(f"{cls.folder}/data", *cls.images)

    @classmethod
    def call(cls, *words, **options):
        options.setdefault("env", {**os.environ, "ISOBIT_PYTHON": sys.executable})  # which executes programs again
        return subprocess.run([PROGRAM, *words], cwd=cls.folder, capture_output=True, text=True, check=False, **options)

    @classmethod
    def train(cls, text, *options):
        """The folder of the run that an experiment's text makes, which lies in small.toml then."""
        write(f"{cls.folder}/small.toml", text)
        done = cls.call("run", "small.toml", "--json", *options)
        assert done.returncode == 0, done.stderr
        return os.path.join(cls.folder, json.loads(done.stdout)["folder"])

    def forged(self, run, alter):
        """A copy of the run in an archive of its own, altered and sealed anew."""
        archive = tempfile.mkdtemp(dir=self.folder)
        self.addCleanup(shutil.rmtree, archive)
        copy = shutil.copytree(run, os.path.join(archive, os.path.basename(run)))
        alter(copy)
        seal_anew(copy)
        return copy
