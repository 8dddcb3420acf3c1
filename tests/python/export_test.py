"""isobit export of a Python program's record, and its verification by somebody who has nothing but the file."""

import gzip
import json
import pathlib
import random
import shutil
import sys
import tarfile
import tempfile
import unittest

import torch

from isobit import _exported, _record_files
from record_test import PARTS, PROGRAM, SCRIPT, Folder


class Export(Folder):
    def exported(self, *options, **keywords):
        self.call(PROGRAM, "export", "last", "--out", "run.tar", *options, **keywords)
        return self.folder / "run.tar"

    def alone(self):
        """The file goes, nothing else stays."""
        for path in self.folder.iterdir():
            if path.name != "run.tar":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def judged(self, *words, expect=0):
        return json.loads(self.call(*words, "--json", expect=expect))

    def test_a_stranger_verifies_with_one_command(self):
        self.train()
        self.exported()
        self.alone()
        for words in ((sys.executable, "-m", "isobit", "verify", "run.tar"), (PROGRAM, "verify", "run.tar", "--isa", "reference"),
                      (PROGRAM, "verify", "run.tar", "--into", "kept")):
            verdict = self.judged(*words)
            self.assertEqual((verdict["verdict"], verdict["to"], verdict["weights"]), ("identical", 8, verdict["recorded_weights"]))
        self.assertEqual(self.verify("--runs", "kept")["verdict"], "identical")

    def test_a_difference_is_found(self):
        self.write("train.py", SCRIPT.replace("END", "pass").replace("isobit.seed(3)", "isobit.seed(3 + ('other' in sys.argv))"))
        self.train()
        self.exported()
        self.alone()
        verdict = json.loads(self.call(sys.executable, "-m", "isobit", "verify", "run.tar", "--json", "--", "other", expect=1))
        self.assertEqual((verdict["verdict"], verdict["difference"]["step"]), ("different", 1))

    def git(self, *words):
        self.call("git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words)

    def test_patch_with_a_secret(self):
        self.git("init", "-q", ".")
        self.git("add", "train.py", "parts.py")
        self.git("commit", "-qm", "first")
        self.write("parts.py", PARTS.replace("WORKERS = 0", 'WORKERS = 0\nAPI_TOKEN = "abcd1234efgh"  # /home/alice/x'))
        self.train()
        self.exported("--yes", expect=2)
        self.exported("--redact", expect=2)
        self.assertFalse((self.folder / "run.tar").exists())
        self.exported("--yes", "--redact")
        content = (self.folder / "run.tar").read_bytes()
        self.assertNotIn(b"abcd1234efgh", content)
        self.assertNotIn(b"alice", content)
        self.git("checkout", "-q", "parts.py")
        self.assertEqual(self.judged(sys.executable, "-m", "isobit", "verify", "run.tar")["verdict"], "identical")
        self.alone()  # the commit, too
        self.git("init", "-q", ".")
        self.assertEqual(self.judged(sys.executable, "-m", "isobit", "verify", "run.tar")["verdict"], "identical")

    def test_torchscript_brings_its_network(self):
        draw = random.Random(1)
        for name, count in (("train", 40), ("t10k", 10)):
            for kind, sizes, elements in (("images-idx3", (count, 28, 28), draw.randbytes(count * 784)),
                                          ("labels-idx1", (count,), bytes(draw.randrange(10) for _ in range(count)))):
                header = bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)
                with gzip.open(self.folder / f"{name}-{kind}-ubyte.gz", "wb") as file:
                    file.write(header + elements)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
        torch.jit.script(network).save(str(self.folder / "net.pt"))
        self.write("small.toml", 'name = "script"\nbatch = 10\nsteps = 4\n[data]\nformat = "idx"\npath = "."\n[model]\n'
                                 'name = "torchscript"\ntorchscript = "net.pt"\n[optimizer]\nname = "sgd"\nlr = 0.1\n')
        self.call(PROGRAM, "run", "small.toml")
        self.exported()
        (self.folder / "net.pt").unlink()
        self.assertEqual(self.judged(PROGRAM, "verify", "run.tar")["verdict"], "identical")
        self.call(PROGRAM, "export", "last", "--out", "other.tar", expect=2)

    def test_what_is_no_export_is_refused(self):
        self.train()
        path = self.exported()
        content = path.read_bytes()
        top = next(iter(tarfile.open(path))).name.partition("/")[0]

        def refused(content, part=""):
            path.write_bytes(content)
            with tempfile.TemporaryDirectory() as folder:
                with self.assertRaisesRegex(_record_files.DamagedRecord, part):
                    _exported.unpack(path, pathlib.Path(folder, "in"))
                self.assertEqual([entry.name for entry in pathlib.Path(folder).iterdir() if entry.name != "in"], [])

        def before(name, kind=tarfile.REGTYPE, size=None):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            member.size = 4 if size is None and kind == tarfile.REGTYPE else size or 0
            made = member.tobuf(tarfile.USTAR_FORMAT) + (b"text".ljust(512, b"\0") if member.size == 4 else b"")
            return made + content

        refused(before("../x"), "no name of a run's file")
        refused(before("/x"), "no name of a run's file")
        refused(before("other/x"), "no name of a run's file")
        refused(before(f"{top}/link", tarfile.SYMTYPE), "no plain file")
        refused(before(f"{top}/link", tarfile.LNKTYPE), "no plain file")
        refused(before(f"{top}/folder", tarfile.DIRTYPE), "no plain file")
        refused(before(f"{top}/huge", size=1 << 32), "larger than the archive")
        refused(before(f"{top}/added.txt"), "added.txt")
        refused(before(f"{top}/manifest.json"), "there twice")
        for size in range(0, len(content.rstrip(b"\0")), 1021):
            refused(content[:size])
        refused(b"text")
        path.write_bytes(content)
        originals = []
        for at in [None, *range(0, len(content), 211)]:
            changed = bytearray(content)
            if at is not None:
                changed[at] ^= 1 << at % 8
            path.write_bytes(changed)
            with tempfile.TemporaryDirectory() as folder:
                try:
                    originals.append(_exported.unpack(path, folder)[1])
                except _record_files.DamagedRecord:
                    continue
        self.assertTrue(all(record == originals[0] for record in originals))
        self.assertLess(len(originals), len(content) // 211 * 2 // 3)
        verdict = self.judged(sys.executable, "-m", "isobit", "verify", "parts.py", expect=2)
        self.assertEqual(verdict["verdict"], "cannot-judge")


if __name__ == "__main__":
    unittest.main()
