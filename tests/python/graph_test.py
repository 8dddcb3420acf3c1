"""Backward from Python: a graph runs under the setting of the switch under which it was recorded."""

import random
import textwrap
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import torch
from cases import Case, run_python, small_model

import isobit


def loss():
    return small_model()(torch.ones(4, 20)).square().sum()


class Double(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2


class First(torch.nn.Module):
    def forward(self, x):
        return Double.apply(x)


class Graph(Case):
    recorded_on = "recorded with isobit on and cannot run with it off"
    recorded_off = "recorded with isobit off and cannot run with it on"

    def test_on_then_off(self):
        with isobit.enabled():
            result = loss()
        message = self.assert_refuses(self.recorded_on, result.backward)
        self.assertIn("both with isobit on", message)
        self.assert_refuses(self.recorded_on, lambda: torch.autograd.backward([result]))

    def test_off_then_on(self):
        result = loss()
        with isobit.enabled():
            self.assert_refuses(self.recorded_off, result.backward)
        result.backward()

    def test_autograd_grad(self):
        x = torch.ones(3, requires_grad=True)
        with isobit.enabled():
            y = (x * x).sum()
        self.assert_refuses(self.recorded_on, lambda: torch.autograd.grad(y, x))

    def test_part_of_a_graph(self):
        x = torch.ones(3, requires_grad=True)
        inner = x * 3
        with isobit.enabled():
            self.assert_refuses(self.recorded_off, (inner * 2).sum().backward)

    def test_same_setting_passes(self):
        for on in (False, True, False):
            if on:
                isobit.enable()
            loss().backward()
            x = torch.ones(3, requires_grad=True)
            (first,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
            first.sum().backward()
            self.assertTrue(torch.equal(x.grad, torch.full((3,), 6.0)))
            if on:
                isobit.disable()

    def test_custom_function(self):
        x = torch.ones(3, requires_grad=True)
        with isobit.enabled():
            y = Double.apply(x)
            y.sum().backward()
            y = Double.apply(x)
        self.assert_refuses(self.recorded_on, lambda: y.backward(torch.ones(3)))

    def test_checkpoint(self):
        from torch.utils.checkpoint import checkpoint

        with isobit.enabled():
            x = torch.ones(4, 20, requires_grad=True)
            for reentrant in (False, True):
                checkpoint(small_model(), x, use_reentrant=reentrant).sum().backward()

    def test_recorded_in_another_thread(self):
        results = []
        with isobit.enabled():
            thread = threading.Thread(target=lambda: results.append(loss()))
            thread.start()
            thread.join()
        self.assert_refuses(self.recorded_on, results[0].backward)

    def test_hooks_and_leaves(self):
        with isobit.enabled():
            x = torch.ones(3, requires_grad=True)
            x.sum().backward()
            seen = []
            y = x * 2
            y.register_hook(seen.append)
            y.sum().backward()
            self.assertEqual(len(seen), 1)

    def test_gradient_edge_cannot_be_checked(self):
        with isobit.enabled():
            y = torch.ones(3, requires_grad=True) * 2
            edge = torch.autograd.graph.get_gradient_edge(y)
            self.assert_refuses("GradientEdge", lambda: torch.autograd.backward([edge], [torch.ones(3)]))


class Waiting(Case):
    def test_a_refusal_beside_calls_of_modules(self):
        """The name of a Python function's node needs the interpreter, which others have while they wait for the check."""
        run_python(textwrap.dedent("""
            import faulthandler, threading, torch, isobit
            faulthandler.dump_traceback_later(60, exit=True)
            from graph_test import Double
            y = Double.apply(torch.ones(2, requires_grad=True))
            isobit.enable()
            for _ in range(3000):
                y = y + 1
            y = y.sum()
            done = threading.Event()
            def call():
                while not done.is_set():
                    thread = threading.Thread(target=lambda: torch.nn.Identity()(torch.ones(1)))  # its first call since the flip
                    thread.start()
                    thread.join()
            others = [threading.Thread(target=call) for _ in range(2)]
            for other in others:
                other.start()
            for _ in range(40):
                try:
                    y.backward()
                except isobit.RefusedError as refused:
                    assert "DoubleBackward" in str(refused)
                else:
                    raise AssertionError("not refused")
            done.set()
        """))


class Schedules(Case):
    """Threads that record, are born and flip the switch in any order. Whether a graph may run follows from who recorded when."""

    def record(self, how):
        x = torch.ones(3, requires_grad=True)
        if how == "function first":
            return Double.apply(x).sum()
        if how == "in a module":
            return First()(x).sum()
        if how == "function":
            return Double.apply(x * 3).sum()
        return (x * x).sum()

    def check(self, graphs, on):
        for graph, recorded_on in graphs:
            if recorded_on == on:
                graph.backward(retain_graph=True)
            else:
                self.assert_refuses("recorded with isobit", lambda graph=graph: graph.backward(retain_graph=True))

    def run_schedule(self, seed):
        draw = random.Random(seed)
        threads, graphs, on = [], [], False
        for _ in range(40):
            action = draw.choice(("record", "record", "record", "birth", "flip", "check"))
            where = draw.choice([None, *threads])
            call = (lambda function, *arguments: function(*arguments)) if where is None else \
                (lambda function, *arguments, where=where: where.submit(function, *arguments).result())
            if action == "record":
                graphs.append((call(self.record, draw.choice(("operators", "function", "in a module"))), on))
            elif action == "birth" and len(threads) < 5:
                threads.append(ThreadPoolExecutor(1))
                if draw.random() < 0.5:  # else it gets its number later
                    how = draw.choice(("function first", "operators"))
                    graphs.append((threads[-1].submit(self.record, how).result(), on))
            elif action == "flip":
                call(isobit.disable if on else isobit.enable)
                on = not on
            elif graphs:
                self.check(draw.sample(graphs, min(3, len(graphs))), on)
        self.check(graphs, on)
        if on:
            isobit.disable()
        self.check(graphs, False)
        for thread in threads:
            thread.shutdown()

    def test_any_order(self):
        for seed in range(60):
            with self.subTest(seed=seed):
                self.run_schedule(seed)

    def test_a_program_of_one_thread_is_not_observed(self):
        printed = run_python(textwrap.dedent("""
            import torch, isobit
            from isobit._base import _library
            isobit.enable()
            torch.set_num_threads(2)
            (torch.ones(1 << 20, requires_grad=True) * 2).sum().backward()  # on threads of isobit's, too
            isobit.disable()
            isobit.enable()
            print(_library.operators_observed())
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor(1) as other:
                other.submit(lambda: torch.ones(2, requires_grad=True) * 2).result()
                print(_library.operators_observed())
                isobit.disable()
                isobit.enable()
                print(_library.operators_observed())
        """))
        self.assertEqual(printed.split(), ["False", "False", "True"])


if __name__ == "__main__":
    unittest.main()
