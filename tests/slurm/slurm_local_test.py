#!/usr/bin/env python3
"""isobit submit and isobit queue against a Slurm of several nodes on this machine (scripts/slurm-local).

Usage: slurm_local_test.py ISOBIT PRINT_ALLOCATION SOURCE_DIR [TEST...]. Exit code 77 and a reason where this machine
can have no such cluster; 1 where ISOBIT_REQUIRE names slurm and a package is missing. Results are compared with those of
`isobit run` without Slurm: the same bits.
"""
import contextlib
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ISOBIT, PRINT_ALLOCATION, SOURCE = map(os.path.abspath, sys.argv[1:4])
SLURM_LOCAL = os.path.join(SOURCE, "scripts", "slurm-local")
# Names of its own, for control groups that another cluster on this machine has, too.
NODES = {name: f"t{os.getpid()}{name}" for name in ("a", "b", "c", "d")}
EXPERIMENT = """
name = "small"
epochs = {epochs}
batch = 64
grain = 16
[data]
path = "/usr/share/datasets/fashion-mnist"
train_limit = 2048
test_limit = 64
[model]
name = "mlp"
hidden = [32]
[optimizer]
lr = 0.01
[checkpoint]
every = 50
"""


def call(words, environment, code=0, cwd=None):
    done = subprocess.run(words, env=environment, cwd=cwd, capture_output=True, text=True, check=False, timeout=400)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class SlurmLocal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="isobit-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.environment = {key: value for key, value in os.environ.items()
                           if not key.startswith(("ISOBIT_", "SLURM", "SBATCH"))}
        if torch := os.environ.get("ISOBIT_TORCH_DIR"):
            cls.environment["ISOBIT_TORCH_DIR"] = torch
        cls.environment.update(SLURM_LOCAL=f"/run/isobit-slurm-{os.getpid()}", XDG_CACHE_HOME=str(cls.folder / "cache"))
        cls.addClassCleanup(subprocess.run, [SLURM_LOCAL, "down"], env=cls.environment, check=False)
        types = {"a": "gtx970:1", "b": "gtx970:2", "c": "rtx2080:2", "d": "rtx2080:4"}
        call([SLURM_LOCAL, "up", *(f"{NODES[name]}={gpus}" for name, gpus in types.items())], cls.environment)

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.addCleanup(self.slurm, "scancel", "--user=root", "--quiet", code=None)

    def slurm(self, *words, code=0, **more):
        return call([SLURM_LOCAL, "run", *words], {**self.environment, **more}, code, self.work)

    def isobit(self, *words, code=0, **more):
        return self.slurm(ISOBIT, *words, code=code, **more)

    def experiment(self, epochs=2):
        (self.work / "small.toml").write_text(EXPERIMENT.format(epochs=epochs))
        return "small.toml"

    def submit(self, *words, **more):
        answer = json.loads(self.isobit("submit", *words, "--json", **more).stdout)
        return answer["job"], pathlib.Path(answer["folder"])

    def job(self, number):
        return self.slurm("scontrol", "show", "job", number).stdout

    def state(self, number):
        return re.search(r"JobState=(\w+)", self.job(number))[1]

    def wait_for(self, condition, seconds=90, what="it"):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if condition():
                return
            time.sleep(0.2)
        logs = "".join(pathlib.Path(log).read_text() for log in glob.glob(f"{self.work}/runs/.jobs/*/*.log"))
        self.fail(f"{what} did not come about in {seconds} s\n{self.slurm('squeue').stdout}\n{logs}")

    def wait_ended(self, number, state="COMPLETED", seconds=90):
        self.wait_for(lambda: self.state(number) not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"), seconds,
                      f"the end of job {number}")
        self.assertEqual(self.state(number), state, self.log_of(number) + self.job(number))

    def log_of(self, number):
        return "".join(pathlib.Path(log).read_text() for log in sorted(glob.glob(f"{self.work}/runs/.jobs/*/{number}*.log")))

    def runs(self):
        return [pathlib.Path(path) for path in sorted(glob.glob(f"{self.work}/runs/2*"))]

    def steps(self):
        return sum(len((run / "steps.jsonl").read_text().splitlines()) for run in self.runs())

    def weights_without_slurm(self, *words):
        done = call([ISOBIT, "run", "small.toml", "--runs", "other", "--json", *words], self.environment, cwd=self.work)
        return json.loads(done.stdout)["weights"]

    def weights(self):
        return [run["weights"] for run in json.loads(self.isobit("log", "--json").stdout)]

    # ---- a study's runs as an array

    def test_a_study_has_the_bits_of_one_made_here_whatever_its_workers(self):
        self.experiment(epochs=1)
        (self.work / "study.toml").write_text('[study]\nname = "shared"\nexperiment = "small.toml"\nmetric = "test.accuracy"\n'
                                              '[factors]\nworkers = [1, 2]\n')
        done = self.isobit("study", "study.toml", "--submit", "--time", "20", "--at-once", "2")
        number = done.stdout.split()[1]
        self.assertIn("2 of 2 waiting runs submitted", done.stderr)
        self.wait_for(lambda: not self.slurm("squeue", "--noheader", "--jobs", number, code=None).stdout.strip(), 180, "the study's end")
        results = json.loads(self.isobit("study", "study.toml", "--gather", "--json").stdout)
        cells = json.loads((self.work / "studies/shared/cells.json").read_text())["cells"]
        log = "".join(pathlib.Path(path).read_text() for path in glob.glob(f"{self.work}/studies/shared/runs/.jobs/*/*.log"))
        self.assertEqual([cell["state"] for cell in cells], ["finished"] * 2, log)
        self.assertEqual({cell["weights"] for cell in cells}, {self.weights_without_slurm()})
        self.assertEqual([finding.split(":")[:2] for finding in results["findings"]],
                         [["workers", " nothing moves"]])
        self.assertIn("no run is left to make", self.isobit("study", "study.toml", "--submit", code=2).stderr)

    @unittest.skipUnless("avx2" in pathlib.Path("/proc/cpuinfo").read_text(), "this CPU has one capability")
    def test_a_stock_study_has_the_capability_that_each_cell_asks_for(self):
        self.experiment(epochs=1)
        (self.work / "study.toml").write_text('[study]\nname = "stock"\nexperiment = "small.toml"\nmetric = "test.accuracy"\n'
                                              '[settings]\narithmetic.kind = "stock"\ngrain = 0\n[factors]\ncapability = ["default", "avx2"]\n')
        number = self.isobit("study", "study.toml", "--submit", "--time", "20").stdout.split()[1]
        self.wait_for(lambda: not self.slurm("squeue", "--noheader", "--jobs", number, code=None).stdout.strip(), 180, "the study's end")
        results = json.loads(self.isobit("study", "study.toml", "--gather", "--json").stdout)
        cells = json.loads((self.work / "studies/stock/cells.json").read_text())["cells"]
        log = "".join(pathlib.Path(path).read_text() for path in glob.glob(f"{self.work}/studies/stock/runs/.jobs/*/*.log"))
        self.assertEqual([cell["state"] for cell in cells], ["finished"] * 2, log)
        for cell, capability in zip(cells, ("DEFAULT", "AVX2"), strict=True):
            environment = json.loads((self.work / "studies/stock/runs" / cell["run"] / "environment.json").read_text())
            self.assertEqual(environment["run"]["cpu_capability"], capability)
        self.assertEqual([finding.split(":")[0] for finding in results["findings"]], ["capability"])

    # ---- a job from its submission to its end

    def test_a_job_gives_the_bits_of_a_run(self):
        number, folder = self.submit(self.experiment(), "--cpus", "1", "--mem", "400", "--time", "20")
        self.wait_ended(number)
        self.assertEqual(self.weights(), [self.weights_without_slurm()])
        self.assertEqual((folder / "experiment.toml").read_text(), (self.work / "small.toml").read_text())
        job = self.job(number)
        self.assertRegex(job, r"MinMemoryNode=400M")
        self.assertRegex(job, r"TimeLimit=00:20:00")
        self.assertRegex(job, r"Requeue=1")

    def test_what_was_submitted_runs(self):
        self.slurm("scontrol", "update", "partitionname=main", "state=down")  # the job waits
        self.addCleanup(self.slurm, "scontrol", "update", "partitionname=main", "state=up")
        number, _ = self.submit(self.experiment())
        (self.work / "small.toml").write_text("changed meanwhile")
        self.assertIn("pending", self.isobit("queue").stdout)
        self.slurm("scontrol", "update", "partitionname=main", "state=up")
        self.wait_ended(number)
        self.experiment()
        self.assertEqual(self.weights(), [self.weights_without_slurm()])

    def test_an_array_is_a_run_for_each_value(self):
        number, _ = self.submit(self.experiment(1), "--array", "seed=1..2", "--array", "optimizer.lr=0.1,0.01", "--mem",
                                "400", "--at-once", "2")
        self.wait_for(lambda: self.slurm("squeue", "-h").stdout == "", what="the end of the array")
        expected = [self.weights_without_slurm("--set", f"seed={seed}", "--set", f"optimizer.lr={lr}")
                    for seed in (1, 2) for lr in (0.1, 0.01)]
        self.assertEqual(sorted(self.weights()), sorted(expected), self.log_of(number))
        self.assertEqual(len(set(expected)), 4)

    # ---- what ends a job, and how it begins again

    def test_a_requeued_job_resumes_its_run(self):
        number, _ = self.submit(self.experiment(60), "--cpus", "1", "--mem", "400")
        self.wait_for(lambda: self.steps() > 120, what="step 120")
        self.slurm("scontrol", "requeue", number)
        self.wait_for(lambda: "Restarts=1 " in self.job(number), what="the restart")
        self.wait_ended(number)
        self.assertEqual(len(self.runs()), 1)
        self.assertIn("resumes after step", self.log_of(number))
        self.assertEqual(self.weights(), [self.weights_without_slurm()])

    def test_a_job_of_a_lost_node_resumes_on_another(self):
        number, _ = self.submit(self.experiment(100_000), "--cpus", "1", "--mem", "400")
        self.wait_for(lambda: self.steps() > 120, what="step 120")
        node = re.search(r"BatchHost=(\S+)", self.job(number))[1]
        call([SLURM_LOCAL, "fail", node], self.environment)
        self.addCleanup(self.wait_for, lambda: "down" not in self.slurm("sinfo", "-h", "-n", node, "-o", "%t").stdout)
        self.addCleanup(call, [SLURM_LOCAL, "heal", node], self.environment)
        # The lost node's worker lives on and writes, until the restart takes its run over.
        self.wait_for(lambda: "resumes after step" in self.log_of(number), what="the restart")
        self.assertNotIn(node, self.slurm("squeue", "-h", "-j", number, "-o", "%N").stdout)
        resumed = int(re.search(r"resumes after step (\d+)", self.log_of(number))[1])
        self.wait_for(lambda: self.steps() > resumed + 200, what="200 more steps")
        self.slurm("scancel", number)
        self.wait_ended(number, "CANCELLED")
        self.assertEqual(len(self.runs()), 1)
        steps = (self.runs()[0] / "steps.jsonl").read_text().splitlines()[:resumed + 100]
        call([ISOBIT, "run", "small.toml", "--runs", "other", "--set", "epochs=1", "--set", f"steps={resumed + 101}",
              "--set", "checkpoint.segments=1"], self.environment, cwd=self.work)
        other = glob.glob(f"{self.work}/other/2*/steps.jsonl")[0]
        self.assertEqual(steps, pathlib.Path(other).read_text().splitlines()[:-1])

    def test_a_job_stops_before_its_time_limit_and_is_requeued(self):
        number, _ = self.submit(self.experiment(100_000), "--cpus", "1", "--mem", "400", "--time", "1")
        self.wait_for(lambda: "Restarts=1 " in self.job(number), 150, "the requeue at the time limit")
        self.assertIn("the time limit is near: requeued", self.log_of(number))
        self.assertIn("interrupted after step", self.log_of(number))
        self.wait_for(lambda: "resumes after step" in self.log_of(number), what="the second start")
        self.assertEqual(len(self.runs()), 1)

    def test_a_cancelled_job_stays_cancelled(self):
        number, _ = self.submit(self.experiment(100_000), "--cpus", "1", "--mem", "400")
        self.wait_for(lambda: self.steps() > 60, what="step 60")
        self.slurm("scancel", number)
        self.wait_ended(number, "CANCELLED")
        self.assertIn("Restarts=0 ", self.job(number))
        state = json.loads(self.isobit("log", "--json").stdout)[0]["state"]
        self.assertEqual(state, "interrupted")

    # ---- several tasks, GPUs, containers: what the tasks know, by a stand-in for Apptainer

    def stand_in(self, body):
        programs = self.work / "bin"
        programs.mkdir()
        (programs / "apptainer").write_text(f"#!/bin/sh\n{body}\n")
        (programs / "apptainer").chmod(0o755)
        (self.work / "tools.sif").write_text("an image")
        return f"{programs}:{self.environment['PATH']}"

    def test_tasks_of_several_kinds_of_nodes(self):
        path = self.stand_in(f"exec {PRINT_ALLOCATION}")
        number, _ = self.submit(self.experiment(), "--gpus", "rtx2080:2,gtx970:1", "--mem", "400", "--container", "tools.sif",
                                PATH=path)
        self.wait_ended(number)
        lines = sorted(line for line in self.log_of(number).splitlines() if line.startswith("task="))
        self.assertEqual(len(lines), 3, lines)
        for rank, line in enumerate(lines):
            self.assertTrue(line.startswith(f"task={rank}/3 "), line)
        one, two = re.search(r"node=(\S+)", lines[0])[1], re.search(r"node=(\S+)", lines[2])[1]
        for line in lines:
            self.assertIn(f"nodes={one},{two} first={one} host={one} launcher=10.77.0.", line)
        self.assertIn(f"local=0/2 node={one}", lines[0])
        self.assertIn(f"local=1/2 node={one}", lines[1])
        self.assertIn("local=0/1", lines[2])
        self.assertEqual([re.search(r"gpus=(\S*)", line)[1] for line in lines], ["0", "1", "0"])
        self.assertEqual([re.search(r"memory=(\S*)", line)[1] for line in lines], ["200", "200", "400"])

    def test_workers_of_several_nodes_give_the_bits_of_one(self):
        for words in (["--nodes", "2"], ["--nodes", "1", "--workers-per-node", "2"],
                      ["--gpus", "rtx2080:2,gtx970:1", "--device", "cpu"]):
            shutil.rmtree(self.work / "runs", ignore_errors=True)
            number, folder = self.submit(self.experiment(4), *words, "--mem", "600")
            self.wait_ended(number, seconds=200)
            self.assertEqual(len(self.runs()), 1)
            self.assertEqual(self.weights(), [self.weights_without_slurm()], words)
            self.assertFalse((folder / "key").exists())
            self.assertEqual(glob.glob(f"{self.work}/runs/.jobs/address-*"), [])

    def processes(self, text, rank):
        """That were called with the text, as part of this test's task of that rank."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                variables = (entry / "environ").read_bytes().split(b"\0")
                if str(self.work) in words and text in words and f"SLURM_PROCID={rank}".encode() in variables:
                    found.append(int(entry.name))
        return found

    def test_killed_workers_do_not_fail_the_job(self):
        number, _ = self.submit(self.experiment(60), "--nodes", "2", "--mem", "600")
        self.wait_for(lambda: self.steps() > 60, what="step 60")
        for pid in self.processes("/experiment.toml --join ", 1):  # its task starts another one
            os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: "another one is started" in self.log_of(number), what="a new worker")
        before = self.steps()
        self.wait_for(lambda: self.steps() > before + 30, what="30 more steps")
        for text in ("/experiment.toml --runs ", "/experiment.toml --join "):  # the task as a whole
            for pid in self.processes(text, 1):
                os.kill(pid, signal.SIGKILL)
        self.wait_ended(number, seconds=300)
        self.assertEqual(self.weights(), [self.weights_without_slurm()])
        for environment in self.runs()[0].glob("environment*.json"):
            self.assertEqual(json.loads(environment.read_text())["run"]["workers"], "2", environment)

    def test_a_requeued_job_of_several_nodes_resumes_its_run(self):
        number, _ = self.submit(self.experiment(40), "--nodes", "2", "--mem", "600")
        self.wait_for(lambda: self.steps() > 120, what="step 120")
        self.slurm("scontrol", "requeue", number)
        self.wait_for(lambda: "Restarts=1 " in self.job(number), what="the restart")
        self.wait_ended(number, seconds=300)
        self.assertEqual(len(self.runs()), 1)
        self.assertIn("resumes after step", self.log_of(number))
        self.assertEqual(self.weights(), [self.weights_without_slurm()])

    def test_tasks_without_a_key_are_told(self):
        self.experiment()
        done = self.slurm("srun", "--nodes=2", "--ntasks=2", "--mem=400", ISOBIT, "run", "small.toml", code=2)
        self.assertEqual(done.stderr.count("srun: 2 tasks of one run need the job's key"), 2, done.stderr)
        self.assertEqual(self.runs(), [])

    def test_a_container_is_in_the_record(self):
        path = self.stand_in(f'while [ "$1" != isobit ]; do shift; done; shift; exec {ISOBIT} "$@"')
        number, _ = self.submit(self.experiment(), "--container", "tools.sif", PATH=path)
        self.wait_ended(number)
        variables = json.loads((self.runs()[0] / "environment.json").read_text())["variables"]
        digest = subprocess.run(["sha256sum", self.work / "tools.sif"], capture_output=True, text=True, check=True).stdout[:64]
        self.assertEqual(variables["ISOBIT_CONTAINER"], f"tools.sif sha256:{digest}")

    def test_an_image_that_changed_is_not_run(self):
        path = self.stand_in("echo it ran")
        self.slurm("scontrol", "update", "partitionname=main", "state=down")
        self.addCleanup(self.slurm, "scontrol", "update", "partitionname=main", "state=up")
        number, _ = self.submit(self.experiment(), "--container", "tools.sif", PATH=path)
        (self.work / "tools.sif").write_text("another image")
        self.slurm("scontrol", "update", "partitionname=main", "state=up")
        self.wait_ended(number, "FAILED")
        self.assertIn("is another image than was submitted", self.log_of(number))
        self.assertNotIn("it ran", self.log_of(number))

    def test_nobody_reads_the_key(self):
        path = self.stand_in("echo worker; env; sleep 3")
        number, folder = self.submit(self.experiment(), "--nodes", "2", "--container", "tools.sif", PATH=path,
                                     ISOBIT_JOB_KEY="of-another-job")
        key = (folder / "key").read_text().strip()
        self.assertRegex(key, "^[0-9a-f]{64}$")
        self.assertEqual((folder / "key").stat().st_mode & 0o777, 0o600)
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        self.wait_for(lambda: self.log_of(number).count("worker\n") == 2, what="the workers")
        told = self.job(number) + self.slurm("scontrol", "write", "batch_script", number, "-").stdout
        for path in glob.glob(f"{self.environment['SLURM_LOCAL']}/state/**", recursive=True):
            if os.path.isfile(path):
                told += pathlib.Path(path).read_bytes().decode("latin-1")
        told += self.log_of(number)  # the workers' environment
        self.assertNotIn(key, told)
        self.assertNotIn("of-another-job", told)
        self.wait_ended(number)
        self.assertFalse((folder / "key").exists())

    # ---- the queue

    def test_the_queue_shows_jobs_and_what_is_free(self):
        path = self.stand_in("sleep 30")
        # What the tests before left is still ending: it holds nodes and GPUs.
        self.wait_for(lambda: set(self.slurm("sinfo", "-h", "-N", "-o", "%t").stdout.split()) == {"idle"}, what="free nodes")
        number, _ = self.submit(self.experiment(), "--gpus", "gtx970:2", "--workers-per-node", "1", "--mem", "500", "--cpus",
                                "1", "--name", "busy", "--container", "tools.sif", PATH=path)
        self.wait_for(lambda: self.state(number) == "RUNNING", what="the start")
        answer = json.loads(self.isobit("queue", "--json").stdout)
        job = answer["jobs"][0]
        self.assertEqual((job["id"], job["name"], job["state"], job["nodes"]), (number, "busy", "running", NODES["b"]))
        main = answer["partitions"][0]
        self.assertEqual(main["gpus"], {"gtx970": {"free": 1, "total": 3}, "rtx2080": {"free": 6, "total": 6}})
        self.assertEqual(main["nodes"], {"free": 3, "total": 4})
        self.assertEqual(main["memory_mib"], {"free": 7500, "total": 8000})
        text = self.isobit("queue", "--all").stdout
        self.assertRegex(text, rf"{number} +root +busy +running +{NODES['b']} ")
        self.assertIn("gtx970 1/3, rtx2080 6/6", text)

    def test_names_of_jobs_do_nothing_to_a_terminal(self):
        self.slurm("sbatch", "--job-name=a\x1b[2Jb", "--wrap", "sleep 30")
        self.assertNotIn("\x1b", self.isobit("queue").stdout)

    # ---- what cannot be submitted

    def test_what_cannot_run_is_not_submitted(self):
        file = self.experiment()
        (self.work / "no.toml").write_text("model = [")
        before = set(self.slurm("squeue", "-h", "-o", "%i").stdout.split())
        (self.work / "odd.toml").write_text("[modle]\nname = 'mlp'\n")
        for words, message in (
                ([file, "--partition", "mian"], "--partition: the cluster has no partition 'mian' (did you mean 'main'?"),
                ([file, "--gpus", "h100:1"], "it has: 3 gtx970, 6 rtx2080"),
                ([file, "--gpus", "gtx970:3"], "the most is 2"),
                ([file, "--nodes", "5"], "5 nodes are asked for, a job in partition main has at most 4"),
                ([file, "--partition", "short", "--time", "11"], "may take: 00:10:00"),
                ([file, "--mem", "3G"], "--mem"),
                ([file, "--cpus", "100"], "--cpus"),
                ([file, "--array", "seed=1..2", "--gpus", "gtx970:1,rtx2080:1"], "--array"),
                ([file, "--at-once", "2"], "--at-once"),
                ([file, "--container", "nothing.sif"], "--container: there is no image"),
                ([file, "--set", "optimizer.lr=-1"], "optimizer.lr"),
                ([file, "--array", "optimizer.lr=0.1,fast"], "optimizer.lr"),
                ([file, "--runs", "100%"], "name another folder with --runs"),
                (["no.toml"], "no.toml:1"),
                (["odd.toml"], "modle"),
                (["nothing.toml"], "nothing.toml")):
            done = self.isobit("submit", *words, code=2)
            self.assertIn(message, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertFalse((self.work / "runs").exists())
        # A job of an earlier test may still be completing.
        self.assertEqual(set(self.slurm("squeue", "-h", "-o", "%i").stdout.split()) - before, set())

    def test_a_refusal_of_slurm_leaves_nothing(self):
        self.experiment()
        done = self.isobit("submit", "small.toml", code=2, SBATCH_RESERVATION="nobody-has-it")
        self.assertIn("sbatch", done.stderr)
        self.assertEqual(glob.glob(f"{self.work}/runs/.jobs/*"), [])

    def test_a_time_limit_has_room_for_a_recorded_step(self):
        self.experiment()
        call([ISOBIT, "run", "small.toml", "--set", "seed=5"], self.environment, cwd=self.work)
        run = self.runs()[0]
        log = (run / "timings.jsonl").read_text()
        slow = re.sub(r'("phase":"epoch","seconds":)[0-9.e-]+', r"\g<1>3200.5", log)
        self.assertNotEqual(slow, log)
        (run / "timings.jsonl").write_text(slow)
        done = self.isobit("submit", "small.toml", "--time", "4", code=2)
        self.assertRegex(done.stderr, rf"--time: 00:04:00 is too short: a step took 100.0 s in run {run.name}")
        self.assertIn("#SBATCH --signal=B:USR1@201\n",
                      self.isobit("submit", "small.toml", "--time", "6", "--dry-run").stdout)

    def test_a_machine_without_slurm(self):
        self.experiment()
        environment = {**self.environment, "PATH": "/nonexistent"}
        done = call([ISOBIT, "submit", "small.toml"], environment, 2, self.work)
        self.assertIn("this machine has no Slurm", done.stderr)
        self.assertIn("#SBATCH --requeue", call([ISOBIT, "submit", "small.toml", "--dry-run"], environment, 0, self.work).stdout)
        self.assertIn("this machine has no Slurm", call([ISOBIT, "queue"], environment, 2, self.work).stderr)
        self.assertFalse((self.work / "runs").exists())


if __name__ == "__main__":
    reason = subprocess.run([SLURM_LOCAL, "check"], capture_output=True, text=True, check=False)
    if reason.returncode != 0:
        print(f"skipped: {reason.stdout.strip()}")
        required = "slurm" in os.environ.get("ISOBIT_REQUIRE", "").split()  # packages (scripts/touched); no machine can be made another
        sys.exit(1 if required and "is not installed" in reason.stdout else 77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
