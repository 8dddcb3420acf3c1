"""Several processes that share the grains of run.steps: the bits and the record of one process, whatever becomes of them."""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
from unittest import mock

import programs
from programs import read_record
from record_test import Folder
from records import seal_anew, write_images

from isobit._jobs import _job, _launch
from isobit._loops import _shared_steps

os.environ["GLOO_SOCKET_IFNAME"] = "lo"
SOURCE = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"])
SCRIPT = """
import os, pathlib, signal, sys, time
import torch, isobit
import torch.nn.functional as F
import parts

RANK = os.environ.get("RANK", "0")
X, Y = parts.samples()
with isobit.record(os.environ.get("RUNS", "runs"), every=2, resume=True) as run:
    isobit.seed(7)
    model = parts.Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    if saved := run.load():
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    computed = 0
    for step in run.steps((X, Y), batch=16, grain=3, epochs=2):
        order = list(range(step.grain_count))
        if "SHUFFLED" in os.environ:
            order = order[1::2] + order[::2]
        for x, y in step.grains(order):
            parts.grain(step, RANK)
            step.backward(F.cross_entropy(model(x), y, reduction="sum"))
            computed += 1
            parts.moment(f"grain {computed}", RANK)
        torch.nn.utils.clip_grad_norm_(step.gradients(), 0.5)
        parts.moment(f"summed {step.number}", RANK)
        step.finish(optimizer)
        with torch.no_grad():
            run.log("test", loss=F.cross_entropy(model(X[:5]), Y[:5]), noise=torch.rand(1))
        parts.moment(f"step {step.number}", RANK)
        if step.number % 3 == 0:
            run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
print(isobit.fingerprint(model))
print("grains", computed)
"""
PARTS = """
import os, pathlib, signal, time
import torch
import torch.nn.functional as F

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4, momentum=0.3), torch.nn.Linear(64, 3)

    def forward(self, x):  # its batch norm is called twice in a grain
        x = self.norm(F.relu(self.norm(self.conv(x))))
        return self.out(F.dropout(x, 0.3, self.training).flatten(1))

def samples():
    return torch.randn(53, 1, 6, 6, generator=torch.Generator().manual_seed(1)), torch.arange(53) % 3

def grain(step, rank):
    if os.environ.get("SLOW") == rank:
        time.sleep(0.05)

def moment(name, rank):
    '''KILL="1 grain 3": that worker ends itself there, once.'''
    if os.environ.get("KILL") == f"{rank} {name}" and not pathlib.Path("killed").exists():
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), int(os.environ.get("SIGNAL", signal.SIGKILL)))
        time.sleep(60)
"""
LOGS = ("steps.jsonl", "metrics.jsonl", "evaluations.jsonl", "experiment.toml", "sources.json", "data.json")


class Fork:
    """A process that runs a script, forked from the test's: with what subprocess.Popen has."""

    def __init__(self, folder, words, environment, out, told):
        sys.stdout.flush()
        sys.stderr.flush()
        self._code = None
        self.pid = os.fork()
        if self.pid == 0:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            programs._be_program(lambda: run_path(folder / words[0]), folder, words, environment, out, told)

    def poll(self):
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def send_signal(self, number):
        os.kill(self.pid, number)

    def wait(self):
        while self.poll() is None:
            time.sleep(0.005)
        return self._code


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def run_path(path):
    import runpy

    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


class Jobs(Folder):
    def setUp(self):
        super().setUp()
        self.write("train.py", SCRIPT)
        self.write("parts.py", PARTS)

    def workers(self, count, *words, **environment):
        """[(how it ended, its stdout, its stderr)] of a script's processes, by rank, as torchrun would start them."""
        port = free_port()
        words = words or ("train.py",)
        started = []
        for rank in range(count):
            files = [(self.folder / f"{name}-{rank}").open("w+b") for name in ("out", "told")]
            variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(count)}
            started.append((Fork(self.folder, words, self.environment(**variables, **environment), *files), files))
        results = []
        for worker, files in started:
            code = worker.wait()
            texts = []
            for file in files:
                file.seek(0)
                texts.append(file.read().decode())
                file.close()
            results.append((code, *texts))
        return results

    def launch(self, *options, **environment):
        """(exit code, stdout, stderr) of isobit launch, whose workers are forks."""

        def call():
            folder = self.folder

            def start(rank, variables, output):
                with open(os.devnull, "wb") as nothing:
                    out = sys.stdout if rank == 0 else nothing
                    return Fork(folder, ["train.py"], dict(variables), out, output or sys.stderr)

            return _launch.main([*options, "train.py"], start)

        return self.fork(call, ["isobit"], self.environment(**environment))

    def alone(self, runs="alone", **environment):
        status, out, told = self.run_script("train.py", **self.environment(RUNS=runs, **environment))
        self.assertEqual(status, 0, out + told)
        return out.splitlines()[0], self.record(runs)

    def record(self, runs="runs"):
        folders = sorted((self.folder / runs).glob("2*"))
        self.assertEqual(len(folders), 1)
        return read_record(folders[0])

    def assert_same_record(self, record, alone):
        for log in LOGS:
            self.assertEqual(record.get(log), alone.get(log), log)
        one, other = (json.loads(state["state.json"]) for state in (record, alone))
        self.assertEqual({key: one[key] for key in ("state", "steps", "weights", "weights_sha256")},
                         {key: other[key] for key in ("state", "steps", "weights", "weights_sha256")})

    def assert_same(self, results, weights):
        for code, out, told in results:
            self.assertEqual(code, 0, out + told)
            self.assertEqual(out.splitlines()[0], weights)


