#!/usr/bin/env python3
"""isobit run from outside: results, exit codes, kills, bad input.

Usage: command_line_test.py PROGRAM [unittest arguments]. Standard library only; data are made here.
"""
import contextlib
import fcntl
import glob
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest

from small_run import PROGRAM, RANDOM_EXPERIMENT, SmallRun, deterministic_lines, idx, write


class CommandLine(SmallRun):
    # What a run says and leaves

    def test_last_line_is_the_fingerprint(self):
        self.assertRegex(self.weights, r"^weights isobit-0\.\d+:[0-9a-f]{32}$")

    def test_json_is_one_object(self):
        done = self.isobit("run", self.file, "--runs", self.fresh("json"), "--json", "--set", "steps=2")
        result = json.loads(done.stdout)
        self.assertEqual(result["state"], "finished")
        self.assertEqual(result["steps"], 2)
        self.assertIn("accuracy", result["metrics"]["test"])

    def test_same_weights_for_other_settings(self):
        for arguments in (["--threads", "1", "--isa", "reference"], ["--threads", "3", "--isa", "avx2", "--grain-order", "shuffled"]):
            done = self.isobit("run", self.file, "--runs", self.fresh("other"), *arguments)
            self.assertEqual(done.stdout.splitlines()[-1], self.weights, done.stderr)

    def test_a_tuning_table_changes_no_bit(self):
        table = os.path.join(self.scratch, "tuning.json")
        done = self.isobit("tune", "--rounds", "1", "--threads", "2", "--out", table, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(table, encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual(written["sizes"], json.loads(done.stdout)["sizes"])
        written["sizes"] = {"product_rows": 5, "product_columns": 40, "product_thread": 1, "slab_floats": 900, "large_slab_floats": 1, "pack_positions": 1 << 30}
        with open(table, "w", encoding="utf-8") as file:
            json.dump(written, file)
        environment = {**os.environ, "ISOBIT_TUNING": table}
        done = self.isobit("run", self.file, "--runs", self.fresh("tuned"), "--threads", "3", env=environment)
        self.assertEqual(done.stdout.splitlines()[-1], self.weights, done.stderr)
        for text, part in ((json.dumps({**written, "sizes": {"product_rows": 0}}), "'product_rows' must be an integer from 1 to"), ("{", "not a tuning table"),
                           (json.dumps({**written, "format": 2}), "another format"), (json.dumps({**written, "sizes": {"rows": 1}}), "unknown key 'rows'")):
            with open(table, "w", encoding="utf-8") as file:
                file.write(text)
            self.expect_error(["run", self.file, "--runs", self.fresh("tuned")], table, part, "isobit tune", env=environment)
        os.remove(table)
        self.expect_error(["run", self.file, "--runs", self.fresh("tuned")], table, "ISOBIT_TUNING", env=environment)
        self.assertFalse(os.path.exists(os.path.join(self.scratch, "tuned")))

    def test_another_seed_gives_other_weights(self):
        done = self.isobit("run", self.file, "--runs", self.fresh("other"), "--set", "seed=4")
        self.assertEqual(done.returncode, 0)
        self.assertNotEqual(done.stdout.splitlines()[-1], self.weights)

    def test_steps_that_the_run_has_not(self):
        for steps in ("31:1", "30:2", "1000:3"):
            done = self.expect_error(["trace", self.run_folder, "--steps", steps, "--out", self.fresh("no.trace")],
                                     f"--steps {steps}: the run has 30 steps (choose some of its steps 1..30)")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def on_terminal(self, *arguments, width=80, **environment):
        """What a terminal of that width is sent."""
        terminal, end = os.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        process = subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=end,
                                   env={**os.environ, "TERM": "xterm", **environment})
        os.close(end)
        seen = b""
        with contextlib.suppress(OSError):  # how a terminal says that all have closed it
            while piece := os.read(terminal, 4096):
                seen += piece
        os.close(terminal)
        self.assertEqual(process.wait(), 0, seen)
        return seen.decode()

    def test_progress_fits_its_terminal(self):
        words = ["run", self.file, "--runs", self.fresh("terminal"), "--set", "steps=9"]
        lines = [line for line in re.split(r"[\r\n]+|\x1b\[K", self.on_terminal(*words, width=30)) if "step " in line]
        self.assertTrue(lines)
        self.assertLess(max(map(len, lines)), 30, lines)
        self.assertIn(" left", self.on_terminal(*words))
        dumb = self.on_terminal(*words, TERM="dumb")
        self.assertNotIn("\x1b", dumb)
        self.assertRegex(dumb, r"epoch \d+/\d+  step \d+/\d+ .* left\r\n")

    # Kill and resume

    def resume(self, runs, *arguments):
        done = self.isobit("run", "--resume", self.only_run(runs), "--runs", runs, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], self.weights)
        self.assertEqual(deterministic_lines(self.only_run(runs)), deterministic_lines(self.run_folder))
        verified = self.isobit("verify", self.only_run(runs))
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_killed_and_resumed(self):
        for steps in (1, 6, 17):
            runs = self.fresh("killed")
            code, _, _ = self.kill_when(runs, steps, signal.SIGKILL)
            if code == 0:
                continue  # finished before the signal came
            self.assertEqual(code, -signal.SIGKILL)
            self.resume(runs, "--threads", "3", "--grain-order", "shuffled")

    @staticmethod
    def kill_in_a_checkpoint(process, runs, left_before):
        """Stops the process again and again until it stands within the writing of a checkpoint; False: it ended first."""
        while True:
            process.send_signal(signal.SIGSTOP)
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                process.returncode = os.waitstatus_to_exitcode(status)
                return False
            if set(glob.glob(f"{runs}/*/checkpoints/.tmp-*")) - left_before:
                process.kill()
                process.wait()
                return True
            process.send_signal(signal.SIGCONT)
            time.sleep(0.001)

    def test_killed_at_any_moment_with_everything_random(self):
        file = self.scratch + "/random.toml"
        with open(file, "w") as out:
            out.write(RANDOM_EXPERIMENT.format(data=self.scratch + "/data"))
        straight, runs = self.fresh("random-straight"), self.fresh("random-killed")
        done = self.isobit("run", file, "--runs", straight, "--threads", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        weights = done.stdout.splitlines()[-1]

        draw, within = random.Random(8), 0
        for attempt in range(6):
            before = self.steps_recorded(runs)
            if before == 0:
                runs = self.fresh(f"random-killed-{attempt}")  # killed before its first step, perhaps before its record
            left = set(glob.glob(f"{runs}/*/checkpoints/.tmp-*"))
            process = subprocess.Popen([PROGRAM, "run", *(["--resume", self.only_run(runs)] if before else [file]), "--runs", runs,
                                        "--threads", str(1 + attempt % 3)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if attempt % 2 == 0:
                within += self.kill_in_a_checkpoint(process, runs, left)
            else:
                while process.poll() is None and self.steps_recorded(runs) <= before:
                    time.sleep(0.001)
                time.sleep(draw.random() * 0.02)
                process.kill()
                process.wait()
        self.assertGreater(within, 0, "no kill met a checkpoint that was being written")

        done = self.isobit("run", "--resume", self.only_run(runs), "--runs", runs, "--threads", "3", "--grain-order", "shuffled")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], weights)
        self.assertEqual(deterministic_lines(self.only_run(runs)), deterministic_lines(self.only_run(straight)))
        verified = self.isobit("verify", self.only_run(runs), "--isa", "reference")
        self.assertEqual(verified.returncode, 0, verified.stderr)
        self.assertIn(f"identical: 60 steps, {weights}, sha256 ", verified.stdout)

    def test_interrupted_and_resumed(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            runs = self.fresh("interrupted")
            code, out, err = self.kill_when(runs, 3, number)
            if code == 0:
                continue
            self.assertEqual(code, 130, err)
            self.assertNotIn("weights ", out)
            self.assertIn("--resume", err)
            self.resume(runs)

    def test_a_finished_run_is_not_resumed(self):
        self.expect_error(["run", "--resume", self.run_folder], os.path.basename(self.run_folder))

    # A run of a name of its own (--once): a job that a scheduler starts again and again

    def test_once_begins_resumes_and_ends(self):
        runs = self.fresh("once")
        once = ["run", self.file, "--runs", runs, "--once", "cluster/12/0123"]
        for steps in (1, 6, 17):
            process = subprocess.Popen([PROGRAM, *once], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and self.steps_recorded(runs) < steps:
                time.sleep(0.001)
            process.kill()
            process.wait()
        done = self.isobit(*once)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], self.weights)
        self.assertEqual(deterministic_lines(self.only_run(runs)), deterministic_lines(self.run_folder))
        # Nothing is left to do.
        again = self.isobit(*once)
        self.assertEqual((again.returncode, again.stdout), (0, done.stdout))
        self.assertIn("is finished", again.stderr)
        self.assertEqual(json.loads(self.isobit(*once, "--json").stdout)["weights"], self.weights.split()[1])
        # Another name is another run; another experiment under this name is none.
        self.assertEqual(self.isobit("run", self.file, "--runs", runs, "--once", "cluster/13/0123").returncode, 0)
        self.assertEqual(len(glob.glob(runs + "/2*")), 2)
        self.expect_error([*once, "--set", "seed=9"], "another experiment")
        self.expect_error(["run", "--resume", self.run_folder, "--once", "x"], "--once")

    def test_once_meets_a_run_that_is_being_written(self):
        runs = self.fresh("once-twice")
        once = ["run", self.file, "--runs", runs, "--once", "a job"]
        process = subprocess.Popen([PROGRAM, *once, "--set", "steps=100000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and self.steps_recorded(runs) < 1:
            time.sleep(0.001)
        self.expect_error([*once, "--set", "steps=100000"], "is being written by process")
        process.kill()
        process.wait()

    def test_a_dry_run_writes_nothing(self):
        runs = self.fresh("dry")
        done = self.isobit("run", self.file, "--runs", runs, "--dry-run", "--set", "seed=4")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.run_folder + "/experiment.toml") as file:
            self.assertEqual(done.stdout, file.read().replace("seed = 3\n", "seed = 4\n"))
        self.assertFalse(os.path.exists(runs))
        self.expect_error(["run", self.file, "--dry-run", "--set", "sead=4"], "sead")

    # Bad input: one line with place and remedy, exit code 2, nothing left behind

    def expect_refused(self, *parts, sets=(), file=None, more=()):
        runs = self.fresh("refused")
        arguments = ["run", file or self.file, "--runs", runs, *more]
        for text in sets:
            arguments += ["--set", text]
        self.expect_error(arguments, *parts)
        self.assertFalse(os.path.exists(runs) and [n for n in os.listdir(runs) if not n.startswith(".")])

    def test_bad_experiments(self):
        bad = self.scratch + "/bad.toml"
        with open(bad, "w") as file:
            file.write("[optimiser]\nlr = 0.1\n")
        self.expect_refused("bad.toml:1:2", "unknown key 'optimiser'", "did you mean 'optimizer'?", file=bad)
        self.expect_refused("unknown key 'optimizer.lrr'", "did you mean 'optimizer.lr'?", sets=["optimizer.lrr=0.1"])
        self.expect_refused("'batch' is 0", sets=["batch=0"])
        self.expect_refused("'batch' is -3", sets=["batch=-3"])
        self.expect_refused("'optimizer.lr' is nan", sets=["optimizer.lr=nan"])
        self.expect_refused("'grain' is 21", "'batch' (20)", sets=["grain=21"])
        self.expect_refused("unknown key 'optimizer.learning_rate'", "known keys: optimizer.name, optimizer.lr", sets=["optimizer.learning_rate=0.1"])
        self.expect_refused("isobit run --resume " + self.run_folder, file=self.run_folder)
        self.expect_refused("absent.toml", file=self.scratch + "/absent.toml")

    def test_bad_options(self):
        self.expect_refused("--threads 0", "1 to 1024", more=["--threads", "0"])
        self.expect_refused("--threads -1", more=["--threads=-1"])
        self.expect_refused("--threads two", more=["--threads", "two"])
        self.expect_refused("--isa sse9", "reference", more=["--isa", "sse9"])
        self.expect_refused("--grain-order random", more=["--grain-order", "random"])
        self.expect_error(["run"], "TOML")
        self.expect_error(["run", "--resume", "absent", "--runs", self.straight], "absent")
        self.expect_error(["verify", "absent", "--runs", self.straight], "absent")

    def test_bad_data(self):
        def refused(name, content, *parts):
            data = self.fresh("bad-data")
            shutil.copytree(self.scratch + "/data", data)
            path = f"{data}/{name}"
            os.remove(path)
            if content is not None:
                write(path, content)
            self.expect_refused(name, *parts, sets=["data.path=" + json.dumps(data)])

        images, labels = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
        refused(images, None, "missing")
        refused(images, idx([90, 28, 28], bytes(90 * 784 - 1)), "truncated")
        refused(images, idx([90], bytes(90)), "wrong magic number")
        refused(labels, idx([90], [3] * 89 + [10]), "sample 89: label 10 is out of range 0..9")
        refused(labels, idx([89], [3] * 89), "89 labels for the 90 images")
        refused("t10k-images-idx3-ubyte.gz", idx([30, 14, 14], bytes(30 * 196)), "[1, 14, 14]")
        data = self.fresh("cut")
        shutil.copytree(self.scratch + "/data", data)
        os.truncate(f"{data}/{images}", 2000)
        self.expect_refused(images, "truncated", sets=["data.path=" + json.dumps(data)])

    # Places that cannot be written. Root may write anywhere: file systems say no instead.

    def mounted(self, name, options):
        path = self.fresh(name)
        os.makedirs(path)
        mount = ["mount", "-t", "tmpfs", "-o", options, "isobit", path]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            self.skipTest("needs root and the right to mount")
        self.addCleanup(subprocess.run, ["umount", "-l", path], capture_output=True)
        return path

    def test_read_only_archive(self):
        runs = self.mounted("read-only", "ro,size=1m")
        self.expect_error(["run", self.file, "--runs", runs], "read-only", "ead-only")

    def test_no_space_left(self):
        runs = self.mounted("full", "size=1m")  # too small for the first checkpoint's neighbours
        done = self.expect_error(["run", self.file, "--runs", runs, "--set", "checkpoint.keep=0"], "o space left")
        self.assertIn("isobit run --resume " + self.only_run(runs), done.stderr)
        subprocess.run(["mount", "-o", "remount,size=64m", runs], check=True)
        resumed = self.isobit("run", "--resume", self.only_run(runs), "--runs", runs)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(resumed.stdout.splitlines()[-1], self.weights)

    def test_unwritable_checkpoint(self):
        with open(PROGRAM, "rb") as program:
            if b"__tsan_init" in program.read():
                self.skipTest("the thread sanitizer itself does not survive a limit on file sizes")
        runs = self.fresh("limited")
        limit = 200 * 1024  # bytes a file may have: enough for the logs, too little for a checkpoint

        def limited():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        self.expect_error(["run", self.file, "--runs", runs], "checkpoint", preexec_fn=limited)
        self.resume(runs)

    def test_runs_that_diverge_fail_and_say_so(self):
        runs = self.fresh("diverged")
        done = self.expect_error(["run", self.file, "--runs", runs, "--set", "optimizer.lr=1e30"], "not finite", code=1)
        self.assertIn("lower optimizer.lr", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
