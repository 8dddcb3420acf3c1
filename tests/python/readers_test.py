"""What the package reads of a record that anybody may have written: altered files end in the errors that are documented, never in
another exception, a hang, or a file elsewhere. The same kinds of changes as tests/fuzz/mutation.cpp, the same ones each time."""

import functools
import io
import json
import os
import pathlib
import random
import stat
import tempfile
import types
import unittest
import warnings
import zipfile
from unittest import mock

import torch

import isobit
from isobit._base import _generators
from isobit._proof import _again, _checkout, _verify
from isobit._recording import _provenance, _record, _resume

FILES = {
    "experiment.toml": _provenance.toml("script", {"file": "train.py", "arguments": ["--lr", "0.1"], "folder": "", "commit": "1" * 40,
                                                   "dirty": True, "fingerprint_every": 20}, "A Python program under isobit.record."),
    "sources.json": json.dumps({"format": "isobit-sources-1", "files": {"train.py": "import isobit\n", "lib/a.py": "x = 1\n"}}),
    "export.json": json.dumps({"format": "isobit-export-1", "run": "r", "manifest": "", "left_out": [],
                               "changed": [{"path": "dirty.patch", "sha256": "0", "changes": []}]}),
    "state.json": json.dumps({"name": "small", "created": "2026-11-21T04:58:35.123456Z", "state": "running"}),
    "dirty.patch": "diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-a\n+b\n",
}
NUMBERS = [b"-1", b"1e300", b"1e999", b"18446744073709551616", b"9" * 5000, b"NaN", b"-Infinity", b"true", b"null", b"[]", b"{}", b"\"\""]
PIECES = [b"\"", b"\\", b"\n", b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"../", b"/etc/x", b" = ", b"{\"a\":", b"]", b".git/",
          b"\x1b[2K", b"[" * 100_000, b"{\"a\":" * 100_000, b"-", b"~"]
PROGRAM = _resume.Program({"file": "train.py", "arguments": ["--lr", "0.1"], "folder": ""}, "small", {"train.py": "import isobit\n"}, 20)


def mutated(content, draw):
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(content) + 1)
        length = draw.randrange(1, 40)
        kind = draw.randrange(7)
        if kind == 0 and content:
            at = min(at, len(content) - 1)
            content = content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1:]
        elif kind == 1:
            content = content[:at] + content[at + length:]
        elif kind == 2:
            content = content[:at] + content[at:at + length] * 2 + content[at + length:]
        elif kind == 3:
            content = content[:at]
        elif kind == 4:
            content = content[:at] + draw.choice(NUMBERS) + content[at + length:]
        else:
            content = content[:at] + draw.choice(PIECES) + content[at:]
    return content


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


class NoRepository:
    top = None

    def __init__(self, folder):
        del folder


