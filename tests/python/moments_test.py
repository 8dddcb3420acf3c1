"""A Python program killed, or with errors of its disk, at random moments: what it is resumed to is the record of an undisturbed one,
and no checkpoint that once stood is ever gone back behind. tests/archive/moments_test.cpp does so for the writers alone.

$ISOBIT_MOMENTS: how many moments (16). $ISOBIT_MOMENTS_FROM: the first round's number, which decides what happens in it (0).
"""

import ctypes
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).parent / "disturbed_files.c"
PRELOADED = "ISOBIT_DISTURBED_FILES"

SCRIPT = """
import os, pathlib
import torch, isobit

here = pathlib.Path(os.environ["HERE"])
with isobit.record(here / "runs", every=2, resume=True) as run:
    isobit.seed(3)
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(16, 6), torch.arange(16) % 3
    first, saved = 1, run.load()
    (here / "resumed").write_text(str(run.steps))
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    for run.epoch in range(first, 5):
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            run.log("test", accuracy=(model(x).argmax(1) == y).float().mean())
        run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": run.epoch})
        (here / "stood").write_text(str(run.steps))
"""


class Moments(unittest.TestCase):
    def setUp(self):
        from programs import Programs
        self.programs = Programs()
        self.programs.setUp()
        self.addCleanup(self.programs.doCleanups)
        self.folder = self.programs.folder
        self.programs.write("train.py", SCRIPT)
        self.shim = ctypes.CDLL(os.environ[PRELOADED])
        self.shim.disturbed_actions.restype = ctypes.c_long

    def process(self, here, moment=0, code=0, reads=False, stays=False):
        """(how it ended, what it said, its actions on files)"""
        here.mkdir(exist_ok=True)
        (here / "resumed").unlink(missing_ok=True)

        def run():
            import runpy
            sys.path.insert(0, str(self.folder))
            self.shim.disturb_files(str(here / "runs").encode(), ctypes.c_long(moment), code, int(reads), int(stays))
            try:
                runpy.run_path(str(self.folder / "train.py"), run_name="__main__")
            finally:
                (here / "actions").write_text(str(self.shim.disturbed_actions()))

        status, out, told = self.programs.fork(run, ["train.py"], {"HERE": str(here), "XDG_CACHE_HOME": str(self.folder / "cache")})
        return status, out + told

    def contents(self, here):
        """All that the run's bits decide, of a record that is sound."""
        (run,) = (path for path in (here / "runs").iterdir() if not path.name.startswith("."))
        shown = subprocess.run([os.environ["ISOBIT_PROGRAM"], "show", run, "--json"], capture_output=True, text=True, check=False)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertTrue(json.loads(shown.stdout)["record"].startswith("sound: "), shown.stdout)
        self.assertEqual([path.name for path in run.iterdir() if path.name.startswith(".")], [])
        kept = {path.name for path in (run / "checkpoints").iterdir()}  # an older one that could not be removed may stay
        self.assertGreaterEqual(kept, {"step-12.pt", "step-9.pt"})
        return [(run / f"{log}.jsonl").read_bytes() for log in ("steps", "metrics", "evaluations", "outside")] + [
            json.loads((run / "state.json").read_text())[key] for key in ("weights", "weights_sha256")]

    def number(self, here, name):
        return int((here / name).read_text()) if (here / name).exists() else -1

    def test_nothing_is_lost(self):
        straight = self.folder / "straight"
        status, told = self.process(straight)
        self.assertEqual(status, 0, told)
        expected, actions = self.contents(straight), self.number(straight, "actions")
        self.assertGreater(actions, 80)
        moments, number = int(os.environ.get("ISOBIT_MOMENTS", "16")), int(os.environ.get("ISOBIT_MOMENTS_FROM", "0"))
        seen = {"killed": 0, "failed": 0, "not reached": 0, "resumed": 0}
        while sum(seen.values()) - seen["resumed"] < moments:
            draw = random.Random(f"moments {number}")
            here = self.folder / str(number)
            for again in range(draw.randint(1, 4) + 1):
                code = draw.choice([0, 0, errno.ENOSPC, errno.EIO, errno.EIO, errno.ESTALE, errno.EACCES])
                reads = code in (errno.ESTALE, errno.EACCES) or (code == errno.EIO and draw.random() < 0.5)
                stays, moment = draw.random() < 0.5, draw.randint(1, 60 if reads else actions)
                stood = self.number(here, "stood")
                with self.subTest(round=number, again=again, code=code, reads=reads, stays=stays, moment=moment):
                    status, told = self.process(here, moment, code, reads, stays)
                    seen["killed" if status == -signal.SIGKILL else "failed" if status else "not reached"] += 1
                    self.assertIn(status, (-signal.SIGKILL, 0, 1), told)
                    self.assertNotIn("damaged", told)
                    self.assertNotIn("none is sound", told)
                    if (resumed := self.number(here, "resumed")) > 0:
                        seen["resumed"] += 1
                    if resumed >= 0:
                        self.assertGreaterEqual(resumed, stood, told)
                if status == 0 or list(here.glob("runs/2*/manifest.json")):  # the error came after the seal
                    break
            with self.subTest(round=number, undisturbed=True):
                sealed = list(here.glob("runs/2*/manifest.json"))
                if not sealed:
                    stood = self.number(here, "stood")
                    status, told = self.process(here)
                    self.assertEqual(status, 0, told)
                    self.assertGreaterEqual(self.number(here, "resumed"), stood, told)
                self.assertEqual(self.contents(here), expected)
                shutil.rmtree(here)
            number += 1
            if "ISOBIT_MOMENTS" in os.environ and number % 10 == 0:
                print(f"rounds up to {number - 1}: {seen}", file=sys.stderr, flush=True)
        if moments >= 48:
            self.assertGreater(min(seen["killed"], seen["failed"], seen["resumed"]), moments // 12, seen)
        if "ISOBIT_MOMENTS" in os.environ:
            print(f"{moments} moments, rounds {os.environ.get('ISOBIT_MOMENTS_FROM', '0')} to {number - 1}: {seen}", file=sys.stderr)


def main():
    if PRELOADED in os.environ:
        unittest.main()
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/disturbed_files.so"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-D_FILE_OFFSET_BITS=32", "-o", library, SOURCE, "-ldl"], check=True)
        environment = {**os.environ, PRELOADED: library, "LD_PRELOAD": library}
        sys.exit(subprocess.run([sys.executable, "-W", "ignore", *sys.argv], check=False, env=environment).returncode)


if __name__ == "__main__":
    main()
