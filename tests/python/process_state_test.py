"""What belongs to the process, or to torch as a whole, and another library may have changed: rounding modes, the default type,
modes that several threads need, a kernel that was there for a while."""

import contextlib
import ctypes
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import torch
import torch.nn.functional as F
from cases import Case

import isobit
from isobit._base import _library

DOWNWARD, NEAREST = 0x400, 0  # x86's <fenv.h>
LIBM = ctypes.CDLL("libm.so.6")


class RoundingModes(Case):
    @unittest.skipUnless(torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512", "DEFAULT"), "x86's numbers of modes")
    def test_parameters_are_rounded_to_nearest(self):
        """They are rounded before a kernel opens its own environment."""
        x = torch.randn(33, 8)
        calls = {
            "lerp": lambda: torch.lerp(x, x.flip(0), 0.1), "softplus": lambda: F.softplus(x, 0.3, 7.7), "elu": lambda: F.elu(x, 0.3),
            "leaky_relu": lambda: F.leaky_relu(x, 0.1), "addcmul": lambda: torch.addcmul(x, x, x, value=0.7),
            "clamp": lambda: x.clamp(-0.1, 0.7), "pow": lambda: x.abs().pow(0.1), "add": lambda: x.add(x, alpha=0.1),
            "addmm": lambda: torch.addmm(x[:8], x[:8], x[8:16], alpha=0.1, beta=0.7),
            "normal_": lambda: torch.empty(40).normal_(0.1, 0.7, generator=torch.Generator().manual_seed(1)),
            "uniform_": lambda: torch.empty(40).uniform_(0.1, 0.7, generator=torch.Generator().manual_seed(1)),
            "interpolate": lambda: F.interpolate(x[None], scale_factor=1.7, mode="linear"),
        }
        isobit.enable()
        for name, call in calls.items():
            expected = call()
            LIBM.fesetround(DOWNWARD)
            try:
                found = call()
            finally:
                LIBM.fesetround(NEAREST)
            with self.subTest(name):
                self.assertTrue(torch.equal(found, expected))


class Subnormals(Case):
    def test_threads_that_were_made_while_the_switch_was_off(self):
        """A thread of torch's pool has the setting of the one that needed it."""
        tiny, row = torch.full((400, 3001), 1e-39), torch.full((3001,), 0.1)
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        self.addCleanup(torch.set_flush_denormal, False)
        torch.set_num_threads(3)
        isobit.enable()
        self.assertEqual(int((tiny * row == 0).sum()), 0)
        with isobit.disabled():
            torch.set_num_threads(2)
            tiny + 0
            torch.set_flush_denormal(True)
            torch.set_num_threads(3)
            tiny + 0
            torch.set_flush_denormal(False)
        self.assertEqual(int(((tiny * row).view(torch.int32) == 0).sum()), 0)


class Forks(unittest.TestCase):
    def test_a_child_computes(self):
        """It has none of the parent's threads and must not wait for them: with the switch on before, and turned on in the child."""
        for on_before in (True, False):
            code = f"""
import os, torch
import isobit
torch.set_num_threads(3)
x = torch.rand(600, 600)
x + x @ x
if {on_before}:
    isobit.enable()
    x * x
child = os.fork()
if child == 0:
    isobit.enable()
    x[:2] * x[0]
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
            with self.subTest(on_before=on_before):
                subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


class DefaultTypes(Case):
    def test_integers_are_not_computed_with_in_16_bits(self):
        whole, other = torch.arange(1, 9), torch.arange(3, 11)
        calls = {"/": lambda: whole / other, "* 0.3": lambda: whole * 0.3, "+ 0.3": lambda: whole + 0.3, "0.3 -": lambda: 0.3 - whole,
                 "foreach": lambda: torch._foreach_add([whole], 0.3), "bool": lambda: (whole > 3) * 0.3, "add_": lambda: whole.clone().add(0.5)}
        self.addCleanup(torch.set_default_dtype, torch.float32)
        isobit.enable()
        for dtype in (torch.float16, torch.bfloat16):
            torch.set_default_dtype(dtype)
            for name, call in calls.items():
                with self.subTest(name, dtype=dtype), self.assertRaisesRegex(isobit.RefusedError, "takes only float32, float64"):
                    call()
            self.assertTrue(torch.equal(whole + other, torch.arange(4, 20, 2)))
            self.assertEqual((torch.ones(3, dtype=torch.float32) * 0.5 + 0.3).dtype, torch.float32)
        torch.set_default_dtype(torch.float64)
        self.assertEqual((whole * 0.3).dtype, torch.float64)


class Threads(Case):
    def test_writes_to_one_place(self):
        """The mode that orders them is the process's: the thread that is done first must not end it."""
        to, index = torch.zeros(4), torch.arange(200_000) % 4
        source = torch.arange(200_000, dtype=torch.float32)
        wrong = []

        def write():
            for _ in range(60):
                if not torch.equal(to.index_copy(0, index, source), source[-4:]):
                    wrong.append(threading.get_ident())

        isobit.enable()
        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertFalse(torch.are_deterministic_algorithms_enabled())


class CaughtRefusals(unittest.TestCase):
    def test_of_a_kernel_that_was_there_for_a_while(self):
        """The program catches every refusal, and switches off and on again: its record is not sealed."""
        with tempfile.TemporaryDirectory() as runs:
            model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            with self.assertRaisesRegex(isobit.RefusedError, "aten::relu has had its kernel replaced"), isobit.record(runs=runs) as run:
                run.track(model)
                library = torch.library.Library("aten", "IMPL")
                with mock.patch.object(_library, "is_on", return_value=False):  # as a library in C++ registers
                    library.impl("relu", lambda x: x * 2, "CPU")
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
                library._destroy()
                with contextlib.suppress(isobit.RefusedError):
                    isobit.disable()
                isobit.enable()
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
            while isobit.is_enabled():
                isobit.disable()
            self.assertEqual(list(pathlib.Path(runs).glob("*/manifest.json")), [])

    def test_a_full_disk_at_the_end(self):
        """The error is the disk's, and the switch goes off."""
        with tempfile.TemporaryDirectory() as runs:
            with self.assertRaisesRegex(OSError, "full"):
                with isobit.record(runs=runs) as run:
                    full = mock.patch.object(run, "_note_outside_at_end", side_effect=OSError(28, "disk full"))
                    full.start()
                    self.addCleanup(full.stop)
            self.assertFalse(isobit.is_enabled())
            self.assertEqual(list(pathlib.Path(runs).glob("*/manifest.json")), [])


if __name__ == "__main__":
    unittest.main()
