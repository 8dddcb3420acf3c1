"""`python -m isobit`: the whole program, with this Python and its torch, which is not imported for it."""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
from unittest import mock

from programs import Programs

import isobit.__main__
from isobit import _built

PROGRAM = os.environ["ISOBIT_PROGRAM"]


class ProgramTest(Programs):
    def call(self, *words, expect=0, **environment):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False,
                              env={**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), **environment})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def test_it_says_what_the_program_says(self):
        for words, expect in ((["--version"], 0), (["--help"], 0), (["log", "--json"], 0), (["lgo"], 2), (["verify"], 2), ([], 2)):
            self.assertEqual(self.call(sys.executable, "-m", "isobit", *words, expect=expect), self.call(PROGRAM, *words, expect=expect))

    def test_help_lists_what_the_package_answers_itself(self):
        help_text = self.call(sys.executable, "-m", "isobit", "--help")[0]
        for command in ("check", "launch"):
            self.assertRegex(help_text, rf"(?m)^  {command} +\w")
            self.assertIn(f"isobit {command}", self.call(sys.executable, "-m", "isobit", command, "--help")[0])
            self.assertIn(f"isobit: '{command}' is a command of the Python package (python -m isobit {command}, or",
                          self.call(PROGRAM, command, expect=2)[1])

    def test_the_script(self):
        """What pip makes of [project.scripts]."""
        script = "import sys; sys.argv[0] = 'isobit'; from isobit.__main__ import program; sys.exit(program())"
        self.assertEqual(self.call(sys.executable, "-c", script, "--version"), self.call(PROGRAM, "--version"))

    def test_an_interrupt_in_its_first_moments_is_no_traceback(self):
        script = ("import os, signal, sys, isobit.__main__; isobit.__main__.torch_folder = lambda: os.kill(os.getpid(), signal.SIGINT); "
                  "sys.argv[1:] = ['log']; isobit.__main__.program()")
        self.assertEqual(self.call(sys.executable, "-c", script, expect=130), ("", ""))

    def test_records_are_read_without_torch(self):
        out, _ = self.call(sys.executable, "-S", "-m", "isobit", "log", "--json")  # -S: without site-packages
        self.assertEqual(json.loads(out), [])

    def test_torch_is_not_imported(self):
        told = self.call(sys.executable, "-X", "importtime", "-m", "isobit", "log")[1]
        self.assertRegex(told, r"\bargparse|importlib")
        self.assertNotRegex(told, r"\|\s+torch\b")
        self.call(sys.executable, "-c", "import sys, isobit, isobit._proof._verify; sys.exit('torch' in sys.modules)")

    def test_another_torch_is_refused(self):
        (self.folder / "torch").mkdir()
        self.write("torch/__init__.py", "raise ImportError('not to be imported')")
        self.write("torch/version.py", "__version__ = '1.2.3+cpu'\n")
        path = os.pathsep.join([str(self.folder), *sys.path[1:]])
        told = self.call(sys.executable, "-m", "isobit", "verify", "last", expect=2, PYTHONPATH=path)[1]
        self.assertIn(f"'verify' needs PyTorch {_built.torch_version}, which does not load: PyTorch 1.2.3 is in {self.folder}/torch", told)
        self.assertIn(f"pip install torch=={_built.torch_version}", told)
        self.call(sys.executable, "-m", "isobit", "log", PYTHONPATH=path)

    def test_a_copy_without_its_library(self):
        copy, link = self.folder / "away" / "isobit", self.folder / "link"
        copy.parent.mkdir()
        shutil.copy(PROGRAM, copy)
        told = self.call(copy, "verify", "last", expect=2)[1]
        self.assertIn(f"isobit: 'verify' needs isobit's library with the commands that compute: neither {self.folder}/libisobit_torch.so nor "
                      f"{copy.parent}/python/isobit/libisobit_torch.so exists\n  do     run isobit from the folder", told)
        self.assertIn("since their library does not load (neither", self.call(copy, "--help")[1])
        self.call(copy, "log")
        link.symlink_to(PROGRAM)
        self.assertEqual(self.call(link, "--help"), self.call(PROGRAM, "--help"))

    def test_a_build_without_the_program(self):
        told = io.StringIO()
        with mock.patch.object(isobit.__main__, "PROGRAM", pathlib.Path("/no/isobit")), contextlib.redirect_stderr(told):
            self.assertEqual(isobit.__main__.main(["log"]), 2)
        self.assertTrue(re.fullmatch(r"isobit: /no/isobit: no such file or directory \(this build has only the operators.*\)\n", told.getvalue()))


if __name__ == "__main__":
    unittest.main()
