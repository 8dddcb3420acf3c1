"""Refusals say where: names of modules, steps; torch.compile is refused."""

import unittest

import torch
from cases import Case, run_python, small_model

import isobit


class Odd(torch.nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x)


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

    def test_no_hooks_stay(self):
        from torch.nn.modules import module

        with isobit.enabled():
            self.assertTrue(module._global_forward_pre_hooks)
        self.assertFalse(module._global_forward_pre_hooks)
        self.assertFalse(module._global_forward_hooks)

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

    def test_autocast_is_refused(self):
        x = torch.ones(2, 20)
        with isobit.enabled():
            context = torch.autocast("cpu", dtype=torch.bfloat16)
            message = self.assert_refuses("torch.autocast is not certified", context.__enter__)
            self.assertIn("train in float32", message)
            with torch.autocast("cpu", enabled=False):
                small_model()(x).sum().backward()
            decorated = torch.autocast("cpu", dtype=torch.bfloat16)(lambda: small_model()(x))
            self.assert_refuses("torch.autocast is not certified", decorated)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(small_model()(x).dtype, torch.bfloat16)
            self.assert_refuses("within torch.autocast", isobit.enable)
        self.assertFalse(isobit.is_enabled())


if __name__ == "__main__":
    unittest.main()
