"""isobit.record(resume=True): a killed program that is resumed leaves the record of an unbroken one."""

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import programs
from programs import read_record
from record_test import PROGRAM, Folder
from records import write_images

import isobit

SCRIPT = """
import os, random, signal, sys
import numpy, torch, isobit

with isobit.record("runs", every=2, resume=True) as run:
    isobit.seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.BatchNorm1d(9), torch.nn.Dropout(0.2), torch.nn.Linear(9, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.utils.data.TensorDataset(torch.randn(32, 6), torch.randint(3, (32,)))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    first, saved = 1, run.load()
    print("resumed" if saved else "new", run.steps)
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    for run.epoch in range(first, 5):
        for x, y in loader:
            optimizer.zero_grad()
            scale = 1 + random.random() + float(numpy.random.rand())
            torch.nn.functional.cross_entropy(model(x) * scale, y).backward()
            optimizer.step()
            if os.environ.get("KILL") == str(run.steps):
                os.kill(os.getpid(), signal.SIGKILL)
        model.eval()
        with torch.no_grad():
            run.log("test", accuracy=(model(x).argmax(1) == y).float().mean().item())
        model.train()
        run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": run.epoch})
print(run.path)
"""


class Resume(Folder):
    def setUp(self):
        super().setUp()
        self.write("train.py", SCRIPT)

    def logs(self, path):
        record = read_record(self.folder / path)
        return {name: record[name] for name in ("steps.jsonl", "metrics.jsonl", "evaluations.jsonl")} | {
            "weights": json.loads(record["state.json"])["weights"]}

    def only(self):
        (path,) = (path for path in (self.folder / "runs").iterdir() if path.name[0] == "2")
        return path

    def test_killed_anywhere(self):
        unbroken = self.logs(self.train()[1])
        (self.folder / "runs").rename(self.folder / "unbroken")
        self.train(KILL="3", expect=-signal.SIGKILL)  # before any checkpoint: it begins anew, in the same folder, and says so
        status, _, told = self.run_script("train.py", **self.environment(KILL="7"))
        self.assertEqual(status, -signal.SIGKILL)
        self.assertEqual(told, f"isobit.record: runs/{self.only().name} has no checkpoint yet: it starts again from step 1\n")
        run = json.loads(self.call(PROGRAM, "log", "--json"))[0]
        self.assertEqual((run["state"], run["steps"]), ("interrupted", 7))
        self.call(PROGRAM, "verify", "last", expect=2)
        self.train(KILL="15", expect=-signal.SIGKILL)
        lines = self.train()
        self.assertEqual(lines[0], "resumed 12")
        self.assertEqual(self.logs(lines[1]), unbroken)
        self.assertEqual(sorted(path.name for path in (self.only() / "checkpoints").iterdir()), ["step-12.pt", "step-16.pt", "step-4.pt", "step-8.pt"])
        self.assertEqual([path.name for path in self.only().iterdir() if path.name.startswith(".")], [])
        self.assertEqual(list((self.folder / "runs" / ".locks").iterdir()), [])
        shown = json.loads(self.call(PROGRAM, "show", "last", "--json"))
        self.assertTrue(shown["record"].startswith("sound: "))
        self.assertEqual(self.verify()["verdict"], "identical")
        self.call(PROGRAM, "export", "last", "--out", "run.tar")
        self.isobit("verify", "run.tar")
        self.assertEqual(self.train()[0], "new 0")  # nothing left to resume

    def test_after_the_last_step(self):
        self.write("train.py", SCRIPT.replace('"epoch": run.epoch})', '"epoch": run.epoch})\n    if "KILL" in os.environ: os._exit(3)'))
        self.train(KILL="0", expect=3)
        broken = self.logs(self.train()[1])
        (self.folder / "runs").rename(self.folder / "unbroken")
        self.assertEqual(self.logs(self.train()[1]), broken)

    def test_what_stops_it(self):
        self.train(KILL="7", expect=-signal.SIGKILL)
        steps = self.only() / "steps.jsonl"
        lines = steps.read_text()
        # What was before the checkpoint is proven.
        steps.write_text("x" + lines)
        self.assertIn("steps.jsonl: damaged", self.failed())
        # A step that comes out differently than before, also when it is tried again: what was cut off is back then.
        steps.write_text(re.sub('("step":6,"epoch":2,"loss":")[0-9a-f]{8}', r"\g<1>00000001", lines))
        for _ in range(2):
            self.assertIn("step 6 came out differently", self.failed())
        (cut,) = self.only().glob(".cut-*")
        (cut / "steps.jsonl").write_text(lines)
        # Somebody writes it: this process.
        lock = self.folder / "runs" / ".locks" / self.only().name
        with isobit.record(self.folder / "other") as other:
            shutil.copy(self.folder / "other" / ".locks" / other.id, lock)
        self.assertIn(f"being written by process {os.getpid()} on this machine", self.failed())
        lock.unlink()
        self.assertEqual(self.train()[0], "resumed 4")

    def told(self, *arguments, **environment):
        """What a run that succeeds says on stderr."""
        status, printed, told = self.run_script("train.py", *arguments, **environment)
        self.assertEqual(status, 0, told)
        return printed.splitlines(), told

    def test_a_changed_program(self):
        self.train(KILL="7", expect=-signal.SIGKILL)
        old = self.only()
        self.write("train.py", SCRIPT + "# mended")
        printed, told = self.told()
        self.assertEqual(printed[0], "new 0")
        self.assertIn(f"train.py has changed since {old.name} began", told)
        self.assertIn(f"runs/{old.name} is not resumed, a new run begins (resume=\"strict\" refuses instead)", told)
        self.assertRegex(told, r"train\.py:\d+: UserWarning: isobit\.record: ")
        # The old one is as it was; the program that began it resumes it.
        self.write("train.py", SCRIPT)
        printed, told = self.told()
        self.assertEqual((printed[0], printed[1].endswith(f"runs/{old.name}"), told), ("resumed 4", True, ""))

    def test_other_arguments(self):
        self.train("--lr", "0.1 0.2", KILL="7", expect=-signal.SIGKILL)
        old = self.only()
        for strict in (False, True):
            self.write("train.py", SCRIPT.replace("resume=True", 'resume="strict"') if strict else SCRIPT)
            printed, told = self.told()
            self.assertEqual(printed[0], "new 0")
            self.assertRegex(told, r"train\.py:\d+: UserWarning: isobit\.record: ")
            self.assertIn(f"{old.name} began with the arguments --lr '0.1 0.2', not with no arguments: runs/{old.name} is not resumed, a new "
                          "run begins (to resume that one, call the script with its arguments)", told)
        # One that may be written goes on beside this one, which is no news.
        lock = self.folder / "runs" / ".locks" / old.name
        text = lock.read_text()
        for owner in ({"pid": os.getpid()}, {"host": "elsewhere"}):
            lock.write_text(json.dumps({**json.loads(text), **owner}))
            self.assertNotIn("UserWarning", self.told()[1])
        lock.write_text(text)
        self.write("train.py", SCRIPT)
        printed, told = self.told("--lr", "0.1 0.2")
        self.assertEqual((printed[0], printed[1].endswith(f"runs/{old.name}"), told), ("resumed 4", True, ""))

    def test_strict(self):
        strict = SCRIPT.replace("resume=True", 'resume=os.environ.get("RESUME", "strict") or None').replace("every=2", 'every=int(os.environ.get("EVERY", 2))')
        self.write("train.py", strict)
        self.train(KILL="7", expect=-signal.SIGKILL)
        old = self.only().name
        self.assertIn(f"{old} has every=2, not 3", self.failed(EVERY="3"))
        self.assertIn(f"{old} has every=2, not 3", self.failed(EVERY="3", RESUME=old))
        printed, told = self.told(EVERY="3", RESUME="")  # resume=None
        self.assertEqual((printed[0], told), ("new 0", ""))
        self.write("train.py", strict + "# mended")
        self.assertIn(f"train.py has changed since {old} began", self.failed())
        self.assertIn(f"train.py has changed since {old} began", self.failed(RESUME=old))
        self.write("train.py", strict)
        self.assertEqual(self.train()[0], "resumed 4")

    def test_a_damaged_checkpoint_gives_way_to_the_one_before(self):
        unbroken = self.logs(self.train()[1])
        (self.folder / "runs").rename(self.folder / "unbroken")
        self.train(KILL="11", expect=-signal.SIGKILL)
        checkpoints = self.only() / "checkpoints"
        self.assertEqual(sorted(path.name for path in checkpoints.iterdir()), ["step-4.pt", "step-8.pt"])
        content = bytearray((checkpoints / "step-8.pt").read_bytes())
        content[len(content) // 2] ^= 1
        (checkpoints / "step-8.pt").write_bytes(content)
        shutil.copytree(self.folder / "runs", self.folder / "copy")
        self.train(KILL="6", expect=-signal.SIGKILL)  # a second crash before the first checkpoint of its own
        lines = self.train()
        self.assertEqual(lines[0], "resumed 4")
        self.assertEqual(self.logs(lines[1]), unbroken)
        # With none that is sound: an error, which names them, and nothing changed.
        shutil.rmtree(self.folder / "runs")
        (self.folder / "copy").rename(self.folder / "runs")
        (self.only() / "checkpoints" / "step-4.pt").unlink()
        for _ in range(2):
            self.assertIn("none is sound: checkpoints/step-8.pt is damaged, checkpoints/step-4.pt is missing (restore the run's folder "
                          "from a copy; to begin again at step 1, move the folder away", self.failed())

    def test_what_cannot_be_read_is_no_missing_run(self):
        self.train(KILL="7", expect=-signal.SIGKILL)
        state = self.only() / "state.json"
        text = state.read_text()
        state.write_text("{")
        self.assertIn("is a run of this script, but its state.json is damaged: it is not resumed", self.told()[1])
        state.write_text(text)
        state.unlink()
        state.mkdir()  # as an error of the disk, also for root
        self.assertIn("IsADirectoryError", self.failed())

    def test_a_writer_that_was_taken_over(self):
        """Stopped in the middle, its job started again elsewhere, and continued: it writes nothing any more."""
        self.write("train.py", SCRIPT.replace("os.kill(os.getpid(), signal.SIGKILL)", 'os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))'))
        unbroken = self.logs(self.train(SIGNAL="SIGKILL")[1])
        (self.folder / "runs").rename(self.folder / "unbroken")
        job = {"SLURM_CLUSTER_NAME": "c", "SLURM_JOB_ID": "1"}
        child, told = self.start(KILL="7", SIGNAL="SIGSTOP", **job)
        self.assertTrue(os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1]))
        self.assertIn(f"is being written by process {child} on this machine", self.failed(**job))
        self.train(KILL="11", SIGNAL="SIGKILL", SLURM_RESTART_COUNT="1", expect=-signal.SIGKILL, **job)
        os.kill(child, signal.SIGCONT)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 1)
        told.seek(0)
        self.assertIn("this process lost its lock on the run", told.read())
        lines = self.train(SLURM_RESTART_COUNT="2", **job)
        self.assertEqual(lines[0], "resumed 8")
        self.assertEqual(self.logs(lines[1]), unbroken)

    def start(self, **environment):
        """(a fork that runs the script, its stderr)"""
        told = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.addCleanup(told.close)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            def run():
                sys.path.insert(0, str(self.folder))
                runpy.run_path(str(self.folder / "train.py"), run_name="__main__")

            programs._be_program(run, self.folder, ["train.py"], self.environment(**environment), open(os.devnull, "w"), told)  # noqa: SIM115
        return child, told

    def test_forgotten_load(self):
        self.write("train.py", SCRIPT.replace("first, saved = 1, run.load()", "first, saved = 1, 'LOAD' in os.environ and run.load()"))
        self.train(KILL="7", expect=-signal.SIGKILL)
        self.assertIn("did not call run.load()", self.failed())
        self.assertEqual(self.train(LOAD="1")[0], "resumed 4")

    def test_generators_of_cuda_devices(self):
        """Of made-up devices: what they hold goes into a checkpoint and back, where there are as many, or fewer."""
        text = """
            import os, signal
            import torch, isobit
            devices = [torch.full((16,), i, dtype=torch.uint8) for i in range(int(os.environ["DEVICES"]))]
            torch.cuda.is_initialized, torch.cuda.device_count = lambda: len(devices) > 0, lambda: len(devices)
            torch.cuda.get_rng_state_all = lambda: [state.clone() for state in devices]
            torch.cuda.set_rng_state = lambda state, device: devices[device].copy_(state)
            with isobit.record("runs", resume=True) as run:
                isobit.seed(1)
                model = torch.nn.Linear(2, 2)
                optimizer, loader = torch.optim.SGD(model.parameters()), torch.utils.data.DataLoader(torch.ones(4, 2))
                saved = run.load()
                for epoch in run.epochs(1):
                    for x in run.batches(loader):
                        if saved:
                            print([int(state[0]) for state in devices])
                        for i, state in enumerate(devices):
                            state.fill_(16 * run.batch + i)
                        model(x).sum().backward()
                        optimizer.step()
                        if not saved and run.batch == 2:
                            run.save(1)
                            os.kill(os.getpid(), signal.SIGKILL)
            """
        for devices, expect in (("2", ["[32, 33]", "[48, 49]"]), ("1", ["[32]", "[48]"]), ("0", ["[]", "[]"])):
            self.write("train.py", textwrap.dedent(text))
            self.train(DEVICES="2", expect=-signal.SIGKILL)
            self.assertEqual(self.train(DEVICES=devices), expect)

    def failed(self, **environment):
        status, _, told = self.run_script("train.py", **environment)
        self.assertEqual(status, 1)
        return told


