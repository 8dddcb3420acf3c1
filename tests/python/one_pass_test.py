"""Optimizers' steps in one pass (isobit/_switching/_optimizers.py): the bits of torch's own sequence, or that sequence itself."""

import unittest
from unittest import mock

import torch
from cases import Case
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import isobit
from isobit._base import _library

KINDS = {"adam": (torch.optim.Adam, "adam_in_one_pass"), "adamw": (torch.optim.AdamW, "adam_in_one_pass"),
         "sgd": (torch.optim.SGD, "sgd_in_one_pass")}
ADAM, ADAMW = ("adam", {"lr": 3e-3, "weight_decay": 0.1}), ("adamw", {"lr": 3e-3, "betas": (0.8, 0.99), "eps": 1e-6})
SGD = ("sgd", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True})


class Watching(TorchDispatchMode):
    """Shows every operator; the sequence runs."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.seen.append(str(function))
        return function(*arguments, **(keywords or {}))


def values(*shape, hostile=True):
    value = torch.randn(shape)
    if hostile and value.numel() >= 8:
        # with -1e-45 as the least of binary32: products and quotients that leave its range on both sides
        value.view(-1)[:8] = torch.tensor([0.0, -0.0, 1e-45, -1e-40, 3e38, -3e38, float("inf"), float("nan")])
    return value


def dense(value):
    """The same, transposed in memory."""
    return value.t().contiguous().t()


class OnePass(Case):
    def setUp(self):
        super().setUp()
        isobit.enable()
        torch.manual_seed(3)

    def steps(self, kind, settings, parameters, gradients, watched, before=None, count=4):
        """The optimizer's bits after some steps, and how often the one pass was taken."""
        make, name = KINDS[kind]
        taken, function = [], getattr(_library, name)
        parameters = [parameter.detach().clone(memory_format=torch.preserve_format).requires_grad_() for parameter in parameters]
        optimizer = make(parameters, **settings)

        def spy(*arguments):
            taken.append(function(*arguments))
            return taken[-1]

        with mock.patch.object(_library, name, spy):
            for step in range(count):
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.grad = None if gradient is None else gradient.mul(2.0**step)
                if before is not None:
                    before(optimizer, parameters, step)
                if watched:
                    with Watching():
                        optimizer.step()
                else:
                    optimizer.step()
        states = [value for parameter in parameters for value in optimizer.state[parameter].values()
                  if isinstance(value, torch.Tensor)]
        bits = [isobit.fingerprint(value.detach().view(torch.uint8) if value.dtype is torch.float64 else value.detach())
                for value in [*parameters, *states]]
        return bits, taken.count(True)

    def assert_same_as_the_sequence(self, kind, settings, parameters, gradients, passes, **more):
        found, taken = self.steps(kind, settings, parameters, gradients, False, **more)
        expected, none = self.steps(kind, settings, parameters, gradients, True, **more)
        self.assertEqual(none, 0)
        self.assertEqual(taken, passes)
        self.assertEqual(found, expected)

    def test_the_bits_of_the_sequence(self):
        shapes = [(3, 5), (17,), (), (0, 4), (33, 1021), (8,)]
        parameters = [values(*shape) for shape in shapes] + [dense(values(9, 30))]
        gradients = [values(*shape) for shape in shapes] + [dense(values(9, 30))]
        for kind, settings in (ADAM, ADAMW, SGD, ("sgd", {"lr": 0.1}), ("sgd", {"lr": 1.0, "momentum": 0.5, "dampening": 0.3}),
                               ("adam", {"lr": 0.0, "betas": (0.0, 0.0), "eps": 0.0}), ("adamw", {"lr": 1, "weight_decay": 1})):
            for foreach in (False, True, None):
                with self.subTest(kind, foreach=foreach, **settings):
                    first = kind == "sgd" and settings.get("momentum", 0) != 0  # makes the buffers
                    self.assert_same_as_the_sequence(kind, {**settings, "foreach": foreach}, parameters, gradients, 4 - first)

    def test_with_parameters_that_have_no_gradient(self):
        parameters = [values(3, 5), values(17), values(8)]
        for kind, settings in (ADAM, ADAMW, ("sgd", {"lr": 0.1, "weight_decay": 0.1})):
            self.assert_same_as_the_sequence(kind, settings, parameters, [values(3, 5), None, values(8)], 4)

    def test_a_few_parameters_of_plain_sgd_are_not_prepared_for_one_pass(self):
        parameters = [values(3, 5), values(17), values(8)]
        self.assert_same_as_the_sequence("sgd", {"lr": 0.1}, parameters, [values(3, 5), None, values(8)], 0)

    def test_learning_rates_and_steps_that_change(self):
        def before(optimizer, parameters, step):
            optimizer.param_groups[0]["lr"] = 0.1 * 0.3**step
            if step == 2:
                for state in optimizer.state.values():
                    state["step"].fill_(16777215.0)  # the next has no successor in binary32

        self.assert_same_as_the_sequence(*ADAM, [values(40), values(3, 3)], [values(40), values(3, 3)], 4, before=before)

    def test_what_leaves_binary32_takes_the_sequence(self):
        for kind, settings in (("adam", {"lr": 1e20}), ("adamw", {"eps": 1e16}), ("adamw", {"weight_decay": 1e16}),
                               ("sgd", {"lr": 1e300}), ("sgd", {"lr": 0.1, "weight_decay": float("inf")})):
            self.assert_same_as_the_sequence(kind, settings, [values(40)], [values(40)], 0)

    def test_settings_of_other_formulas_take_the_sequence(self):
        for kind, settings in (("adam", {"amsgrad": True}), ("adam", {"maximize": True}), ("sgd", {"maximize": True}),
                               ("adam", {"lr": torch.tensor(0.01)}), ("sgd", {"lr": torch.tensor(0.01)})):
            settings = {"lr": 0.01, **settings}
            self.assert_same_as_the_sequence(kind, settings, [values(40)], [values(40)], 0)

    def test_steps_that_are_no_counts_take_the_sequence(self):
        def before(optimizer, parameters, step):
            for state in optimizer.state.values():
                state["step"].fill_(step + 0.5)

        self.assert_same_as_the_sequence(*ADAM, [values(40)], [values(40)], 1, before=before)  # the first has no state yet

    def test_memory_of_two_takes_the_sequence(self):
        def aliased(optimizer, parameters, step):
            if step > 0:
                parameters[0].grad = optimizer.state[parameters[0]]["exp_avg"]
            else:
                parameters[0].grad = parameters[0].data

        self.assert_same_as_the_sequence(*ADAMW, [values(40)], [values(40)], 0, before=aliased)

        def shifted(optimizer, parameters, step):  # all but one element of the parameter's
            parameters[0].grad = parameters[0].data.view(-1).as_strided((40,), (1,), 1)

        whole = values(41)
        optimizer, twin = (torch.optim.SGD([nn.Parameter(part)], lr=0.5) for part in (whole.clone()[:40], whole.clone()[:40]))
        for each, watched in ((optimizer, False), (twin, True)):
            shifted(each, each.param_groups[0]["params"], 0)
            with Watching() if watched else mock.MagicMock():
                each.step()
        self.assertEqual(*(isobit.fingerprint(each.param_groups[0]["params"][0].detach()) for each in (optimizer, twin)))

    def test_a_step_that_two_parameters_share(self):
        def shared(optimizer, parameters, step):
            if step > 0:
                optimizer.state[parameters[1]]["step"] = optimizer.state[parameters[0]]["step"]

        self.assert_same_as_the_sequence(*ADAM, [values(40), values(3)], [values(40), values(3)], 4, before=shared)

    def test_parameters_that_overlap(self):
        for foreach in (False, True):
            found = []
            for watched in (False, True):
                memory = torch.arange(60.0)
                parts = [nn.Parameter(torch.empty(0)) for _ in range(2)]
                parts[0].data, parts[1].data = memory[:40], memory[20:]  # the second begins within the first
                optimizer = torch.optim.AdamW(parts, lr=0.1, foreach=foreach)
                for _ in range(3):
                    for part in parts:
                        part.grad = torch.full((40,), 0.5)
                    with Watching() if watched else mock.MagicMock():
                        optimizer.step()
                found.append(isobit.fingerprint(memory))
            self.assertEqual(*found, f"foreach={foreach}")

    def test_memory_that_the_foreach_form_shares(self):
        """It does each operator over all parameters: what one writes another may read."""
        def shared_step(optimizer, parameters, step):
            if step > 0:
                optimizer.state[parameters[1]]["step"] = optimizer.state[parameters[0]]["step"]

        def gradient_of_another(optimizer, parameters, step):
            parameters[1].grad = parameters[0].data

        parameters, gradients = [values(40), values(40)], [values(40), values(40)]
        foreach = {"foreach": True}
        self.assert_same_as_the_sequence("adam", foreach, parameters, gradients, 1, before=shared_step)
        for kind, settings in (("sgd", {"lr": 0.1, **foreach}), ("adamw", foreach)):
            self.assert_same_as_the_sequence(kind, settings, parameters, gradients, 0, before=gradient_of_another)

    def test_arguments_as_torch_takes_them(self):
        from torch.optim.adam import _single_tensor_adam

        options = {"amsgrad": False, "has_complex": False, "beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.0, "eps": 1e-8,
                   "maximize": False, "capturable": False, "differentiable": False, "decoupled_weight_decay": False}
        lists = [[torch.ones(3)] for _ in range(4)]
        step = torch.tensor(0.0)
        _single_tensor_adam(*lists, [], [step], None, None, **options)
        self.assertEqual(step, 1.0)
        with self.assertRaisesRegex(AssertionError, "grad_scale"):
            _single_tensor_adam(*lists, [], [step], torch.ones(1), None, **options)
        parameter = nn.Parameter(torch.ones(3))
        parameter.grad = torch.ones(3)
        with self.assertRaises((RuntimeError, OverflowError)):  # torch's own error
            torch.optim.SGD([parameter], lr=10**400).step()

    def test_strides_that_differ_take_the_sequence(self):
        self.assert_same_as_the_sequence("sgd", {"lr": 0.1}, [values(9, 30)], [dense(values(9, 30))], 0)

    def test_other_types_take_the_sequence(self):
        self.assert_same_as_the_sequence(*ADAM, [values(40), values(3).double()], [values(40), values(3).double()], 0)


