"""isobit verify of a program: what lies beside it is data. Code that no record has does not run in the place of what was recorded."""

import base64
import importlib.machinery
import io
import json
import os
import pathlib
import py_compile
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock

from record_test import PARTS, SCRIPT
from records import seal_anew
from sandbox_test import Sandbox

from isobit._proof import _beside
from isobit._proof._checkout import CannotJudge

# Leaves a record that came with it, in the place of one that was computed.
CANNED = """import base64, io, json, os, tarfile
tarfile.open(fileobj=io.BytesIO(base64.b64decode({!r}))).extractall(json.loads(os.environ["ISOBIT_RERUN"])["runs"])
os._exit(0)
"""
# What a record does not have: the module is forgotten before the sources are taken.
FORGETS = "import sys, helper\ndel sys.modules['helper']\n"


class Code(Sandbox):
    def both_ways(self, *options, expect=0):
        """The verdicts and what was said, in a sandbox and without one."""
        return [self.judge(*options, *way, expect=expect) for way in ((), ("--trust",))]

    def test_what_lies_beside_is_not_run_outside(self):
        """Where PYTHONPATH or PATH has an entry that is empty or not absolute, it is the folder that the record came with."""
        self.train()
        for name in ("sitecustomize.py", "argparse.py"):
            (self.folder / name).write_text(f"import os, pathlib\nif 'ISOBIT_RERUN' not in os.environ:\n    pathlib.Path('{self.folder}/ran').touch()\n")
        (self.folder / "git").write_text(f"#!/bin/sh\ntouch {self.folder}/ran\n")
        (self.folder / "git").chmod(0o755)
        for path in ("", "."):
            self.judge(PYTHONPATH=f"{path}:{self.environment()['PYTHONPATH']}", PATH=f"{path}:{os.environ['PATH']}")
            self.assertFalse((self.folder / "ran").exists(), path)

    def test_a_module_path_of_the_program(self):
        """Entries that are not absolute are the program's own, inside: an isobit there is refused as ever."""
        (self.folder / "lib").mkdir()
        (self.folder / "parts.py").rename(self.folder / "lib/parts.py")
        path = f"lib:{self.environment()['PYTHONPATH']}"
        subprocess.run([sys.executable, "train.py"], cwd=self.folder, check=True, capture_output=True,
                       env={**os.environ, **self.environment(PYTHONPATH=path)})
        self.assertEqual(self.judge(PYTHONPATH=path)[0]["verdict"], "identical")
        sources = json.loads((self.record() / "sources.json").read_text())
        sources["files"]["lib/isobit/__init__.py"] = "pass\n"
        (self.record() / "sources.json").write_text(json.dumps(sources) + "\n")
        seal_anew(str(self.record()))
        self.assertIn("an isobit of its own", self.judge(PYTHONPATH=path, expect=2)[0]["message"])

    def test_a_module_in_the_place_of_isobit(self):
        """A record that lies, and a folder that holds the lie: the stranger is told to call verify there."""
        self.train()
        run = self.record()
        lines = (run / "metrics.jsonl").read_text().splitlines()
        lines[-1] = json.dumps({**json.loads(lines[-1]), "values": {"accuracy": 0.999}}, separators=(",", ":"))
        (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        seal_anew(str(run))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            tar.add(run, run.name)
        canned = CANNED.format(base64.b64encode(packed.getvalue()).decode())
        for name in ("isobit/__init__.py", "torch.py", "random.py", "parts/__init__.py"):
            file = self.folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(canned)
            for verdict, _ in self.both_ways(expect=1):
                self.assertEqual(verdict["difference"]["what"], "metrics", name)
            file.unlink()
            if file.parent != self.folder:
                file.parent.rmdir()
        # The way that a record can bring one is closed, too.
        sources = json.loads((run / "sources.json").read_text())
        (run / "sources.json").write_text(json.dumps({**sources, "files": {**sources["files"], "isobit/__init__.py": canned}}, indent=2) + "\n")
        seal_anew(str(run))
        for verdict, _ in self.both_ways(expect=2):
            self.assertIn("would import an isobit of its own (isobit/__init__.py)", verdict["message"])

    def test_a_module_that_no_record_has(self):
        """The program fails with the way out; taken, the verdict names the file."""
        self.write("train.py", FORGETS + SCRIPT.replace("END", "pass"))
        self.write("helper.py", "")
        self.train()
        for verdict, _ in self.both_ways(expect=2):
            self.assertIn(f"it imports helper, and {self.folder}/helper.py is in neither the recorded sources nor the commit (if you trust it: "
                          f"--read {self.folder}/helper.py; the verdict then names it)", verdict["message"])
        for verdict, _ in self.both_ways("--read", "helper.py"):
            self.assertEqual(verdict["verdict"], "identical")
            self.assertIn("code beside that the record does not have and --read shows: helper.py", verdict["not_recomputed"])

    def test_compiled_text_is_the_recorded_one(self):
        """A .pyc that is never checked holds another model than the text beside it, which is what was recorded."""
        self.train()
        cache = self.folder / "__pycache__"
        cache.mkdir(exist_ok=True)
        for tag in (".pyc", f".{sys.implementation.cache_tag}.pyc"):
            self.write("evil.py", PARTS.replace("Tanh", "ReLU") + "import os\nif 'ISOBIT_RERUN' in os.environ: print('evil')\n")
            target = cache / f"parts{tag}" if tag != ".pyc" else self.folder / "parts.pyc"
            py_compile.compile(str(self.folder / "evil.py"), cfile=str(target), dfile="parts.py",
                               invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        (self.folder / "evil.py").unlink()
        for verdict, told in self.both_ways("--read", "."):
            self.assertEqual(verdict["verdict"], "identical")
            self.assertNotIn("evil", told + (verdict["script_output"] or ""))

    def test_compiled_text_is_the_recorded_one_while_recording(self):
        cache = self.folder / "__pycache__" / f"parts.{sys.implementation.cache_tag}.pyc"
        self.write("evil.py", PARTS.replace("Tanh", "ReLU"))
        for text, expect in ((self.folder / "evil.py", 1), (self.folder / "parts.py", 0)):
            py_compile.compile(str(text), cfile=str(cache), dfile="parts.py", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
            code, _, told = self.run_script("train.py", **self.environment())
            self.assertEqual(code, expect, told)
            self.assertEqual("parts.py and was not compiled from it" in told, bool(expect), told)

    def test_names_that_begin_with_a_dot(self):
        for name in (".env", "deep/.env", "deep/er/.ssh/key"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            self.write(name, "s3cret")
        self.write("deep/er/data.txt", "data")
        self.write("train.py", SCRIPT.replace("END", """for name in (".env", "deep/.env", "deep/er/.ssh/key", "deep/er/data.txt"):
        try:
            print("found", open(name).read())
        except FileNotFoundError:
            pass"""))
        self.train()
        verdict, _ = self.judge()
        self.assertEqual(verdict["script_output"].count("found"), 1, verdict["script_output"])
        self.assertIn("found data", verdict["script_output"])
        self.assertIn("found s3cret", self.judge("--read", "deep/.env")[0]["script_output"])


class Look(unittest.TestCase):
    """Which names are hidden."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        top = pathlib.Path(temporary.name).resolve()
        self.beside, self.program, self.elsewhere = top / "beside", top / "program", top / "elsewhere"
        for folder in (self.beside, self.program, self.elsewhere):
            folder.mkdir()

    def make(self, *names):
        for name in names:
            (self.beside / name).parent.mkdir(parents=True, exist_ok=True)
            (self.beside / name).write_text("")

    def look(self, *read, own=()):
        return _beside.look(self.beside, self.program, [str(self.beside / name) for name in own], [str(self.beside / name) for name in read])

    def test_code_is_hidden_and_data_is_not(self):
        extensions = [f"native{suffix}" for suffix in importlib.machinery.EXTENSION_SUFFIXES]
        self.make("data.txt", "train.py", "other.py", "old.pyc", *extensions, "deep/data/x.csv", "deep/data/loader.py", "pack/__init__.py", "pack/a.py",
                  "pack/sub/b.py", "mixed/__init__.py", "mixed/words.txt", "deep/__pycache__/x.cpython-311.pyc", "venv/pyvenv.cfg", "venv/x.txt",
                  ".git/x.py", "deep/.env", "x.dist-info/METADATA", "x.dist-info/entry_points.txt", "entry_points.txt")
        (self.program / "train.py").write_text("")
        found = self.look()
        self.assertEqual(sorted(found.code), sorted(["other.py", "old.pyc", *extensions, "deep/data/loader.py", "deep/__pycache__", "pack", "mixed/__init__.py",
                                                     "venv", "x.dist-info/entry_points.txt"]))
        self.assertEqual((sorted(found.dotted), found.shown), ([".git", "deep/.env"], []))

    def test_what_is_named_is_shown(self):
        self.make("pack/__init__.py", "pack/a.py", "pack/__pycache__/a.pyc", "other.py", "deep/.env", ".git/x")
        found = self.look("pack", "deep/.env", ".git/x")
        self.assertEqual((sorted(found.code), found.dotted, sorted(found.shown)),
                         (["other.py", "pack/__pycache__"], [], ["pack/__init__.py", "pack/a.py"]))

    def test_links(self):
        (self.elsewhere / "code").mkdir()
        (self.elsewhere / "code" / "a.py").write_text("")
        (self.elsewhere / "data").mkdir()
        self.make("here/a.txt")
        for name in ("code", "data"):
            (self.beside / name).symlink_to(self.elsewhere / name)
        (self.beside / "isobit.py").symlink_to("here/a.txt")
        (self.beside / "around").symlink_to(self.beside)
        self.assertEqual(sorted(self.look().code), ["code", "isobit.py"])

    def test_installed_packages_are_not_hidden(self):
        for environment in ("venv", ".venv"):
            self.make(f"{environment}/pyvenv.cfg", f"{environment}/lib/site-packages/torch/__init__.py", f"{environment}/bin/x.py")
            found = self.look(own=[f"{environment}/lib/site-packages"])
            self.assertEqual((found.code, found.dotted), ([f"{environment}/bin/x.py"], []))
            shutil.rmtree(self.beside / environment)
        with unittest.mock.patch("sys.path", [str(self.beside / "src")]):
            for own, refused in (([], True), ([str(self.beside / "src/isobit")], False)):
                (self.program / "src/isobit").mkdir(parents=True, exist_ok=True)
                (self.program / "src/isobit/__init__.py").write_text("")
                if refused:
                    self.assertRaises(CannotJudge, _beside.require_our_isobit, self.program, "train.py", self.beside, own, [])
                else:
                    _beside.require_our_isobit(self.program, "train.py", self.beside, own, [])

    def test_an_isobit_of_its_own(self):
        for script, name, refused in (("a/train.py", "a/isobit.py", True), ("a/train.py", "isobit.py", False), ("train.py", "isobit/__init__.py", True),
                                      ("train.py", "isobit/data.txt", False)):
            with self.subTest(name):
                (self.program / name).parent.mkdir(parents=True, exist_ok=True)
                (self.program / name).write_text("")
                if refused:
                    self.assertRaises(CannotJudge, _beside.require_our_isobit, self.program, script, self.beside, [], [])
                else:
                    _beside.require_our_isobit(self.program, script, self.beside, [], [])
                shutil.rmtree(self.program)
                self.program.mkdir()

    def test_linked_without_a_sandbox(self):
        self.make("data/x.csv", "deep/x.csv", "deep/code.py", "train.py")
        (self.beside / "again").symlink_to("deep")
        (self.program / "deep").mkdir()
        (self.program / "deep" / "own.txt").write_text("")
        (self.program / "train.py").write_text("recorded")
        _beside.link(self.beside, self.program, self.look().code)
        self.assertEqual((self.program / "train.py").read_text(), "recorded")
        self.assertEqual(sorted(str(path.relative_to(self.program)) for path in self.program.rglob("*")),
                         ["again", "data", "deep", "deep/own.txt", "deep/x.csv", "train.py"])
        self.assertEqual(sorted(path.name for path in (self.program / "again").iterdir()), ["own.txt", "x.csv"])
        self.assertTrue((self.program / "data").is_symlink())


if __name__ == "__main__":
    unittest.main()
