"""Processes that train one model in shared memory are refused by name; what one of them may do with it is not."""

import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback
import unittest

import torch
import torch.multiprocessing as mp

import isobit

HOGWILD = """
import isobit
isobit.enable()
import torch
import torch.multiprocessing as mp

def train(rank, model):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()

if __name__ == "__main__":
    isobit.seed(0)
    model = torch.nn.Linear(8, 8)
    SHARE
    print(isobit.fingerprint(model))
    workers = [mp.get_context("spawn").Process(target=train, args=(rank, model)) for rank in range(2)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    print(isobit.fingerprint(model))
    print([w.exitcode for w in workers])
"""


def steps(model, optimizer=torch.optim.SGD):
    optimizer = optimizer(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    return isobit.fingerprint(model)


def in_fork(call):
    """What the call returns in a fork of this process, or the text of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(call())
        except isobit.RefusedError as error:
            text = str(error)
        except BaseException:
            text = traceback.format_exc()
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read()


class SharedMemory(unittest.TestCase):
    def setUp(self):
        isobit.enable()
        self.addCleanup(isobit.disable)
        isobit.seed(1)
        self.model = torch.nn.Linear(3, 2)

    def test_two_processes_that_train_one_model(self):
        """Where it is shared by the program, and where torch.multiprocessing does it to pass the model."""
        for share in ("model.share_memory()", "pass"):
            with tempfile.TemporaryDirectory() as folder:
                script = pathlib.Path(folder, "hogwild.py")
                script.write_text(HOGWILD.replace("SHARE", share))
                done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
            before, after, codes = done.stdout.splitlines()
            self.assertEqual((after, codes), (before, "[1, 1]"))
            self.assertEqual(done.stderr.count("RefusedError: isobit: torch.optim.Optimizer.step of SGD on a model in shared memory of process "), 2, done.stderr)
            self.assertIn("hogwild.py:13\n  do     let the processes add up", done.stderr)

    def test_forked_processes_and_every_optimizer(self):
        for strategy in mp.get_all_sharing_strategies():
            mp.set_sharing_strategy(strategy)
            self.addCleanup(mp.set_sharing_strategy, "file_descriptor")
            model = copy.deepcopy(self.model).share_memory()
            for optimizer in (torch.optim.SGD, torch.optim.Adam, torch.optim.Adagrad, torch.optim.RMSprop):
                told = in_fork(lambda model=model, optimizer=optimizer: steps(model, optimizer))
                self.assertIn(f"isobit: torch.optim.Optimizer.step of {optimizer.__name__} on a model in shared memory of process {os.getpid()} (", told)
        self.assertEqual(isobit.fingerprint(model), isobit.fingerprint(self.model))

    def test_an_optimizer_that_stepped_before(self):
        """In the process that made the memory; then in a fork of it, which has the optimizer, too. And parameters that come later."""
        model = self.model.share_memory()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.step()
        self.assertIn("isobit: torch.optim.Optimizer.step of SGD on a model in shared memory", in_fork(optimizer.step))

        def with_another_group():
            own = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)
            own.step()
            own.add_param_group({"params": list(model.parameters())})
            own.step()
        self.assertIn("isobit: torch.optim.Optimizer.step of SGD on a model in shared memory", in_fork(with_another_group))

    def test_what_one_process_does_alone(self):
        expected = steps(copy.deepcopy(self.model))
        self.assertEqual(steps(copy.deepcopy(self.model).share_memory()), expected)  # its own memory
        shared = self.model.share_memory()
        self.assertEqual(in_fork(lambda: steps(copy.deepcopy(shared))), expected)  # the way out
        self.assertEqual(in_fork(lambda: isobit.fingerprint(shared)), isobit.fingerprint(shared))  # reading
        self.assertEqual(in_fork(lambda: steps(torch.nn.Linear(3, 2).share_memory()))[:11], "isobit-0.1:")  # of the fork's own

    def test_stock_is_left_alone(self):
        model = self.model.share_memory()

        def stock():
            with isobit.disabled():
                return steps(model).partition(":")[0]
        self.assertNotIn("Error", in_fork(stock))


if __name__ == "__main__":
    unittest.main()