class Bits(Jobs):
    def test_any_number_of_workers_has_the_bits_of_one(self):
        weights, alone = self.alone()
        for count, settings in ((2, {}), (3, {"SLOW": "1"}), (3, {"SLOW": "0", "SHUFFLED": "1"}), (7, {"SLOW": "2"})):
            with self.subTest(count=count, **settings):
                runs = f"runs-{count}-{len(settings)}-{settings.get('SLOW')}"
                results = self.workers(count, RUNS=runs, **settings)
                self.assert_same(results, weights)
                self.assert_same_record(self.record(runs), alone)

    def test_gradients_that_travel_in_many_parts(self):
        """1.6 million elements: pieces that end within a parameter, and hold several."""
        self.write("train.py", SCRIPT.replace("model = parts.Net()", "model = torch.nn.Sequential(parts.Net(), torch.nn.Linear(3, 400_000))")
                   .replace("epochs=2", "epochs=1"))
        weights, alone = self.alone()
        for count in (2, 3):
            self.assert_same(self.workers(count, RUNS=f"runs-{count}"), weights)
            self.assertEqual(self.record(f"runs-{count}")["steps.jsonl"], alone["steps.jsonl"])

    def test_one_grain_a_worker_travels_as_it_is(self):
        """As gradients, wherever a worker has one; whoever has none sends nothing."""
        self.write("train.py", SCRIPT.replace("grain=3", "grain=8"))
        self.write("parts.py", PARTS.replace('if os.environ.get("SLOW") == rank:', 'if "RANK" in os.environ:').replace("0.05", "0.2"))
        weights, alone = self.alone()
        whole = _job.Job.sum

        def watched(job, elements, tops, grains, sums, singles):
            with (self.folder / f"sent-{job.ranks}").open("a") as file:
                file.write(f"{sorted(grains)} {grains[job.rank] == 1} {len(singles) == len(elements)}\n")
            return whole(job, elements, tops, grains, sums, singles)

        for count in (2, 3):
            with mock.patch.object(_job.Job, "sum", watched):
                self.assert_same(self.workers(count, RUNS=f"runs-{count}"), weights)
            self.assert_same_record(self.record(f"runs-{count}"), alone)
            told = (self.folder / f"sent-{count}").read_text().splitlines()
            self.assertIn(f"{[0] * (count - 2) + [1, 1]} True True", told)
            self.assertFalse([line for line in told if line.endswith(("True False", "False True"))])

    def test_lenet5(self):
        write_images(self.folder / "data", train=90, test=10)
        self.write("grains.py", (SOURCE / "examples" / "python" / "grains.py").read_text())
        words = ["grains.py", "--data", "data", "--batch", "40", "--grain", "16", "--steps", "6", "--dropout", "0.5"]
        status, alone, told = self.run_script(*words, "--runs", "alone", **self.environment())
        self.assertEqual(status, 0, told)
        for count, order in ((2, "ascending"), (3, "descending")):
            results = self.workers(count, *words, "--runs", order, "--order", order)
            self.assert_same(results, alone.splitlines()[0])
            steps = self.record(order)["steps.jsonl"]
            self.assertEqual(steps, self.record("alone")["steps.jsonl"])

    def test_the_record_is_verified_by_one_process(self):
        for code, out, told in self.workers(2):
            self.assertEqual(code, 0, out + told)
        self.assertEqual(self.verify()["verdict"], "identical")
        if not programs.NO_SANDBOX:
            in_parts = self.verify("--workers", "2")
            self.assertEqual((in_parts["verdict"], in_parts["segments"], in_parts["weights"]),
                             ("identical", 2, self.verify()["weights"]))

    def test_a_batch_norm_that_only_some_grains_call(self):
        self.write("parts.py", PARTS.replace("        return self.out(F.dropout", "        if x.sum() > 0:\n"
                                             "            x = self.norm(x)\n        return self.out(F.dropout"))
        weights, alone = self.alone()
        self.assert_same(self.workers(3, SLOW="1"), weights)
        self.assert_same_record(self.record(), alone)

    def test_parameters_that_only_some_grains_reach(self):
        """Of modules that run.track names; one trains with nothing but its weight, one from the third step on."""
        script = SCRIPT.replace("    computed = 0\n", "    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)\n"
                                "    run.track(net=model, first=first, second=second)\n"
                                "    optimizer.add_param_group({'params': [*first.parameters(), *second.parameters()]})\n"
                                "    computed = 0\n", 1)
        script = script.replace("step.backward(F.cross_entropy(model(x), y", (
            "logits = model(x)\n"
            "            logits = F.linear(logits, first.weight) if len(y) == 1 else logits\n"
            "            logits = second(logits) if step.number > 2 and y[0] == 1 else logits\n"
            "            step.backward(F.cross_entropy(logits, y"))
        self.write("train.py", script)
        weights, alone = self.alone()
        for count in (2, 4):
            self.assert_same(self.workers(count, SLOW="0", RUNS=f"runs-{count}"), weights)
            self.assert_same_record(self.record(f"runs-{count}"), alone)