class IsobitRun(Folder):
    """The same of `isobit run`, as processes of its own."""

    TOML = """
        name = "small"
        batch = 10
        steps = 3000
        [data]
        format = "idx"
        path = "."
        [model]
        name = "mlp"
        hidden = [8]
        [optimizer]
        name = "sgd"
        lr = 0.01
        [checkpoint]
        every = 200
        """
    LOGS = ("steps.jsonl", "metrics.jsonl")

    def setUp(self):
        super().setUp()
        write_images(self.folder)
        self.write("small.toml", textwrap.dedent(self.TOML))

    def begun(self, **environment):
        """(a run after its first checkpoint, stopped; its folder)"""
        process = subprocess.Popen([PROGRAM, "run", "small.toml"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **self.environment(**environment)})
        self.addCleanup(process.kill)
        while process.poll() is None and not list(self.folder.glob("runs/2*/checkpoints/step-*")):
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        self.assertIsNone(process.poll())
        (folder,) = self.folder.glob("runs/2*")
        return process, folder

    def test_a_stopped_one_that_was_taken_over(self):
        unbroken = json.loads(self.call(PROGRAM, "run", "small.toml", "--runs", "unbroken", "--json"))
        job = {"SLURM_CLUSTER_NAME": "c", "SLURM_JOB_ID": "1"}
        process, folder = self.begun(**job)
        self.call(PROGRAM, "run", "--resume", "last", expect=2, **job)
        result = json.loads(self.call(PROGRAM, "run", "--resume", "last", "--json", SLURM_RESTART_COUNT="1", **job))
        process.send_signal(signal.SIGCONT)
        told = process.communicate()[1]
        self.assertEqual(process.returncode, 2, told)
        self.assertIn("this process lost its lock on the run", told)
        self.assertEqual(result["weights"], unbroken["weights"])
        for log in self.LOGS:
            self.assertEqual((folder / log).read_bytes(), (self.folder / unbroken["folder"] / log).read_bytes())
        self.call(PROGRAM, "show", "last")

    def test_what_it_says_without_a_checkpoint(self):
        process, folder = self.begun()
        process.kill()
        process.communicate()
        shutil.rmtree(folder / "checkpoints")
        self.assertIn("and none is sound: checkpoints/step-", self.resumed(expect=2))
        (folder / "checkpoints.jsonl").write_bytes(b"")  # as if there never had been one
        self.assertIn("has no checkpoint yet: it starts again from step 1\n", self.resumed())

    def resumed(self, expect=0):
        done = subprocess.run([PROGRAM, "run", "--resume", "last"], cwd=self.folder, capture_output=True, text=True, check=False,
                              env={**os.environ, **self.environment()})
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stderr


if __name__ == "__main__":
    unittest.main()
