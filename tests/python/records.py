"""Records as whoever can write their folder can alter them, and small data for runs of the program. Needs no torch."""

import gzip
import hashlib
import json
import os
import random


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