class Readers(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        self.record = self.folder / "runs" / "record"
        self.record.mkdir(parents=True)
        (self.folder / "empty").mkdir()
        before = _checkout.Repository
        _verify._checkout.Repository = NoRepository  # git is asked elsewhere (sandbox_test.py)
        self.addCleanup(setattr, _verify._checkout, "Repository", before)

    def put(self, **altered):
        for name, text in FILES.items():
            (self.record / name).write_bytes(altered.get(name, text.encode()))

    def altered(self, names, count):
        """Each of the files altered in turn, the others as they are."""
        draw = random.Random(1)
        self.put()
        for number in range(count):
            name = names[number % len(names)]
            content = mutated(FILES[name].encode(), draw)
            (self.record / name).write_bytes(content)
            yield name, content
            (self.record / name).write_bytes(FILES[name].encode())

    def prepared(self, number=0):
        """What isobit verify is told."""
        work = self.folder / f"work-{number}"
        work.mkdir()
        return _verify.prepare([str(self.record), str(work), "--trust", "--repository", str(self.folder / "empty")])

    def test_verify_says_what_is_wrong(self):
        self.put()
        self.assertEqual(self.prepared()["file"], "train.py")
        for number, (name, content) in enumerate(self.altered(["experiment.toml", "sources.json", "export.json", "dirty.patch"], 1200)):
            with self.subTest(file=name, content=content[:300]):
                result = self.prepared(number + 1)
                self.assertIsInstance(result, (str, dict))
                json.dumps(result)
                self.assertEqual(sorted(os.listdir(self.folder / "empty")), [])

    def test_resume_says_what_is_wrong(self):
        self.put()
        self.assertEqual(_resume.choose(self.folder / "runs", PROGRAM, strict=True), self.record)
        for name, content in self.altered(["experiment.toml", "sources.json", "state.json"], 1500):
            for strict in (False, True):
                with self.subTest(file=name, content=content[:300], strict=strict), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        self.assertIn(_resume.choose(self.folder / "runs", PROGRAM, strict), (None, self.record))
                    except isobit.RecordError as error:
                        self.assertIn("record", str(error))

    def test_damaged_sources_are_named(self):
        for content in (b"", b"[]", b"{}", b"{\"files\": []}", b"{\"files\": {\"a\": 1}}", b"[" * 200_000, b"\xff"):
            self.put(**{"sources.json": content})
            with self.assertRaisesRegex(isobit.RecordError, "sources.json is damaged.*\n  do "):
                _resume.choose(self.folder / "runs", PROGRAM, strict=True)
            with self.assertRaisesRegex(isobit.RecordError, "sources.json is damaged"):
                _resume.recorded_sources(self.record)
            with self.assertWarnsRegex(UserWarning, "sources.json is damaged"):
                self.assertIsNone(_resume.choose(self.folder / "runs", PROGRAM, strict=False))

    def test_a_deep_experiment_is_no_record_of_a_program(self):
        self.put(**{"experiment.toml": b"[script]\nfile = " + b"[" * 200_000 + b"\n"})
        self.assertIsNone(_resume.choose(self.folder / "runs", PROGRAM, strict=True))
        self.assertIn("nested too deep", self.prepared())

    def test_a_file_that_is_too_large_is_not_read(self):
        for name in ("experiment.toml", "sources.json"):
            self.put()
            with open(self.record / name, "r+b") as file:
                file.truncate(1 << 40)  # takes no room on the disk
            self.assertIn("larger", self.prepared(name))
            if name == "sources.json":
                with self.assertRaises(isobit.RecordError):
                    _resume.recorded_sources(self.record)
            else:
                self.assertIsNone(_resume.choose(self.folder / "runs", PROGRAM, strict=True))

    def checkpoint(self):
        """A sound one, and the members of its zip file."""
        inner = {"state": {"w": torch.arange(6.0).view(2, 3), "epoch": 1}, "generators": _generators.states(), "epoch": 1, "batch": [],
                 "loss": 0x7FC00000, "weights": None, "sha256": "", "models": [["weight"]], "optimizers": 1,
                 "progress": {"next_epoch": 1, "epoch_begin": None, "loop": None, "loaders": []}}
        buffer = io.BytesIO()
        torch.save(inner, buffer)
        with zipfile.ZipFile(buffer) as file:
            return buffer.getvalue(), {name: file.read(name) for name in file.namelist()}

    def test_a_programs_checkpoint_is_read_or_refused(self):
        file, members = self.checkpoint()
        pickled = next(name for name in members if name.endswith("data.pkl"))
        path = self.folder / "step-3.pt"
        states = torch.get_rng_state(), random.getstate()
        self.addCleanup(lambda: (torch.set_rng_state(states[0]), random.setstate(states[1])))
        draw, read, refused = random.Random(2), 0, 0
        contents = [file, b"", file[:100], b"PK\5\6" + bytes(18)]
        for number in range(600):
            if number % 3 == 0:
                contents.append(mutated(file, draw))
            else:  # behind the zip file's check sums
                contents.append(zipped({**members, pickled: mutated(members[pickled], draw)}))
        for content in contents:
            path.write_bytes(content)
            run = types.SimpleNamespace(_checkpoint=(path, 3), _require_open=lambda method: None, _progress=mock.Mock(), _between=None,
                                        _folder=mock.Mock())
            run._restore = functools.partial(_record.record._restore, run)
            with self.subTest(content=content[:300]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    self.assertIsNotNone(_record.record.load(run))
                    read += 1
                except isobit.RecordError as error:
                    self.assertRegex(str(error), r"step-3.pt cannot be read: .*\n  do     ")
                    refused += 1
        self.assertGreater(read, 1)  # what altered a number of the program's own
        self.assertGreater(refused, 300)

    def test_what_a_program_leaves_is_counted_only_in_a_regular_file(self):
        runs = self.folder / "left"
        (runs / "record").mkdir(parents=True)
        log = runs / "record" / "steps.jsonl"
        os.mkfifo(log)
        steps = _again._Steps(runs)
        self.assertEqual(steps.look(), 0)
        log.unlink()
        log.symlink_to("/etc/passwd")
        self.assertEqual(steps.look(), 0)
        log.unlink()
        log.write_bytes(b"\0\n\xff\n")
        self.assertTrue(stat.S_ISREG(os.lstat(log).st_mode))
        self.assertEqual(steps.look(), 2)


if __name__ == "__main__":
    unittest.main()
