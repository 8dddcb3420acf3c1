"""What the tests of pages share: the program, runs made without training, and the folder with optional tools."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM, MAKE_RUN = os.environ["ISOBIT_PROGRAM"], os.environ["ISOBIT_MAKE_RUN"]
PAGES = pathlib.Path(os.environ.get("ISOBIT_PAGES", "build/pages"))  # a virtual environment (scripts/setup --pages)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def call(self, *words, expect=0, **keywords):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache"), **keywords.pop("environment", {})}
        done = subprocess.run([str(word) for word in words], cwd=self.folder, capture_output=True, text=True, check=False, env=environment, **keywords)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout if expect == 0 else done.stderr

    def isobit(self, *words, expect=0, **keywords):
        return self.call(PROGRAM, *words, expect=expect, **keywords)

    def make_run(self, name="small", state="finished", runs="runs", *files):
        return self.call(MAKE_RUN, runs, name, state, *files).strip()

    def document(self, page):
        text = (self.folder / page).read_text()
        return json.loads(text.split('id="report">', 1)[1].split("</script>", 1)[0])
