"""Arithmetic on Python's floats in optimizers, schedules and initial weights is the contract's, not the C library's."""

import ast
import copy
import fractions
import json
import math
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import unittest

import torch
from cases import Case
from torch import nn
from torch.optim import lr_scheduler

import isobit
from isobit import math as our_math
from isobit._switching import _host_scalars

# A C library that errs by 1e-7 in what libraries may differ in; sqrt is IEEE's.
WRONG = """
#define _GNU_SOURCE
#include <dlfcn.h>
#define ONE(name) double name(double x) { \\
  double (*right)(double) = (double (*)(double))dlsym(RTLD_NEXT, #name); return right(x) * (1 + 1e-7); }
ONE(exp) ONE(exp2) ONE(expm1) ONE(log) ONE(log2) ONE(log10) ONE(log1p) ONE(sin) ONE(cos) ONE(tan)
ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(erf) ONE(erfc)
double pow(double x, double y) {
  double (*right)(double, double) = (double (*)(double, double))dlsym(RTLD_NEXT, "pow"); return right(x, y) * (1 + 1e-7); }
"""

# {name: fingerprint of the weights, the learning rates} of all trainings, under the switch or not.
TRAININGS = """
import functools, json, math, sys
import torch, isobit
from torch import nn, optim
from torch.optim import lr_scheduler as S, swa_utils
torch.set_num_threads(1)  # threads that wait for each other take long on a busy machine

def made(optimizer, scheduler=None, steps=12):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
    nn.init.trunc_normal_(model[0].weight, std=0.4, a=-0.5, b=0.7)
    nn.init.xavier_uniform_(model[2].weight, gain=nn.init.calculate_gain("leaky_relu", 0.3))
    chosen = optimizer(model.parameters()) if optimizer else optim.SGD(model.parameters(), lr=0.07, momentum=0.9)
    schedule = scheduler(chosen) if scheduler else None
    x, y, rates = torch.randn(20, 6), torch.randn(20, 3), []
    def closure():
        chosen.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss
    for _ in range(steps):
        chosen.step(closure)
        if schedule:
            schedule.step()
        rates.append(float(chosen.param_groups[0]["lr"]).hex())
    return [isobit.fingerprint(model), rates]

def forms(optimizer, **options):
    return {f"{optimizer.__name__}, foreach={form}": functools.partial(made, lambda p: optimizer(p, foreach=form, **options))
            for form in (False, True)}

P = functools.partial
CASES = {
    **forms(optim.Adam), **forms(optim.AdamW, amsgrad=True), **forms(optim.NAdam), **forms(optim.RAdam, betas=(0.5, 0.6)),
    **forms(optim.Adamax), **forms(optim.ASGD, lambd=0.01, t0=3), **forms(optim.Adafactor, lr=0.1), **forms(optim.Rprop),
    **forms(optim.RMSprop), **forms(optim.Adagrad, lr_decay=0.1), **forms(optim.Adadelta),
    "Adam, fused": P(made, P(optim.Adam, fused=True)), "LBFGS": P(made, P(optim.LBFGS, line_search_fn="strong_wolfe"), steps=3),
    "OneCycleLR": P(made, None, P(S.OneCycleLR, max_lr=0.2, total_steps=13)),
    "CosineAnnealingLR": P(made, None, P(S.CosineAnnealingLR, T_max=7, eta_min=0.001)),
    "CosineAnnealingWarmRestarts": P(made, None, P(S.CosineAnnealingWarmRestarts, T_0=3, T_mult=2)),
    "ExponentialLR": P(made, None, P(S.ExponentialLR, gamma=0.93)),
    "PolynomialLR": P(made, None, P(S.PolynomialLR, total_iters=13, power=0.9)),
    "MultiStepLR": P(made, None, P(S.MultiStepLR, milestones=[2, 2, 2, 5], gamma=0.93)),
    "CyclicLR, exp_range": P(made, None, P(S.CyclicLR, base_lr=0.01, max_lr=0.2, step_size_up=3, mode="exp_range", gamma=0.97)),
    "CyclicLR, triangular2": P(made, None, P(S.CyclicLR, base_lr=0.01, max_lr=0.2, step_size_up=3, mode="triangular2")),
    "SWALR": P(made, None, P(swa_utils.SWALR, swa_lr=0.001, anneal_epochs=9)),
    "weights": P(made, None, steps=1),
}
stock = {name: case() for name, case in CASES.items()}
isobit.enable()
ours = {name: case() for name, case in CASES.items()}
print(json.dumps({"stock": stock, "ours": ours, "pow": [(0.999**s).hex() for s in range(2, 50)], "cos": math.cos(1.0).hex(),
                  "sqrt": math.sqrt(2.0).hex()}))
"""


class OtherLibraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            source, library = pathlib.Path(folder, "wrong.c"), pathlib.Path(folder, "wrong.so")
            source.write_text(WRONG)
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", str(source), "-o", str(library), "-ldl"], check=True)
            cls.right, cls.wrong = (
                json.loads(subprocess.run([sys.executable, "-W", "ignore", "-c", TRAININGS], env={**os.environ, **preload}, check=True,
                                          capture_output=True, text=True).stdout)
                for preload in ({}, {"LD_PRELOAD": str(library)}))

    def test_the_library_acts(self):
        for name in ("pow", "cos"):
            self.assertNotEqual(self.right[name], self.wrong[name])
        self.assertEqual(self.right["sqrt"], self.wrong["sqrt"])
        changed = [name for name, case in self.right["stock"].items() if case != self.wrong["stock"][name]]
        self.assertGreaterEqual(len(changed), 14, changed)  # trainings that stock ends elsewhere: the test sees it

    def test_trainings_end_alike(self):
        self.assertGreaterEqual(len(self.right["ours"]), 28)
        for name, case in self.right["ours"].items():
            with self.subTest(name):
                self.assertEqual(case, self.wrong["ours"][name])


class Functions(Case):
    """isobit.math and the powers against Python's own, which errs by less than a unit of the last place or two."""

    def test_close_to_pythons(self):
        for name in ("atan", "cbrt", "cos", "cosh", "erf", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh"):
            stock = getattr(math, name, lambda x: 2.0**x)  # exp2 and cbrt are of Python 3.11
            for x in (0.3, 1, 2.5, 17.25, 1e-9, True):
                self.assertLessEqual(abs(getattr(our_math, name)(x) - stock(x)), 2 * math.ulp(stock(x)), (name, x))
        self.assertEqual(our_math.log(8, 2), 3.0)
        self.assertEqual(math.copysign(1, our_math.sin(-0.0)), -1)
        self.assertEqual(math.copysign(1, our_math.sin(0.0)), 1)

    def test_angles_and_distances(self):
        for x in (0.0, -0.0, 0.3, -0.999, 1, -1, 1e-9):
            for name in ("acos", "asin"):
                self.assertLessEqual(abs(getattr(our_math, name)(x) - getattr(math, name)(x)), 2 * math.ulp(1.0), (name, x))
        for y, x in ((1, 2), (-1, 2.5), (0.0, -0.0), (-0.0, -1), (math.inf, -math.inf), (1e-320, 3.0), (5, 0)):
            wanted = math.atan2(y, x)
            self.assertLessEqual(abs(our_math.atan2(y, x) - wanted), 2 * math.ulp(wanted))
            self.assertEqual(math.copysign(1, our_math.atan2(y, x)), math.copysign(1, wanted))
        for numbers in ((), (3, 4), (0.1, 0.2, 0.3), (1e200, 1e-200), (5e-324, 5e-324), (-0.0,), (1e308, 1e308), (math.nan, math.inf), (2.5,)):
            self.same_outcome(math.hypot, our_math.hypot, *numbers)
        self.same_outcome(math.acos, our_math.acos, 1.5)
        self.same_outcome(math.asin, our_math.asin, math.inf)
        # Next to the middle of two floats: the exact root decides.
        from fractions import Fraction
        for a, b in ((0.1 * i, 0.7 / (i + 1)) for i in range(1, 200)):
            found, exact = our_math.hypot(a, b), Fraction(a) ** 2 + Fraction(b) ** 2
            half = Fraction(math.ulp(found)) / 2
            self.assertTrue((Fraction(found) - half) ** 2 <= exact <= (Fraction(found) + half) ** 2)

    def test_powers_are_rounded_once(self):
        for step in (*range(1, 60), *range(61, 2000, 97)):
            exact = fractions.Fraction(0.999) ** step
            self.assertEqual(our_math.pow(0.999, step), float(exact))
            self.assertEqual(_host_scalars.power(0.999, step), float(exact))

    def test_special_values_and_exceptions_are_pythons(self):
        values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3, 0, -3, True, False, math.inf, -math.inf, math.nan, 1e308, 1e-320, 2**70, 10**400]
        for base in values:
            for exponent in values:
                if isinstance(exponent, int) and exponent > 1000 and isinstance(base, int):
                    continue  # an integer of millions of digits
                with self.subTest(base=base, exponent=exponent):
                    self.same_outcome(lambda a, b: a**b, _host_scalars.power, base, exponent)
                    if not isinstance(exponent, int) or abs(exponent) < 2**80:
                        self.same_outcome(math.pow, our_math.pow, base, exponent)
        for name in ("exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "cos", "sin", "tan", "cosh", "sinh", "tanh", "erf"):
            if hasattr(math, name):
                for x in (0.0, -0.0, -1.0, -2.0, 1e4, -1e4, math.inf, -math.inf, math.nan, "1", None):
                    with self.subTest(name, x=x):
                        self.same_outcome(getattr(math, name), getattr(our_math, name), x)

    def same_outcome(self, stock, ours, *arguments):
        def outcome(function):
            try:
                value = function(*arguments)
            except Exception as error:
                return type(error)
            return type(value), value if value != value or isinstance(value, int) else float(value).hex() if not isinstance(value, complex) else "complex"

        expected, got = outcome(stock), outcome(ours)
        if expected == (complex, "complex"):
            expected = isobit.RefusedError
        if isinstance(expected, tuple) and expected[1] != expected[1]:
            self.assertNotEqual(got[1], got[1])
        elif not (isinstance(expected, tuple) and isinstance(expected[1], str) and isinstance(got, tuple) and got[0] is float
                  and abs(float.fromhex(expected[1]) - float.fromhex(got[1])) <= 2 * math.ulp(float.fromhex(got[1]))):
            self.assertEqual(got, expected)

    def test_what_is_not_ours_is_refused(self):
        with self.assertRaisesRegex(isobit.RefusedError, "math.lgamma"):
            our_math.lgamma(0.5)
        with self.assertRaises(AttributeError):
            our_math.nothing  # noqa: B018
        self.assertEqual({name for name in our_math.__all__ if not hasattr(math, name)} - {"exp2"}, set())

    def test_numpys_numbers(self):
        import numpy

        self.assertEqual(_host_scalars.power(numpy.float64(0.999), 7), our_math.pow(0.999, 7))
        self.assertIs(type(_host_scalars.power(numpy.float64(0.999), 7)), numpy.float64)
        self.assertEqual(_host_scalars.power(numpy.int64(3), 4), 81)
        with self.assertRaises(isobit.RefusedError):
            _host_scalars.power(numpy.float32(0.9), 2)


def code_of(function):
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function.__code__


class Replacement(Case):
    def test_code_comes_and_goes(self):
        module, function = lr_scheduler, lr_scheduler.PolynomialLR.get_lr
        stock = code_of(function)
        with isobit.enabled():
            ours = code_of(function)
            self.assertNotEqual(ours, stock)
            self.assertIs(module.math, our_math)
            self.assertIs(lr_scheduler.PolynomialLR.get_lr, function)  # the object is the same
            with isobit.enabled(), isobit.disabled():
                self.assertEqual(code_of(function), stock)
                self.assertIs(module.math, math)
            self.assertEqual(code_of(function), ours)
        self.assertEqual(code_of(function), stock)
        self.assertIs(module.math, math)

    def test_every_power_of_the_lists_is_ours(self):
        """Each ** and each function of math in the sources, also of a later PyTorch, lies in code that was replaced."""
        with isobit.enabled():
            for name, plan in _host_scalars._plans.items():
                if name in _host_scalars._WITHOUT_POWERS:
                    continue
                tree = ast.parse(_host_scalars._source(plan.module))
                inner = {id(part) for _, node in _host_scalars._outermost(tree) for part in ast.walk(node)}
                replaced = {function.__code__.co_firstlineno for function, _, _ in plan.codes}
                for _, node in _host_scalars._outermost(tree):
                    if _host_scalars._has_powers(node):
                        self.assertIn(_host_scalars._name_and_line(node)[1], replaced, (name, node.lineno))
                for part in ast.walk(tree):
                    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow):
                        self.assertIn(id(part), inner, (name, part.lineno))  # none is computed by the import
                    if isinstance(part, (ast.Import, ast.ImportFrom)) and id(part) in inner:
                        names = [part.module] if isinstance(part, ast.ImportFrom) else [alias.name for alias in part.names]
                        self.assertNotIn("math", names, (name, part.lineno))
                for function, _, _ in plan.codes:
                    self.assertIn("__isobit_power", str(list(names_in(function.__code__))), function)

    def test_scheduler_is_copied_pickled_and_saved(self):
        with isobit.enabled():
            model = nn.Linear(2, 2)
            optimizer = torch.optim.NAdam(model.parameters())
            scheduler = lr_scheduler.PolynomialLR(optimizer, 10, power=0.9)
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            scheduler.step()
            for other in (copy.deepcopy(scheduler), pickle.loads(pickle.dumps(scheduler))):
                scheduler_rate = [group["lr"] for group in other.optimizer.param_groups]
                self.assertEqual(scheduler_rate, [group["lr"] for group in optimizer.param_groups])
            state = scheduler.state_dict()
            self.assertIs(type(state["_last_lr"][0]), float)
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "saved.pt")
                torch.save({"scheduler": state, "optimizer": optimizer.state_dict()}, path)
                loaded = torch.load(path, weights_only=True)
            self.assertEqual(loaded["scheduler"]["_last_lr"], state["_last_lr"])
        lr_scheduler.PolynomialLR(torch.optim.SGD(model.parameters(), lr=0.1), 10).step()  # stock's again

    def test_tracebacks_have_the_lines_of_the_source(self):
        places = []
        for on in (False, True):
            with isobit.enabled() if on else isobit.disabled():
                try:
                    nn.init.calculate_gain("leaky_relu", 1e200)
                except OverflowError:
                    places.append(traceback.extract_tb(sys.exc_info()[2])[1])
        stock, ours = places
        self.assertEqual((ours.filename, ours.lineno, ours.name, ours.line), (stock.filename, stock.lineno, stock.name, stock.line))

    def test_tensors_go_to_the_dispatcher(self):
        with isobit.enabled():
            x = torch.tensor([2.0, 3.0], requires_grad=True)
            self.assertEqual(_host_scalars.power(x, 2).tolist(), [4.0, 9.0])
            self.assertEqual(_host_scalars.power(2.0, x).tolist(), [4.0, 8.0])
            y = torch.tensor([2.0])
            self.assertIs(_host_scalars.power_in_place(y, 3), y)
            self.assertEqual(y.tolist(), [8.0])

    def test_threads(self):
        errors = []

        def work(seed):
            try:
                rates = []
                for _ in range(20):
                    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1 * seed)
                    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, 50)
                    for _ in range(10):
                        optimizer.step()
                        scheduler.step()
                    rates.append(optimizer.param_groups[0]["lr"])
                assert len(set(rates)) == 1, rates
            except Exception as error:
                errors.append(error)

        with isobit.enabled():
            threads = [threading.Thread(target=work, args=(seed + 1,)) for seed in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(errors, [])

    def test_functions_that_were_replaced_by_others(self):
        """A step that a library wrapped is found behind the wrapper; code that is not the source's stops enable()."""
        program = """
import torch, isobit
from torch.optim import lr_scheduler
stock = lr_scheduler.PolynomialLR.get_lr
lr_scheduler.PolynomialLR.get_lr = (lambda held: lambda self: held[0](self))([stock])
before = stock.__code__
isobit.enable()
function = stock
while hasattr(function, "__wrapped__"): function = function.__wrapped__
assert any("__isobit_power" in name for name in function.__code__.co_names), function.__code__.co_names
isobit.disable()
def other(x): return x + 1
torch.nn.init.calculate_gain.__code__ = other.__code__.replace(
    co_name="calculate_gain", co_firstlineno=torch.nn.init.calculate_gain.__code__.co_firstlineno)
import isobit._switching._host_scalars as h
h._plans.clear()
try:
    isobit.enable()
except isobit.RefusedError as error:
    assert "calculate_gain" in str(error) and not isobit.is_enabled(), error
else:
    raise AssertionError
"""
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_modules_that_are_imported_later(self):
        """Libraries' schedules, before and after enable(); what is computed while they are imported is not ours."""
        source = ("import math\nfrom math import exp\ndef rate(s, p=0.9):\n"
                  "    s **= 1.0\n    return (0.999 ** s, math.cos(s), exp(s / 9), pow(s, p), 7 ** 2)\n")
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "timm", "scheduler")
            package.mkdir(parents=True)
            for place in (package.parent, package):
                (place / "__init__.py").touch()
            for name in ("early", "late"):
                (package / f"{name}.py").write_text(source)
            sys.path.insert(0, folder)
            try:
                import timm.scheduler.early as early
                with isobit.enabled():
                    import timm.scheduler.late as late
                    expected = (our_math.pow(0.999, 7), our_math.cos(7), our_math.exp(7 / 9), our_math.pow(7, 0.9), 49)
                    for module in (early, late):
                        self.assertEqual(module.rate(7), expected)
                        self.assertIs(module.math, our_math)
                for module in (early, late):
                    self.assertIs(module.math, math)
                    self.assertIs(module.exp, math.exp)
            finally:
                sys.path.remove(folder)
                for name in [name for name in sys.modules if name.partition(".")[0] == "timm"]:
                    del sys.modules[name]


def names_in(code):
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from names_in(part)


if __name__ == "__main__":
    unittest.main()
