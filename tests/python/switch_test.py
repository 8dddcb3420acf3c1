"""The switch from Python: counting, threads, instruction sets, errors, and that stock comes back."""

import threading
import unittest

import torch
from cases import Case, run_python, train

import isobit


class Switch(Case):
    def test_stock_comes_back(self):
        torch.manual_seed(1)
        before = torch.randn(100)
        with isobit.enabled():
            torch.manual_seed(1)
            self.assertFalse(torch.equal(torch.randn(100), before))
        torch.manual_seed(1)
        self.assertTrue(torch.equal(torch.randn(100), before))
        torch.special.bessel_j0(before)

    def test_counts(self):
        isobit.enable()
        with isobit.enabled():
            isobit.disable()
            self.assertTrue(isobit.is_enabled())
            isobit.enable()
        self.assertTrue(isobit.is_enabled())
        isobit.disable()
        self.assertFalse(isobit.is_enabled())
        self.assert_refuses("without isobit.enable()", isobit.disable)

    def test_off_after_an_error(self):
        with self.assertRaises(KeyError), isobit.enabled():
            raise KeyError
        self.assertFalse(isobit.is_enabled())

    def test_decorates(self):
        self.assertTrue(isobit.enabled()(isobit.is_enabled)())

    def test_unknown_isa(self):
        with self.assertRaisesRegex(ValueError, "unknown isa 'sse': one of auto, reference"):
            isobit.enable(isa="sse")
        self.assertFalse(isobit.is_enabled())

    def test_isa_is_chosen_by_the_outermost(self):
        with isobit.enabled(isa="reference"):
            with isobit.enabled():
                self.assertEqual(isobit.isa(), "reference")
            self.assert_refuses("on with isa 'reference'", lambda: isobit.enable(isa="avx2"))
            isobit.enable(isa="reference")
            isobit.disable()

    def test_holds_in_other_threads(self):
        seen = []

        def work():
            try:
                torch.special.bessel_j0(torch.ones(3))
            except RuntimeError as error:
                seen.append(str(error))
            seen.append(train(1))

        with isobit.enabled():
            expected = train(1)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        self.assertIn("aten::special_bessel_j0 is not certified", seen[0])
        self.assertEqual(seen[1], expected)

    def test_enabled_by_another_thread(self):
        thread = threading.Thread(target=isobit.enable)
        thread.start()
        thread.join()
        self.assertTrue(isobit.is_enabled())
        self.assert_refuses("not certified", lambda: torch.special.bessel_j0(torch.ones(3)))
        isobit.disable()

    def test_same_bits_whatever_isa_and_threads(self):
        before = torch.get_num_threads()
        found = set()
        try:
            for isa in ("auto", "reference"):
                for threads in (1, 3):
                    torch.set_num_threads(threads)
                    with isobit.enabled(isa):
                        found.add(train())
        finally:
            torch.set_num_threads(before)
        self.assertEqual(len(found), 1, found)

    def test_torchs_thread_count_governs(self):
        program = """
import os, torch, isobit
torch.set_num_threads({})
isobit.enable()
before = len(os.listdir('/proc/self/task'))
x = torch.ones(400, 400)  # not filled by threads of PyTorch's own
x @ x
print(len(os.listdir('/proc/self/task')) - before)
"""
        for threads in (1, 2, 5):
            self.assertEqual(int(run_python(program.format(threads))), threads - 1)

    def test_seed(self):
        import random

        import numpy

        isobit.seed(5)
        first = (random.random(), numpy.random.rand(), torch.rand(1).item())
        isobit.seed(5)
        self.assertEqual((random.random(), numpy.random.rand(), torch.rand(1).item()), first)


if __name__ == "__main__":
    unittest.main()