class Shown(Case):
    """Who looks at a step sees what he would see without the one pass."""

    def setUp(self):
        super().setUp()
        isobit.enable()
        self.parameter = nn.Parameter(torch.ones(5))
        self.parameter.grad = torch.ones(5)

    def test_modes_and_profilers_see_the_sequence(self):
        optimizer = torch.optim.Adam([self.parameter])
        with Watching() as watching:
            optimizer.step()
        self.assertIn("aten.lerp_.Scalar", watching.seen)
        with torch.profiler.profile() as profile:
            optimizer.step()
        self.assertIn("aten::lerp_", [event.key for event in profile.key_averages()])
        calls = []

        class Calls(TorchFunctionMode):
            def __torch_function__(self, function, types, arguments=(), keywords=None):
                calls.append(getattr(function, "__name__", ""))
                return function(*arguments, **(keywords or {}))

        with Calls():
            optimizer.step()
        self.assertIn("addcdiv_", calls)

    def test_classes_of_tensors_see_it(self):
        calls = []

        class Seeing(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, arguments=(), keywords=None):
                calls.append(getattr(function, "__name__", ""))
                return super().__torch_function__(function, types, arguments, keywords)

        self.parameter.grad = torch.ones(5).as_subclass(Seeing)
        torch.optim.SGD([self.parameter], lr=0.1).step()
        self.assertTrue(calls)

    def test_versions_move_on(self):
        """A backward through weights that a step has changed is torch's error."""
        x = (self.parameter * self.parameter).sum()
        for make in (torch.optim.Adam, torch.optim.SGD):
            before = self.parameter._version
            make([self.parameter], lr=0.1).step()
            self.assertGreater(self.parameter._version, before)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            x.backward()

    def test_gradients_on_a_leaf_are_torchs_error(self):
        from torch.optim.sgd import sgd

        with self.assertRaisesRegex(RuntimeError, "leaf Variable"):
            sgd([self.parameter], [self.parameter.grad], [None], has_sparse_grad=False, foreach=False, weight_decay=0, momentum=0,
                lr=0.1, dampening=0, nesterov=False, maximize=False)

    def test_after_the_switch_the_functions_are_torchs(self):
        from torch.optim import adam, sgd

        ours = [adam._single_tensor_adam, adam._multi_tensor_adam, sgd._single_tensor_sgd, sgd._multi_tensor_sgd]
        isobit.disable()
        theirs = [adam._single_tensor_adam, adam._multi_tensor_adam, sgd._single_tensor_sgd, sgd._multi_tensor_sgd]
        self.assertFalse(_library.sgd_in_one_pass(([torch.ones(3)], [torch.ones(3)]), (0.1, 0, 0, 0), False, False))
        isobit.enable()
        self.assertEqual([function.__module__ for function in ours], ["isobit._switching._optimizers"] * 4)
        self.assertEqual([function.__module__ for function in theirs], ["torch.optim.adam"] * 2 + ["torch.optim.sgd"] * 2)


if __name__ == "__main__":
    unittest.main()
