"""Refusals say where: names of modules, steps; torch.compile is refused."""

import functools
import gc
import unittest

import torch
from cases import Case, run_python, small_model

import isobit
from isobit._base import _library
from isobit._switching import _hooks


class Odd(torch.nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)


class Around(torch.nn.Module):
    def __init__(self, name, inner):
        super().__init__()
        setattr(self, name, inner)
        self.inner = [inner]

    def forward(self, x):
        return self.inner[0](x)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.Linear(3, 3), Odd())])
        self.tail = Odd()

    def forward(self, x):
        return self.tail(self.blocks[0](x))


class Place(Case):
    def test_path_of_modules(self):
        with isobit.enabled():
            message = self.assert_refuses("special_bessel_j0", lambda: Net()(torch.ones(2, 3)))
            self.assertIn("in     Net.blocks.0.1 (forward)", message)
            again = self.assert_refuses("special_bessel_j0", lambda: Odd()(torch.ones(3)))
            self.assertIn("in     Odd (forward)", again)
            self.assertNotIn("\n  in     ", self.assert_refuses("special_bessel_j0", lambda: torch.special.bessel_j0(torch.ones(3))))

    def test_backward_names_the_forward_module(self):
        class Logarithm(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x * 1

            @staticmethod
            def backward(context, gradient):
                return torch.special.bessel_j0(gradient)

        class Bad(torch.nn.Module):
            def forward(self, x):
                return Logarithm.apply(x)

        with isobit.enabled():
            model = torch.nn.Sequential(torch.nn.Linear(3, 3), Bad())
            result = model(torch.ones(2, 3)).sum()
            message = self.assert_refuses("special_bessel_j0", result.backward)
        self.assertIn("Sequential.1 (backward of LogarithmBackward)", message)

    def test_steps_are_counted(self):
        with isobit.enabled():
            model = small_model()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(20):
                optimizer.zero_grad()
                model(torch.ones(2, 20)).sum().backward()
                optimizer.step()
            self.assertIn("(step 21, forward)", self.assert_refuses("special_bessel_j0", lambda: Odd()(torch.ones(3))))
        with isobit.enabled():
            self.assertIn("Odd (forward)", self.assert_refuses("special_bessel_j0", lambda: Odd()(torch.ones(3))))

    def test_nothing_stays(self):
        stock = torch.nn.Module._call_impl
        with isobit.enabled():
            self.assertIsNot(torch.nn.Module._call_impl, stock)
        self.assertIs(torch.nn.Module._call_impl, stock)

    def test_anothers_function_around_calls_stays(self):
        calls, stock = [], torch.nn.Module._call_impl

        def before(module, *arguments, **keywords):
            calls.append("before")
            return stock(module, *arguments, **keywords)

        torch.nn.Module._call_impl = before
        try:
            isobit.enable()
            ours = torch.nn.Module._call_impl
            self.assertIn("in     Odd (", self.assert_refuses("special_bessel_j0", lambda: Odd()(torch.ones(3))))

            def within(module, *arguments, **keywords):
                calls.append("within")
                return ours(module, *arguments, **keywords)

            torch.nn.Module._call_impl = within
            isobit.disable()
            self.assertIs(torch.nn.Module._call_impl, within)
            torch.nn.Identity()(torch.ones(1))
            self.assertEqual(calls, ["before", "within", "before"])
            with isobit.enabled():
                self.assertIn("in     Odd (", self.assert_refuses("special_bessel_j0", lambda: Odd()(torch.ones(3))))
        finally:
            torch.nn.Module._call_impl = stock

    def test_dead_modules_are_forgotten(self):
        """Another may get the number: it says its own name then."""
        isobit.enable()
        around = Around("head", Odd())
        self.assert_refuses("special_bessel_j0", functools.partial(around, torch.ones(3)))
        keys = [id(around), id(around.inner[0])]
        self.assertTrue(all(key in _hooks._modules for key in keys))
        del around
        gc.collect()
        self.assertFalse(any(key in _hooks._modules for key in keys))
        self.assertEqual([_library.enter_module(key) for key in keys], [0, 0])

    def test_a_module_under_two_names(self):
        isobit.enable()
        odd = Odd()
        for name in ("head", "tail"):
            around = Around(name, odd)
            for _ in range(2):
                self.assertIn(f"in     Around.{name} (", self.assert_refuses("special_bessel_j0", lambda around=around: around(torch.ones(3))))

    def test_a_call_that_could_not_leave(self):
        """As Ctrl-C just after a call entered, before it could promise to leave."""
        isobit.enable()
        lost = torch.nn.Identity()
        for _ in range(3):
            self.assertGreater(_library.enter_module(id(lost)) or _library.enter_new_module(id(lost), "Lost"), 0)
        around = Around("head", Odd())
        self.assertIn("in     Around.head (", self.assert_refuses("special_bessel_j0", lambda: around(torch.ones(3))))
        self.assertNotIn("in     ", self.assert_refuses("special_bessel_j0", lambda: torch.special.bessel_j0(torch.ones(3))))

    def test_switched_within_a_forward(self):
        class Switching(torch.nn.Module):
            def forward(self, x):
                isobit.enable()
                return self.after(x)

            after = Odd()

        self.assert_refuses("special_bessel_j0", lambda: Switching()(torch.ones(3)))
        isobit.disable()
        with isobit.enabled():
            self.assertIn("in     Odd (", self.assert_refuses("special_bessel_j0", lambda: Odd()(torch.ones(3))))

    def test_compile_is_refused(self):
        with isobit.enabled():
            self.assert_refuses("torch.compile is not certified", lambda: torch.compile(small_model()))
            self.assert_refuses("torch.compile is not certified", small_model().compile)

    def test_what_was_compiled_before_is_refused(self):
        print(run_python("""
import torch, isobit
function = torch.compile(lambda x: x * 2 + 1, backend="eager")
x = torch.ones(3)
expected = function(x)
with isobit.enabled():
    try:
        function(x)
        raise SystemExit("ran")
    except RuntimeError as error:
        assert "torch.compile is not certified" in str(error), error
assert torch.equal(function(x), expected)
"""), end="")

    def test_loss_scaling_is_refused(self):
        loss = torch.ones(1, requires_grad=True)
        with isobit.enabled():
            message = self.assert_refuses("torch.amp.GradScaler is not certified", lambda: torch.amp.GradScaler("cpu").scale(loss))
            self.assertIn("  do     leave it out", message)
            self.assertIs(torch.amp.GradScaler("cpu", enabled=False).scale(loss), loss)
        torch.amp.GradScaler("cpu").scale(loss)

    def test_autocast_is_the_cpus(self):
        """On a GPU it is refused."""
        x = torch.ones(2, 20)
        with isobit.enabled():
            with torch.autocast("cpu", dtype=torch.bfloat16):
                self.assertEqual(small_model()(x).dtype, torch.bfloat16)
            decorated = torch.autocast("cpu", dtype=torch.bfloat16)(lambda: small_model()(x))
            self.assertEqual(decorated().dtype, torch.bfloat16)
            with torch.autocast("cpu", enabled=False):
                small_model()(x).sum().backward()
        with torch.autocast("cpu", dtype=torch.bfloat16), isobit.enabled():
            self.assertEqual(small_model()(x).dtype, torch.bfloat16)
        context = torch.autocast("cpu", dtype=torch.bfloat16)
        context.device = "cuda"  # where there is none, torch makes no such context
        with isobit.enabled():
            message = self.assert_refuses("torch.autocast on a GPU is not certified", context.__enter__)
            self.assertIn("train in float32", message)


if __name__ == "__main__":
    unittest.main()
