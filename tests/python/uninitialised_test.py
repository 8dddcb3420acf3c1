"""Memory that a program asks for and does not write is NaN under the switch: what reads it is found, and repeats."""

import unittest

import torch
from torch.overrides import enable_reentrant_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

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

    def test_asked_for_while_a_gradient_is_kept(self):
        """PyTorch's copy of a gradient is not filled first; what the program asks for there, in hooks and modes, is."""
        seen = []

        def look(*given):
            leave_dirty_memory()
            like = given[-1]
            while isinstance(like, tuple):
                like = like[0]
            seen.extend([like.new_empty_strided((8, 8), (1, 8)), torch.empty(64), torch.empty_like(like)])

        class Looks(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                result = function(*args, **(kwargs or {}))
                if function is torch.ops.aten.new_empty_strided.default:
                    seen.append(result.clone())
                return result

        class Again(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                if function is torch.ops.aten.new_empty_strided.default:
                    leave_dirty_memory()
                    with enable_reentrant_dispatch():
                        made = args[0].new_empty_strided((512, 512), (1, 512))
                    seen.append(made.clone())
                return function(*args, **(kwargs or {}))

        class Subclass(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)
                made.inner = inner
                return made

            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                args, kwargs = torch.utils._pytree.tree_map(lambda t: t.inner if isinstance(t, cls) else t, (args, kwargs or {}))
                result = function(*args, **kwargs)
                if function is torch.ops.aten.new_empty_strided.default:
                    seen.append(result.clone())
                return Subclass(result) if isinstance(result, torch.Tensor) else result

        def backward_of_a_subclass(x):
            y = Subclass(x.detach()).requires_grad_()
            y.sum().backward()
            x.grad = y.grad.inner

        def node(x):
            return x.view_as(x).grad_fn.next_functions[0][0]

        def under(mode):
            def run(x):
                with mode():
                    x.sum().backward()
            return run

        def with_hook(register):
            def run(x):
                held = register(x)
                x.sum().backward()
                return held
            return run

        ways = {"after accumulation": with_hook(lambda x: x.register_post_accumulate_grad_hook(look)),
                "of the tensor": with_hook(lambda x: x.register_hook(look)),
                "of the node": with_hook(lambda x: (n := node(x), n.register_hook(look))),
                "before the node": with_hook(lambda x: (n := node(x), n.register_prehook(look))),
                "a mode": under(Looks), "a mode that calls again": under(Again), "a subclass": backward_of_a_subclass}
        for name, run in ways.items():
            with self.subTest(name), isobit.enabled():
                seen.clear()
                leave_dirty_memory()
                x = torch.ones(512, 513, requires_grad=True)  # its gradient is one number, stretched
                run(x)
                self.assertTrue(seen)
                for made in seen:
                    self.assertTrue(made.isnan().all(), made)
                self.assertTrue((x.grad == 1).all())

    def test_stock_is_left_alone(self):
        with isobit.enabled():
            pass
        leave_dirty_memory()
        self.assertFalse(torch.empty(64).isnan().all())


if __name__ == "__main__":
    unittest.main()
