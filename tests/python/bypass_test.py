"""Ways past the dispatcher stop with isobit's message, and leave nothing behind."""

import contextlib
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings
from unittest import mock

import torch

import isobit
from isobit import _library


def in_another_process(code):
    """Its exit code and everything that it printed."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False,
                          timeout=300)
    return done.returncode, done.stdout + done.stderr


class Compilation(unittest.TestCase):
    def test_under_every_name(self):
        """Compiled before the switch went on, by names that were imported before."""
        code, printed = in_another_process("""
            import torch, isobit
            from torch import compile
            from torch._dynamo import optimize, run
            model, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
            ways = {"compile": compile(model, backend="eager"), "optimize": optimize("eager")(model), "run": run(model)}
            module = torch.nn.Linear(3, 2)
            module.compile(backend="eager")
            ways["module"] = module
            isobit.enable()
            for name, way in ways.items():
                try:
                    way(x)
                except isobit.RefusedError as error:
                    print(name, str(error).partition("\\n")[0])
                except Exception as error:
                    print(name, type(error), error)
            isobit.disable()
            for name, way in ways.items():
                way(x)
        """)
        self.assertEqual(code, 0, printed)
        for name in ("compile", "optimize", "run", "module"):
            self.assertIn(f"{name} isobit: torch.compile is not certified under", printed)

    def test_imported_after_the_switch_went_on(self):
        code, printed = in_another_process("""
            import isobit
            isobit.enable()
            import torch
            try:
                torch._dynamo.optimize("eager")(torch.nn.Linear(3, 2))(torch.ones(4, 3))
            except isobit.RefusedError as error:
                print(error)
        """)
        self.assertEqual(code, 0, printed)
        self.assertIn("torch.compile is not certified", printed)


class Export(unittest.TestCase):
    def test_what_was_exported_computes_by_the_contract(self):
        model, x = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU()), torch.ones(2, 3)
        with isobit.enabled():
            with self.assertRaisesRegex(isobit.RefusedError, "torch.export is not certified"):
                torch.export.export(model, (x,))
            with isobit.disabled(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exported = torch.export.export(model, (x,))
            self.assertTrue(torch.equal(exported.module()(x), model(x)))

    def test_under_a_name_of_before(self):
        """The function itself passes, for it computes nothing: what it exported is the switch's. The process ends as any other, and later
        refusals do not name the module."""
        code, printed = in_another_process("""
            import logging, torch, isobit
            from torch.export import export
            logging.disable(logging.CRITICAL)
            isobit.enable()
            for x in (torch.ones(4, 3), torch.ones(4, 3)):
                model = torch.nn.Linear(3, 2)
                print("same", torch.equal(export(model, (x,)).module()(x), model(x)))
            try:
                torch.special.bessel_j0(torch.ones(3))
            except isobit.RefusedError as error:
                print(error)
        """)
        self.assertEqual(code, 0, printed)
        self.assertEqual(printed.count("same True"), 2, printed)
        self.assertIn("special_bessel_j0 is not certified", printed)
        self.assertNotIn("\n  in     ", printed)


class ModuleNames(unittest.TestCase):
    def test_ctrl_c_in_a_forward(self):
        class Stops(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Identity()
                self.inner.register_forward_hook(self.stop)
                self.stops = True

            def stop(self, *_):
                if self.stops:
                    raise KeyboardInterrupt

            def forward(self, x):
                return torch.special.bessel_j0(self.inner(x))

        model = Stops()
        with isobit.enabled():
            for _ in range(2):
                with self.assertRaises(KeyboardInterrupt):
                    model(torch.ones(2))
            model.stops = False
            with self.assertRaisesRegex(isobit.RefusedError, r"in     Stops \(forward\)"):
                model(torch.ones(2))
            with self.assertRaises(isobit.RefusedError) as raised:
                torch.special.bessel_j0(torch.ones(2))
            self.assertNotIn("\n  in     ", str(raised.exception))

    def test_a_process_that_ends_within_a_module(self):
        code, printed = in_another_process("""
            import threading, torch, isobit
            class ANameThatIsTooLongForAnyShortString(torch.nn.Module):
                def forward(self, x):
                    raise SystemExit(3)
            isobit.enable()
            thread = threading.Thread(target=lambda: ANameThatIsTooLongForAnyShortString()(torch.ones(1)))
            thread.start()
            thread.join()
            ANameThatIsTooLongForAnyShortString()(torch.ones(1))
        """)
        self.assertEqual(code, 3, printed)


class Others(unittest.TestCase):
    def test_cuda_graphs(self):
        with isobit.enabled(), self.assertRaisesRegex(isobit.RefusedError, "torch.cuda.CUDAGraph.replay is not certified"):
            torch.cuda.CUDAGraph.replay(None)

    def test_data_parallel(self):
        model, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
        with isobit.enabled():
            self.assertTrue(torch.equal(torch.nn.DataParallel(model)(x), model(x)))  # without GPUs it is the model
            parallel = sys.modules["torch.nn.parallel.data_parallel"]
            for function in (parallel.replicate, torch.nn.parallel.comm.reduce_add, torch.nn.parallel.comm.reduce_add_coalesced):
                with self.assertRaisesRegex(isobit.RefusedError, "DataParallel on several devices is not certified"):
                    function(model, [0, 1])


    @unittest.skipUnless(hasattr(torch.optim, "Muon"), "this PyTorch has no Muon")
    def test_muon_names_the_way_out(self):
        weight = torch.nn.Parameter(torch.ones(3, 3))
        weight.grad = torch.ones(3, 3)
        with isobit.enabled():
            optimizer = torch.optim.Muon([weight])
            with self.assertRaisesRegex(isobit.RefusedError, r"(?s)torch.optim.Muon is not certified.*AdamW.*isobit.disabled"):
                optimizer.step()
            self.assertTrue(torch.equal(weight, torch.ones(3, 3)))
            with isobit.disabled():
                optimizer.step()
        self.assertFalse(torch.equal(weight, torch.ones(3, 3)))

    def test_a_library_that_replaced_an_operator_before(self):
        """In front of autograd its kernel is met before any of isobit's; behind it, in an exact operator's place."""
        x = torch.ones(3, 3, requires_grad=True)

        def another(a, _b):
            return torch.zeros_like(a)

        for key, name, call in (("AutogradCPU", "mm", lambda: x @ x), ("ADInplaceOrView", "mm", lambda: x @ x),
                                ("CPU", "mul.Tensor", lambda: x * x), ("CompositeImplicitAutograd", "matmul", lambda: torch.matmul(x, x))):
            library = torch.library.Library("aten", "IMPL")
            try:
                library.impl(name, another, key)
                with self.subTest(key), isobit.enabled():
                    with self.assertRaisesRegex(isobit.RefusedError, r"is computed by another library \(.*bypass_test.py:\d+\)"):
                        call()
                    self.assertEqual((x + x).sum().item(), 18)
            finally:
                library._destroy()
        with isobit.enabled():
            self.assertEqual((x @ x).sum().item(), 27)


class ReplacedKernels(unittest.TestCase):
    """Kernels registered while the switch is on, of which the dispatcher tells nobody."""

    def setUp(self):
        self.library = torch.library.Library("aten", "IMPL")
        self.addCleanup(lambda: self.library.m is not None and self.library._destroy())

    def replace(self):
        self.library.impl("relu", lambda x: x.clamp(min=0) * 1.001, "CPU")

    def test_refused_where_python_registers_them(self):
        refused = self.assertRaisesRegex(isobit.RefusedError, r"(?s)aten::relu has had its kernel replaced.*before switching isobit on")
        with refused, isobit.enabled():
            with refused:
                self.replace()
            self.library._destroy()
            self.assertEqual(torch.relu(torch.ones(1)).item(), 1)
            with refused:  # taken back, but what was computed meanwhile stays
                _library.check_kernels()
        self.assertFalse(isobit.is_enabled())
        with isobit.enabled():
            self.assertEqual(torch.relu(torch.ones(1)).item(), 1)

    def test_shapes_and_operators_of_ones_own(self):
        with isobit.enabled():
            self.library.impl("mm", lambda a, b: a.new_empty(a.shape[0], b.shape[1]), "Meta")
            own = torch.library.Library("isobit_bypass_test", "FRAGMENT")
            self.addCleanup(own._destroy)
            own.define("own(Tensor x) -> Tensor")
            own.impl("own", torch.exp, "CPU")
            _library.check_kernels()

    def test_a_record_with_one_is_not_sealed(self):
        """As a library in C++ would, which passes Python by: found by the look before the seal, however few steps there were."""
        for taken_back in (False, True):
            with self.subTest(taken_back=taken_back), tempfile.TemporaryDirectory() as runs:
                library = torch.library.Library("aten", "IMPL")
                model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                with self.assertRaisesRegex(isobit.RefusedError, "aten::relu has had its kernel replaced"):
                    with isobit.record(runs=runs) as run:
                        run.track(model)
                        with mock.patch.object(_library, "check_kernels") if not taken_back else contextlib.suppress(isobit.RefusedError):
                            library.impl("relu", lambda x: x.clamp(min=0) * 1.001, "CPU")
                        model(torch.ones(1, 2)).sum().backward()
                        optimizer.step()
                        if taken_back:
                            library._destroy()
                if not taken_back:
                    library._destroy()
                self.assertFalse(isobit.is_enabled())
                self.assertEqual(len(list(pathlib.Path(runs).glob("*/experiment.toml"))), 1)
                self.assertEqual(list(pathlib.Path(runs).glob("*/manifest.json")), [])

    def test_disabled_does_not_hide_one(self):
        with self.assertRaisesRegex(isobit.RefusedError, "aten::relu"), isobit.enabled():
            with mock.patch.object(_library, "check_kernels"):
                self.replace()
            with isobit.disabled():
                self.fail("the switch went off over another library's kernel")


class Types(unittest.TestCase):
    def test_small_floats_and_complex_numbers_are_not_computed_with(self):
        computes = {
            "add": lambda x: x + x, "number": lambda x: x + 1.5, "sub": lambda x: x - x, "mul": lambda x: x * x, "frac": torch.frac,
            "in place": lambda x: x.clone().add_(x), "mixed": lambda x: x + torch.ones(4),
            "out": lambda x: torch.add(torch.ones(4), 1, out=torch.empty(4, dtype=x.dtype)), "sum": torch.sum, "foreach":
                lambda x: torch._foreach_add([x], [x]), "matmul": lambda x: x @ x, "exp": torch.exp}
        keeps = {"copy": torch.clone, "cat": lambda x: torch.cat([x, x]), "equal": lambda x: x == x, "to float32":
                 lambda x: x.to(torch.complex64 if x.is_complex() else torch.float32), "where": lambda x: torch.where(x == x, x, x)}
        drops = {"neg": lambda x: -x, "abs": torch.abs, "sign": torch.sgn}  # exact on real numbers
        for dtype in (torch.float16, torch.bfloat16, torch.complex64, torch.complex128):
            x = torch.ones(4).to(dtype)
            with isobit.enabled():
                for name, call in {**computes, **(drops if dtype.is_complex else {})}.items():
                    with self.subTest(name, dtype=dtype), self.assertRaises(isobit.RefusedError):
                        call(x)
                for call in {**keeps, **({} if dtype.is_complex else drops)}.values():
                    call(x)


if __name__ == "__main__":
    unittest.main()