class Claims(unittest.TestCase):
    def test_as_many_as_fit_and_at_most_half_of_an_even_share(self):
        self.assertEqual([_shared_steps.share(left, 2, 0.001) for left in (1000, 80, 79, 8, 7, 4, 3, 2, 1)],
                         [20, 20, 19, 2, 1, 1, 1, 1, 1])
        self.assertEqual([_shared_steps.share(64, ranks, 0.001) for ranks in (2, 3, 8, 64)], [16, 10, 4, 1])
        self.assertEqual([_shared_steps.share(64, 2, seconds) for seconds in (0.0, 0.5, 0.02, 0.011, 0.01, 1e-9)], [1, 1, 1, 1, 2, 16])

    def test_every_grain_once_whoever_claims(self):
        """Interleaved at random, with grains of any time."""
        draw = random.Random(5)
        for _ in range(300):
            ranks, grains = draw.randrange(1, 6), draw.randrange(2, 200)
            given = [0]

            def claim(_, count, given=given):
                given[0] += count
                return given[0] - count

            order = list(range(grains))
            draw.shuffle(order)
            workers = []
            for _ in range(ranks):
                own = mock.Mock(ranks=ranks, claim=claim, grain_seconds=draw.choice([0.0, 1e-6, 0.004, 0.1]))
                workers.append(_shared_steps.SharedStep._claimed(mock.Mock(_job=own, _key="1/1"), order))
            computed = []
            while workers:
                worker = draw.choice(workers)
                grain = next(worker, None)
                if grain is None:
                    workers.remove(worker)
                else:
                    computed.append(grain)
            self.assertEqual(sorted(computed), list(range(grains)))


