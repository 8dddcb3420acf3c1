"""isobit.RefusedError: raised by a refused operator from wherever it is called, and made again where PyTorch wraps it."""

import concurrent.futures
import contextlib
import copy
import gc
import multiprocessing
import pickle
import sys
import threading
import unittest
import warnings
from typing import ClassVar

import torch
from cases import Case, run_python, small_model
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import isobit


def _refused(x):
    return torch.special.bessel_j0(x)


@torch.jit.script
def scripted(x):
    return torch.special.bessel_j0(x)


@torch.jit.script
def scripted_in_a_fork(x):
    return torch.jit.wait(torch.jit.fork(scripted, x))


class ScriptedModule(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x)


class InForward(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return torch.special.bessel_j0(x)


class InBackward(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return x * 2

    @staticmethod
    def backward(_context, gradient):
        return torch.special.bessel_j0(gradient)


def refused_in_cpp():
    """A backward written in C++ refuses to be differentiated."""
    with torch.enable_grad():
        batch = torch.ones(2, 1, 3, requires_grad=True)
        torch.autograd.grad(torch.nn.LSTM(3, 4)(batch)[0].sum(), batch, create_graph=True)


class Nested(torch.autograd.Function):
    """A backward within a backward, so deep that the engine goes on in threads of its own; refused in the innermost."""

    threads: ClassVar = set()

    @staticmethod
    def forward(context, x, depth):
        context.depth = depth
        return x * 2

    @staticmethod
    def backward(context, gradient):
        Nested.threads.add(threading.get_native_id())
        if context.depth == 0:
            refused_in_cpp()
        with torch.enable_grad():
            Nested.apply(torch.ones(1, requires_grad=True), context.depth - 1).sum().backward()
        return gradient, None


class Refusing(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.special.bessel_j0(torch.ones(1))


class PassingMode(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, _types, arguments=(), keywords=None):
        return function(*arguments, **(keywords or {}))


class Subclass(torch.Tensor):
    pass


@torch.library.custom_op("isobit_refusal_test::custom", mutates_args=())
def custom(x: torch.Tensor) -> torch.Tensor:
    return torch.special.bessel_j0(x)


def within(context, function):
    with context:
        return function()


class Refusal(Case):
    def setUp(self):
        super().setUp()
        quiet = warnings.catch_warnings()  # of torch.jit's age, and what the anomaly mode tells
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("ignore")
        isobit.enable()

    def assert_refused(self, operator, function):
        with self.assertRaises(isobit.RefusedError) as caught:
            function()
        self.assertIs(type(caught.exception), isobit.RefusedError)
        self.assertEqual(caught.exception.operator, operator)
        return caught.exception

    def test_from_every_way_of_calling(self):
        x, parameter = torch.ones(4), torch.ones(4, requires_grad=True)
        ways = {
            "function": lambda: torch.special.bessel_j0(x),
            "recorded": lambda: torch.special.bessel_j0(parameter), "packet": lambda: torch.ops.aten.special_bessel_j0(x),
            "overload": lambda: torch.ops.aten.special_bessel_j0.default(x), "trace": lambda: torch.jit.trace(_refused, x),
            "dispatch mode": lambda: within(PassingMode(), lambda: torch.special.bessel_j0(x)),
            "subclass": lambda: torch.special.bessel_j0(x.as_subclass(Subclass)),
            "no_grad": lambda: within(torch.no_grad(), lambda: torch.special.bessel_j0(x)),
            "inference": lambda: within(torch.inference_mode(), lambda: torch.special.bessel_j0(x)),
            "vmap": lambda: torch.vmap(_refused)(torch.ones(3, 3)),
            "func.grad": lambda: torch.func.grad(lambda v: torch.special.bessel_j0(v).sum())(x),
            "jvp": lambda: torch.func.jvp(_refused, (x,), (x,)),
            "functionalize": lambda: torch.func.functionalize(_refused)(x),
            "jit.fork": lambda: torch.jit.wait(torch.jit.fork(_refused, x)),
            "thread pool": lambda: concurrent.futures.ThreadPoolExecutor(1).submit(_refused, x).result(),
        }
        for way, function in ways.items():
            with self.subTest(way):
                error = self.assert_refused("aten::special_bessel_j0", function)
                self.assertRegex(str(error), r"\Aisobit: aten::special_bessel_j0 is not certified under isobit-\S+\n"
                                             r"  at     \S*refusal_test.py:\d+(, torch.special.bessel_j0)?\n  do     .*\Z")
                self.assertIsInstance(error, RuntimeError)
        self.assert_refused("aten::matrix_exp", x.matrix_exp)
        self.assert_refused("isobit_refusal_test::custom", lambda: custom(x))
        self.assert_refused("aten::round_.decimals", lambda: x.round_(decimals=1))
        self.assert_refused("aten::special_bessel_j0.out", lambda: torch.special.bessel_j0(x, out=torch.empty(4)))
        self.assert_refused("aten::special_bessel_j0.out", lambda: torch.ops.aten.special_bessel_j0.out(x, out=torch.empty(4)))

    def test_a_certified_operator_with_other_types(self):
        self.assert_refused("aten::mm", lambda: torch.ones(2, 2, dtype=torch.cfloat) @ torch.ones(2, 2, dtype=torch.cfloat))

    def test_wrong_arguments_are_no_refusals(self):
        with self.assertRaises(IndexError):
            torch.ones(2, 2).sum(5)
        with self.assertRaises(RuntimeError) as caught:
            torch.ones(2, 3) @ torch.ones(2, 3)
        self.assertNotIsInstance(caught.exception, isobit.RefusedError)

    def test_in_a_backward(self):
        x = torch.ones(4, requires_grad=True)
        hooked = x * 2
        hooked.register_hook(torch.special.bessel_j0)
        for place, function in {
                "Function.forward": lambda: InForward.apply(x), "Function.backward": lambda: InBackward.apply(x).sum().backward(),
                "grad": lambda: torch.autograd.grad(InBackward.apply(x).sum(), x), "hook": lambda: hooked.sum().backward(),
                "anomaly": lambda: within(torch.autograd.set_detect_anomaly(True), lambda: InBackward.apply(x).sum().backward()),
        }.items():
            with self.subTest(place):
                self.assert_refused("aten::special_bessel_j0", function)
        self.assert_refused("aten::lstm", refused_in_cpp)

    def test_across_the_engine_s_threads(self):
        Nested.threads.clear()
        self.assert_refused("aten::lstm", lambda: Nested.apply(torch.ones(1, requires_grad=True), 150).sum().backward())
        self.assertGreater(len(Nested.threads), 1)

    def test_a_graph_of_the_other_setting(self):
        result = small_model()(torch.ones(4, 20)).sum()
        isobit.disable()
        error = self.assert_refused("SumBackward0", result.backward)
        self.assertIn("recorded with isobit on and cannot run with it off", str(error))

    def test_in_a_checkpoint(self):
        calls = []

        def second_time(x):
            calls.append(1)
            return torch.special.bessel_j0(x) if len(calls) > 1 else x.sin().sin()

        for reentrant in (False, True):
            calls.clear()
            x = torch.ones(4, requires_grad=True)
            loss = checkpoint(second_time, x, use_reentrant=reentrant).sum()
            self.assert_refused("aten::special_bessel_j0", loss.backward)

    def test_in_torchscript(self):
        """The interpreter makes a text of it, with its own traceback before."""
        x = torch.ones(4)
        module = torch.jit.script(ScriptedModule())
        for name, function in {"function": lambda: scripted(x), "fork": lambda: scripted_in_a_fork(x), "module": lambda: module(x),
                               "method": lambda: module.forward(x)}.items():
            with self.subTest(name):
                self.assertIn("TorchScript", str(self.assert_refused("aten::special_bessel_j0", function)))
        with self.assertRaises(torch.jit.Error):  # its own errors stay
            torch.jit.script(_raises)(x)
        isobit.disable()
        self.assertTrue(torch.equal(scripted(x), torch.special.bessel_j0(x)))

    def test_in_a_loader_s_worker(self):
        for context in ("fork", "spawn"):
            with self.subTest(context):
                loader = DataLoader(Refusing(), num_workers=1, multiprocessing_context=context)
                error = self.assert_refused("aten::special_bessel_j0", lambda loader=loader: list(loader))
                self.assertTrue(str(error).startswith("Caught RefusedError in DataLoader worker process 0."))

    def test_in_another_process(self):
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
            self.assert_refused("aten::special_bessel_j0", lambda: pool.submit(_refused, torch.ones(2)).result())

    def test_in_two_threads_at_once(self):
        begin = threading.Barrier(2)
        found: dict[str, list[str]] = {"bessel_j0": [], "airy_ai": []}

        def work(name):
            begin.wait()
            x = torch.ones(3, requires_grad=True)
            for _ in range(300):
                try:
                    getattr(torch.special, name)(x)
                except isobit.RefusedError as error:
                    found[name].append(error.operator)
                (x * x).sum().backward()

        threads = [threading.Thread(target=work, args=(name,)) for name in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {name: [f"aten::special_{name}"] * 300 for name in found})

    def test_what_python_code_refuses(self):
        x = torch.ones(1, requires_grad=True)
        edge = torch.autograd.graph.get_gradient_edge(x * 2)
        self.assert_refused("torch.compile", lambda: torch.compile(small_model()))
        self.assert_refused("torch.amp.GradScaler", lambda: torch.amp.GradScaler("cpu").scale(x))
        self.assert_refused("", lambda: torch.autograd.backward(edge, torch.ones(1)))

    def test_what_is_not_refused(self):
        """A wrong use is an error of its own kind."""
        isobit.disable()
        for kind, function in ((RuntimeError, isobit.disable), (ValueError, lambda: isobit.enable("sse")),
                               (TypeError, lambda: isobit.fingerprint(torch.ones(2, dtype=torch.complex64)))):
            with self.assertRaises(kind) as caught:
                function()
            self.assertNotIsInstance(caught.exception, isobit.RefusedError)

    def test_copies(self):
        error = self.assert_refused("aten::special_bessel_j0", lambda: torch.special.bessel_j0(torch.ones(2)))
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            self.assertEqual((type(other), str(other), other.operator), (type(error), str(error), "aten::special_bessel_j0"))
        self.assertEqual(isobit.RefusedError().operator, "")
        self.assertEqual(repr(isobit.RefusedError), "<class 'isobit.RefusedError'>")

    def test_references(self):
        """A thousand refusals hold nothing: neither the class's references nor memory of each grow."""
        def refuse(times):
            for _ in range(times):
                with contextlib.suppress(isobit.RefusedError):
                    torch.special.bessel_j0(torch.ones(1))

        refuse(10)
        gc.collect()
        before = sys.getrefcount(isobit.RefusedError)
        refuse(1000)
        gc.collect()
        self.assertLess(abs(sys.getrefcount(isobit.RefusedError) - before), 10)

    def test_the_class_outlives_its_names(self):
        """The library has a reference of its own: refusals work until the interpreter is gone."""
        self.assertEqual(run_python("""
import atexit, gc, sys, torch, isobit, isobit._base._errors, isobit._switching._hooks, isobit._base._library, isobit._switching._switch

def refuse():
    try:
        torch.special.bessel_j0(torch.ones(3))
    except RuntimeError as error:
        print(type(error).__name__, isinstance(error, RuntimeError))

isobit.enable()
for module in [module for name, module in sys.modules.items() if name.split(".")[0] == "isobit"]:
    vars(module).pop("RefusedError", None)
gc.collect()
atexit.register(refuse)
refuse()
"""), "RefusedError True\n" * 2)


def _raises(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        raise ValueError("of the script")
    return x


if __name__ == "__main__":
    unittest.main()
