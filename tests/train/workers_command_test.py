#!/usr/bin/env python3
"""isobit run --workers: the bits of one process, whoever is slow, killed, stopped, or joins.

Usage: workers_command_test.py PROGRAM [unittest arguments]. Standard library only. ISOBIT_TEST_MOMENTS: how many random
moments a worker is killed at (default 2).
"""
import glob
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts"))
from worker_jobs import children, make_data, send

PROGRAM = os.path.abspath(sys.argv.pop(1))
MOMENTS = int(os.environ.get("ISOBIT_TEST_MOMENTS", "2"))

EXPERIMENT = """\
name = "shared"
seed = 3
steps = 16
batch = 48
grain = 4

[data]
format = "idx"
path = "made"
train_images = "x"
train_labels = "y"
test_images = "x"
test_labels = "y"

[model]
name = "{model}"

[optimizer]
name = "adam"
lr = 0.001

[evaluate]
every = 1
batch = 16

[checkpoint]
every = 5

[fingerprint]
gradients = 1
"""


class Workers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="isobit-test-")
        make_data(f"{cls.scratch}/made")
        cls.expected, cls.steps = {}, {}
        for model in ("lenet5", "resnet18"):
            with open(f"{cls.scratch}/{model}.toml", "w", encoding="ascii") as file:
                file.write(EXPERIMENT.format(model=model))
        for model, steps in (("lenet5", 16), ("resnet18", 2)):
            done = cls.isobit("run", f"{model}.toml", "--set", f"steps={steps}", "--runs", "alone")
            assert done.returncode == 0, done.stderr
            cls.expected[model] = done.stdout.splitlines()[-2:]
            cls.steps[cls.expected[model][-1]] = cls.log_of("alone", -1)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch, ignore_errors=True)

    @classmethod
    def isobit(cls, *arguments, environment=None):
        return subprocess.run([PROGRAM, *arguments], cwd=cls.scratch, capture_output=True, text=True, timeout=300, check=False,
                              env={**os.environ, "XDG_CACHE_HOME": f"{cls.scratch}/cache", **(environment or {})})

    # ---- a job that is disturbed while it runs

    def job(self, *arguments, disturb=None, environment=None):
        """Runs it, with `disturb(process)` on a thread; exit code, JSON result, stderr."""
        process = subprocess.Popen([PROGRAM, "run", *arguments, "--json"], cwd=self.scratch, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "XDG_CACHE_HOME": f"{self.scratch}/cache", **(environment or {})})
        thread = threading.Thread(target=disturb, args=(process,)) if disturb else None
        if thread:
            thread.start()
        out, err = process.communicate(timeout=300)
        if thread:
            thread.join()
        lines = out.strip().splitlines()
        return process.returncode, json.loads(lines[-1]) if lines else {}, err

    def expect_finished(self, result, model="lenet5"):
        code, found, err = result
        self.assertEqual(code, 0, err)
        self.assertEqual([f"sha256  {found['weights_sha256']}", f"weights {found['weights']}"], self.expected[model])
        with open(os.path.join(self.scratch, found["folder"], "steps.jsonl"), "rb") as log:  # each step's gradients, too
            self.assertEqual(log.read(), self.steps[self.expected[model][-1]])
        return found

    def steps_of(self, runs):
        logs = glob.glob(f"{self.scratch}/{runs}/2*/steps.jsonl")
        if not logs:
            return 0
        with open(logs[0], encoding="ascii") as log:
            return sum(1 for _ in log)

    def wait_for_step(self, process, runs, step):
        while process.poll() is None and self.steps_of(runs) < step:
            time.sleep(0.002)

    @classmethod
    def log_of(cls, runs, which=0):
        """steps.jsonl of a run, by age."""
        with open(sorted(glob.glob(f"{cls.scratch}/{runs}/2*/steps.jsonl"), key=os.path.getctime)[which], "rb") as log:
            return log.read()

    def runs(self):
        return os.path.basename(tempfile.mkdtemp(dir=self.scratch))

    def test_any_number_gives_the_same_last_lines(self):
        for workers in (1, 4):
            with self.subTest(workers=workers):
                done = self.isobit("run", "lenet5.toml", "--workers", str(workers), "--runs", self.runs())
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.splitlines(), self.expected["lenet5"])

    def test_batch_norm_and_a_record_that_verifies(self):
        runs = self.runs()
        found = self.expect_finished(self.job("resnet18.toml", "--set", "steps=2", "--workers", "2", "--runs", runs), "resnet18")
        verified = self.isobit("verify", found["folder"])
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_workers_killed_at_random_moments(self):
        seed = int(os.environ.get("ISOBIT_TEST_SEED", random.randrange(10**6)))
        for moment in range(MOMENTS):
            with self.subTest(seed=seed, moment=moment):
                numbers, runs, victims = random.Random(seed + moment), self.runs(), []

                def disturb(process, numbers=numbers, runs=runs, victims=victims):
                    self.wait_for_step(process, runs, numbers.randrange(1, 14))
                    while process.poll() is None and len(victims) < 3:
                        time.sleep(numbers.random())
                        alive = children(process.pid)
                        if alive:
                            victims.append(numbers.choice(alive))
                            send(victims[-1], signal.SIGKILL)

                self.expect_finished(self.job("lenet5.toml", "--workers", "3", "--runs", runs, disturb=disturb))

    def test_one_stopped_and_continued(self):
        runs = self.runs()

        def disturb(process):
            self.wait_for_step(process, runs, 4)
            recorder = children(process.pid)[0]
            send(recorder, signal.SIGSTOP)
            self.wait_for_step(process, runs, 10)  # the other one goes on, and writes
            send(recorder, signal.SIGCONT)

        self.expect_finished(self.job("lenet5.toml", "--workers", "2", "--silence", "2", "--runs", runs, disturb=disturb))

    def test_one_throttled_to_a_third(self):
        def disturb(process):
            while process.poll() is None:
                slow = children(process.pid)[-1:]
                for pid in slow:
                    send(pid, signal.SIGSTOP)
                time.sleep(0.02)
                for pid in slow:
                    send(pid, signal.SIGCONT)
                time.sleep(0.01)

        self.expect_finished(self.job("lenet5.toml", "--workers", "2", "--runs", self.runs(), disturb=disturb))

    def test_interrupted_and_its_launcher_killed(self):
        runs = self.runs()

        def interrupt(process):
            self.wait_for_step(process, runs, 3)
            process.send_signal(signal.SIGINT)

        code, found, err = self.job("lenet5.toml", "--workers", "2", "--runs", runs, disturb=interrupt)
        self.assertEqual((code, found["state"]), (130, "interrupted"), err)
        self.assertIn("resume with: isobit run --resume", err)

        left = []

        def kill_launcher(process):
            self.wait_for_step(process, runs, 9)
            left.extend(children(process.pid))
            process.kill()

        code, found, err = self.job("--resume", found["folder"], "--workers", "2", "--runs", runs, disturb=kill_launcher)
        self.assertEqual(code, -signal.SIGKILL, err)
        until = time.time() + 30
        while any(os.path.exists(f"/proc/{pid}") for pid in left) and time.time() < until:
            time.sleep(0.05)
        self.assertFalse([pid for pid in left if os.path.exists(f"/proc/{pid}")], "workers outlive their launcher")
        run = glob.glob(f"{self.scratch}/{runs}/2*")[0]
        self.expect_finished(self.job("--resume", run, "--workers", "3", "--runs", runs))

    def test_others_join_and_leave(self):
        runs, key, joiners = self.runs(), "5" * 64, []
        with open(f"{self.scratch}/key", "w", encoding="ascii") as file:
            file.write(key)
        os.chmod(f"{self.scratch}/key", 0o600)
        port = 20000 + os.getpid() % 20000

        def disturb(process):
            self.wait_for_step(process, runs, 2)
            for _ in range(2):
                joiners.append(subprocess.Popen(
                    [PROGRAM, "run", "lenet5.toml", "--join", f"127.0.0.1:{port}", "--key-file", "key", "--threads", "1"],
                    cwd=self.scratch, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
            self.wait_for_step(process, runs, 8)
            joiners[0].kill()

        found = self.expect_finished(self.job("lenet5.toml", "--workers", "2", "--runs", runs, "--listen", f"127.0.0.1:{port}",
                                              disturb=disturb,
                                              environment={"ISOBIT_JOB_KEY": key}))
        for joiner in joiners:
            joiner.communicate(timeout=60)
        self.assertEqual(found["steps"], 16)

    # ---- bad input

    def refused(self, *arguments, code=2, environment=None):
        done = self.isobit("run", *arguments, environment=environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr

    def test_bad_input(self):
        self.assertIn("set grain to a part of the batch: --set grain=6",
                      self.refused("lenet5.toml", "--set", "grain=0", "--workers", "2", "--runs", "none"))
        self.assertIn("the key of the job is missing", self.refused("lenet5.toml", "--join", "127.0.0.1:9"))
        self.assertIn("is no HOST:PORT",
                      self.refused("lenet5.toml", "--join", "somewhere", environment={"ISOBIT_JOB_KEY": "5" * 64}))
        with open(f"{self.scratch}/open", "w", encoding="ascii") as file:
            file.write("5" * 64)
        os.chmod(f"{self.scratch}/open", 0o644)
        self.assertIn("can be read by others", self.refused("lenet5.toml", "--join", "127.0.0.1:9", "--key-file", "open"))
        listener = socket.create_server(("127.0.0.1", 0))
        with listener:
            taken = listener.getsockname()[1]
            self.assertIn("the port is in use", self.refused("lenet5.toml", "--workers", "2", "--runs", "none", "--listen",
                                                              f"127.0.0.1:{taken}"))

    def test_workers_of_another_job_or_without_its_key_are_turned_away(self):
        runs, port, said = self.runs(), 20000 + (os.getpid() + 7) % 20000, []

        def disturb(process):
            workers = []
            while not workers and process.poll() is None:
                workers = children(process.pid)
            for pid in workers:  # the job waits meanwhile
                send(pid, signal.SIGSTOP)
            join = ["lenet5.toml", "--join", f"127.0.0.1:{port}"]
            said.append(self.refused(*join, environment={"ISOBIT_JOB_KEY": "6" * 64}))
            said.append(self.refused(*join, "--set", "seed=4", environment={"ISOBIT_JOB_KEY": "5" * 64}))
            for pid in workers:
                send(pid, signal.SIGCONT)

        self.expect_finished(self.job("lenet5.toml", "--workers", "2", "--runs", runs, "--silence", "60", "--listen", f"127.0.0.1:{port}",
                                      disturb=disturb, environment={"ISOBIT_JOB_KEY": "5" * 64}))
        self.assertIn("another key", said[0])
        self.assertIn("this worker is not of the job", said[1])
        self.assertEqual(said[1].count("experiment "), 2, said[1])

    def test_a_step_that_is_not_finite_stops_all_with_one_message(self):
        alone = self.isobit("run", "lenet5.toml", "--set", "optimizer.lr=1e30", "--runs", self.runs())
        self.assertEqual(alone.returncode, 1)
        shared = self.isobit("run", "lenet5.toml", "--set", "optimizer.lr=1e30", "--workers", "3", "--runs", self.runs())
        self.assertEqual(shared.returncode, 1, shared.stderr)
        message = [line.split("-shared-")[1][9:] for line in alone.stderr.splitlines() if "not finite" in line]
        self.assertEqual(message, [line.split("-shared-")[1][9:] for line in shared.stderr.splitlines() if "not finite" in line])
        self.assertEqual(len(message), 1)


if __name__ == "__main__":
    unittest.main()