class Failures(Jobs):
    def assert_fail_alike(self, count, text, states="failed", **environment):
        results = self.workers(count, **environment)
        for code, out, told in results:
            self.assertEqual(code, 1, out + told)
            self.assertIn(text, told)
        folder = next((self.folder / "runs").glob("2*"), None)
        if folder is not None:
            self.assertEqual(json.loads((folder / "state.json").read_text())["state"], states)
        return results

    def test_a_gradient_that_is_not_finite(self):
        """Everybody raises what one process raises, of the lowest grain; the record says so."""
        broken = PARTS.replace("def grain", "def poison(samples):\n    samples[0][[3, 17, 30, 44]] = float('inf')\n    return samples\n\n"
                               "def grain")
        self.write("parts.py", broken)
        self.write("train.py", SCRIPT.replace("parts.samples()", "parts.poison(parts.samples())"))
        status, _, told = self.run_script("train.py", **self.environment(RUNS="alone"))
        self.assertEqual(status, 1, told)
        problem = told.splitlines()[-1]
        self.assertIn("is not finite in step", problem)
        results = self.assert_fail_alike(3, problem, SLOW="0")
        reasons = {json.loads((next((self.folder / runs).glob("2*")) / "state.json").read_text())["reason"] for runs in ("runs", "alone")}
        self.assertEqual(len(reasons), 1)
        self.assertTrue(any("on worker" in told for _, _, told in results))

    def test_a_script_that_raises_on_one_worker(self):
        for moment, ranks in (("grain 2", "01"), ("summed 2", "1"), ("step 2", "0")):
            for rank in ranks:
                with self.subTest(moment=moment, rank=rank):
                    # Else it would be resumed, behind the moment where the other worker took most of the grains.
                    shutil.rmtree(self.folder / "runs", ignore_errors=True)
                    self.write("parts.py", PARTS.replace("        os.kill(", "        raise KeyError('of its own')\n        os.kill("))
                    self.assert_fail_alike(2, "KeyError: 'of its own'", KILL=f"{rank} {moment}")
                    (self.folder / "killed").unlink()
        weights, alone = self.alone()
        self.assert_same(self.workers(2), weights)
        self.assert_same_record(self.record(), alone)

    def test_weights_that_differ_are_found(self):
        self.write("train.py", SCRIPT.replace("isobit.seed(7)", "isobit.seed(7 + int(RANK))").replace("epochs=2", "epochs=2, seed=1"))
        self.assert_fail_alike(2, "the weights differ between worker 0 and worker 1")

    def test_learning_rates_that_differ_are_found(self):
        self.write("train.py", SCRIPT.replace("lr=0.01", "lr=0.01 * (1 + int(RANK))"))
        self.assert_fail_alike(2, "weights or optimizers after an earlier step differ")

    def test_workers_that_came_apart(self):
        self.write("train.py", SCRIPT.replace("epochs=2", "epochs=1 + int(RANK)"))
        self.assert_fail_alike(2, "the workers came apart")

    def test_other_arguments(self):
        self.write("train.py", "import sys, os\nsys.argv.append(os.environ['RANK'])\n" + SCRIPT)
        self.assert_fail_alike(2, "script, arguments, settings of isobit.record")

    def test_what_cannot_be_shared(self):
        loop = SCRIPT[SCRIPT.index("    for step"):SCRIPT.index("print(isobit.f")]
        for body, message in (
                ("    for step in run.steps((X, Y), batch=16):\n        pass\n",
                 ("run.steps with steps of one grain leaves nothing to share among 2 workers\n"
                  "  do     give run.steps a grain, for example grain=4")),
                ("    for batch in run.batches(torch.utils.data.DataLoader(X)):\n        pass\n", "run.batches is not shared"),
                ("    for epoch in run.epochs(2):\n        pass\n", "run.epochs is not shared"),
                ("    F.cross_entropy(model(X), Y).backward()\n    optimizer.step()\n", "an optimizer's step outside of run.steps")):
            with self.subTest(message):
                self.write("train.py", SCRIPT.replace(loop, body + "    computed = 0\n").replace('"RUNS", "runs"', '"RUNS", "refused"'))
                for code, out, told in self.workers(2):
                    self.assertEqual(code, 1, out)
                    self.assertIn(message, told)
        self.write("train.py", SCRIPT)
        self.write("parts.py", PARTS.replace("momentum=0.3", "momentum=None"))
        self.assert_fail_alike(2, "BatchNorm2d with momentum=None")

    def test_a_program_without_a_record(self):
        self.write("train.py", "import torch, isobit\nisobit.enable()\nmodel = torch.nn.Linear(2, 1)\n"
                               "model(torch.ones(1, 2)).sum().backward()\ntorch.optim.SGD(model.parameters(), lr=0.1).step()\n")
        code, out, told = self.launch("--workers", "2")
        self.assertEqual(code, 1, out + told)
        self.assertIn("an optimizer's step outside of isobit.record is not shared", told)
        self.write("train.py", "print('nothing')\n")
        code, out, told = self.launch("--workers", "2")
        self.assertEqual((code, out), (2, "nothing\n"), told)
        self.assertIn("the script made no record, so that nothing was shared", told)


