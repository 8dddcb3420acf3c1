"""Memory that a program asks for and does not write is NaN under the switch: what reads it is found, and repeats."""

import unittest

import torch

import isobit

DIRTY = 12.5  # in memory that was freed


def leave_dirty_memory():
    """What was freed is given out again: without the rule, the tests read this."""
    for count in (8, 64, 1 << 18):
        held = [torch.full((count,), DIRTY) for _ in range(4)]
        del held


WAYS = {
    "empty": lambda: torch.empty(64),
    "large": lambda: torch.empty(1 << 18),
    "channels last": lambda: torch.empty(2, 3, 4, 4, memory_format=torch.channels_last),
    "empty_like": lambda: torch.empty_like(torch.ones(8, 8)),
    "new_empty": lambda: torch.ones(2).new_empty(64),
    "new_empty_strided": lambda: torch.ones(2).new_empty_strided((8, 8), (1, 8)),
    "empty_strided": lambda: torch.empty_strided((4, 3), (2, 8)),
    "overlapping": lambda: torch.empty_strided((4, 3), (0, 1)),
    "empty_permuted": lambda: torch.empty_permuted((4, 3), (1, 0)),
    "Tensor": lambda: torch.Tensor(64),
    "new": lambda: torch.ones(2).new(64),
    "resize_": lambda: torch.ones(0).resize_(64),
    "resize_as_": lambda: torch.ones(0).resize_as_(torch.ones(64)),
    "out": lambda: torch.empty(64, out=torch.ones(0)),
    "with a gradient": lambda: torch.empty(64, requires_grad=True).detach(),
    "float64": lambda: torch.empty(64, dtype=torch.float64),
    "half": lambda: torch.empty(64, dtype=torch.float16).float(),
    "complex": lambda: torch.view_as_real(torch.empty(64, dtype=torch.complex64))[:, 0],
}


class Uninitialised(unittest.TestCase):
    def test_it_is_nan(self):
        for name, make in WAYS.items():
            with self.subTest(name), isobit.enabled():
                leave_dirty_memory()
                made = make()
                self.assertTrue(made.isnan().all(), made)
                self.assertEqual(made._version, 1 if "resize" in name or name == "out" else 0)  # as stock

    def test_integers_and_bool(self):
        with isobit.enabled():
            leave_dirty_memory()
            for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
                self.assertEqual(set(torch.empty(64, dtype=dtype).tolist()), {torch.iinfo(dtype).max})
            self.assertTrue(torch.empty(64, dtype=torch.bool).all())

    def test_growing_keeps_what_was_there(self):
        with isobit.enabled():
            x = torch.arange(6.0)
            x.resize_(3).resize_(6)
            self.assertEqual(x.tolist(), [0, 1, 2, 3, 4, 5])
            x.resize_(9)
            self.assertEqual(x[:6].tolist(), [0, 1, 2, 3, 4, 5])
            self.assertTrue(x[6:].isnan().all())

    def test_what_writes_its_memory_gives_what_it_gave(self):
        calls = {
            "zeros": lambda: torch.zeros(5, 4), "clone": lambda: torch.ones(5, 4).clone(), "to": lambda: torch.ones(5).double(),
            "ignored by beta": lambda: torch.addmm(torch.empty(3, 3), torch.eye(3), torch.eye(3), beta=0),
            "ignored by beta, batches": lambda: torch.baddbmm(torch.empty(2, 3, 3), torch.ones(2, 3, 3), torch.ones(2, 3, 3), beta=0),
            "initialised": lambda: torch.nn.init.ones_(torch.empty(7)), "out": lambda: torch.add(torch.ones(5), 1, out=torch.empty(5)),
            "nothing": lambda: torch.empty(0, 3), "meta": lambda: torch.empty(3, device="meta").to("meta").shape}
        for name, call in calls.items():
            expected = call()
            with self.subTest(name), isobit.enabled():
                made = call()
                self.assertTrue(torch.equal(made, expected) if isinstance(made, torch.Tensor) else made == expected)

    def test_stock_is_left_alone(self):
        with isobit.enabled():
            pass
        leave_dirty_memory()
        self.assertFalse(torch.empty(64).isnan().all())


if __name__ == "__main__":
    unittest.main()