class Distributed(Jobs):
    SCRIPT = """
import torch, isobit, isobit.distributed
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group("gloo")
rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
with isobit.record("runs", every=2) as run:
    isobit.seed(7)
    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    model = isobit.distributed.exact(DistributedDataParallel(net))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(24, 6), torch.arange(24) % 3
    for step in range(4):
        mine = torch.arange(step * 6, step * 6 + 6)[rank::ranks]
        torch.nn.functional.cross_entropy(model(x[mine]), y[mine]).backward()
        optimizer.step()
        optimizer.zero_grad()
    run.save(net.state_dict())
print(isobit.fingerprint(net))
"""

    def test_a_record_is_verified_by_as_many_processes(self):
        self.write("train.py", self.SCRIPT)
        (code, out, told), other = self.workers(2)
        self.assertEqual((code, other[:2]), (0, (0, out)), out + told + other[2])
        self.assertIn(b"processes = 2\n", self.record()["experiment.toml"])
        found = self.verify()
        self.assertEqual((found["verdict"], found["weights"]), ("identical", found["recorded_weights"]), found)

    def test_what_another_number_of_processes_would_give_is_different(self):
        """The record of three, which somebody says to be that of two."""
        self.write("train.py", self.SCRIPT)
        self.assertEqual([code for code, _, _ in self.workers(3)], [0, 0, 0])
        folder = next((self.folder / "runs").glob("2*"))
        experiment = folder / "experiment.toml"
        experiment.write_text(experiment.read_text().replace("processes = 3", "processes = 2"))
        seal_anew(folder)
        self.assertEqual(self.verify(expect=1)["verdict"], "different")


class Launches(Jobs):
    def test_killed_and_started_again(self):
        weights, alone = self.alone()
        draw = random.Random(int(os.environ.get("ISOBIT_TEST_SEED", "11")))
        for rank in range(3):
            moment = draw.choice([f"grain {draw.randint(1, 8)}", f"summed {draw.randint(1, 7)}", f"step {draw.randint(1, 7)}"])
            with self.subTest(rank=rank, moment=moment):
                code, out, told = self.launch("--workers", "3", KILL=f"{rank} {moment}", RUNS=f"runs-{rank}")
                self.assertEqual(code, 0, out + told)
                self.assertEqual([line for line in out.splitlines() if line.startswith("isobit-")][-1], weights)
                if (self.folder / "killed").exists():  # a worker may compute too few grains to come there
                    (self.folder / "killed").unlink()
                    self.assertIn(f"worker {rank} of 3 was ended by SIGKILL: all ", told)
                self.assert_same_record(self.record(f"runs-{rank}"), alone)

    def test_restarts_without_progress_end(self):
        self.write("parts.py", PARTS.replace(' and not pathlib.Path("killed").exists()', ""))
        code, out, told = self.launch("--workers", "2", "--restarts", "2", KILL="1 step 5")
        self.assertEqual(code, 128 + signal.SIGKILL, out + told)
        self.assertEqual(told.count("all resume after step 3"), 2)
        self.assertIn("and 2 restarts brought no new checkpoint: start it again to resume", told)
        weights, alone = self.alone()
        self.assert_same(self.workers(2), weights)
        self.assert_same_record(self.record(), alone)

    def test_interrupted(self):
        """Ctrl-C in the middle of a step: the workers end, and the script alone resumes the record."""
        weights, alone = self.alone()
        self.write("parts.py", PARTS.replace("int(os.environ.get(\"SIGNAL\", signal.SIGKILL))", "signal.SIGINT").replace(
            "os.kill(os.getpid()", "os.kill(os.getppid()"))
        changed = self.folder / "parts.py"
        for rank in "01":
            code, out, told = self.launch("--workers", "2", KILL=f"{rank} summed 5", RUNS=f"runs-{rank}")
            self.assertEqual(code, 128 + signal.SIGINT, out + told)
            folder = next((self.folder / f"runs-{rank}").glob("2*"))
            self.assertFalse((folder / "manifest.json").exists())
            resumed, record = self.alone(f"runs-{rank}")
            self.assertEqual(resumed, weights)
            self.assertEqual(record["steps.jsonl"], alone["steps.jsonl"])
            (self.folder / "killed").unlink()
        self.assertTrue(changed.exists())

    def test_options(self):
        for words, text in ((["--workers", "0"], "--workers is 0: at least 1"), (["--restarts", "2"], "--workers"),
                            (["--workers", "2", "--restarts", "-1"], "--restarts is -1: at least 0")):
            code, _, told = self.launch(*words)
            self.assertEqual(code, 2)
            self.assertIn(text, told)

    def test_as_processes_of_python(self):
        """The whole way, without forks: isobit launch, and torchrun, which starts again what was killed."""
        weights, alone = self.alone()
        out = self.call(sys.executable, "-m", "isobit", "launch", "--workers", "2", "train.py")
        self.assertEqual(out.splitlines()[0], weights)
        self.assert_same_record(self.record(), alone)
        words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port",
                 str(free_port()), "--max-restarts", "1", "--monitor-interval", "0.1", "train.py"]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False,
                              env={**os.environ, **self.environment(RUNS="torchrun", KILL="1 step 5")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count(weights), 2)  # their lines run into each other
        self.assert_same_record(self.record("torchrun"), alone)


if __name__ == "__main__":
    import unittest

    unittest.main()
