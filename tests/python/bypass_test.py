"""Ways past the dispatcher stop with isobit's message, and leave nothing behind."""

import asyncio
import contextlib
import functools
import inspect
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
from isobit._base import _library


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


    def test_inductor_called_by_hand(self):
        """Loaded, and compiled with, before the switch first went on; and loaded while it is on."""
        for loaded in ("before", "under the switch"):
            code, printed = in_another_process(f"""
                import torch, isobit
                from torch.fx.experimental.proxy_tensor import make_fx
                x, loaded = torch.linspace(-2, 2, 100), {loaded!r}
                graph = make_fx(lambda x: (x.exp().sum(),))(x)
                if loaded != "before":
                    isobit.enable()
                from torch._inductor.compile_fx import compile_fx
                from torch._inductor import standalone_compile
                isobit.disable() if isobit.is_enabled() else None
                compiled = {{"compile_fx": compile_fx(graph, [x]),
                             "standalone": standalone_compile(graph, [x], dynamic_shapes="from_graph")}}
                stock = [compiled[name](x)[0] for name in compiled]
                isobit.enable()
                compiled["compiles"] = lambda x: compile_fx(graph, [x])(x)
                compiled["compiles alone"] = lambda x: standalone_compile(graph, [x], dynamic_shapes="from_graph")
                for name, call in compiled.items():
                    try:
                        print(name, "ran", call(x))
                    except isobit.RefusedError as error:
                        print(name, str(error).partition("\\n")[0])
                isobit.disable()
                print("same", [compiled[name](x)[0] for name in ("compile_fx", "standalone")] == stock)
            """)
            with self.subTest(loaded):
                self.assertEqual(code, 0, printed)
                for name in ("compile_fx", "standalone", "compiles", "compiles alone"):
                    self.assertIn(f"{name} isobit: torch._inductor is not certified under", printed)
                self.assertIn("same True", printed)

    def test_the_switch_does_not_load_inductor(self):
        code, printed = in_another_process("""
            import sys, isobit
            isobit.enable()
            print(*[name for name in sys.modules if name.startswith("torch._inductor")])
        """)
        self.assertEqual((code, printed.strip()), (0, ""))

    @unittest.skipUnless(hasattr(torch._C, "_te"), "this PyTorch has no tensor expressions")
    def test_tensor_expressions(self):
        kernel = torch._C._te.TensorExprKernel
        with isobit.enabled(), self.assertRaisesRegex(isobit.RefusedError, "torch._C._te.TensorExprKernel is not certified"):
            kernel.run(None, (torch.ones(3),))
        with self.assertRaises(TypeError):
            kernel.run(None, (torch.ones(3),))


class Decorators(unittest.TestCase):
    def test_bodies_that_run_later(self):
        def generator():
            yield isobit.is_enabled()

        async def coroutine():
            return isobit.is_enabled()

        async def asynchronous():
            yield isobit.is_enabled()

        class Callable:
            async def __call__(self):
                return isobit.is_enabled()

        for manager in (isobit.enabled, isobit.disabled):
            for function in (generator, coroutine, asynchronous, functools.partial(generator), staticmethod(generator), Callable(),
                             Callable().__call__):
                with self.subTest(manager.__name__, function=function), self.assertRaisesRegex(
                        TypeError, rf"@isobit.{manager.__name__}\(\) does not reach .*with isobit.{manager.__name__}\(\):"):
                    manager()(function)
        with self.assertRaisesRegex(TypeError, "bodies_that_run_later.<locals>.coroutine"):
            isobit.enabled()(coroutine)
        self.assertFalse(asyncio.run(coroutine()))

    def test_functions_and_blocks(self):
        @isobit.enabled(isa="reference")
        def inner(depth):
            """Text."""
            return (isobit.is_enabled(), isobit.isa()) if not depth else inner(depth - 1)

        self.assertEqual((inner.__name__, inner.__doc__), ("inner", "Text."))
        for _ in range(2):
            self.assertEqual(inner(2), (True, "reference"))
            self.assertFalse(isobit.is_enabled())
        block = isobit.enabled()
        with block:
            with block, isobit.disabled():
                self.assertFalse(isobit.disabled()(isobit.is_enabled)())
            self.assertTrue(isobit.is_enabled())
        self.assertFalse(isobit.is_enabled())
        with self.assertRaisesRegex(ValueError, "unknown isa"), isobit.enabled("sse"):
            self.fail()
        self.assertEqual(list(inspect.signature(isobit.enabled).parameters), ["isa", "products"])
        self.assertIn("enable() within a block", isobit.enabled.__doc__)


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
        base = torch._C._CUDAGraph
        if hasattr(base, "replay"):  # in a PyTorch with CUDA
            with isobit.enabled(), self.assertRaisesRegex(isobit.RefusedError, "torch.cuda.CUDAGraph.replay is not certified"):
                base.replay(None)

    def test_device_code_of_the_program(self):
        with isobit.enabled():
            with self.assertRaisesRegex(isobit.RefusedError, "torch.cuda._compile_kernel is not certified"):
                torch.cuda._compile_kernel("extern \"C\" __global__ void f() {}", "f")
            with self.assertRaisesRegex(isobit.RefusedError, "torch.cuda.nccl.all_reduce is not certified"):
                torch.cuda.nccl.all_reduce([torch.ones(2)])

    def test_triton(self):
        """Its own modules are not here; these stand for them, loaded before the switch and after."""
        for late in (False, True):
            code, printed = in_another_process(f"""
                import pathlib, sys, tempfile, torch, isobit
                folder = pathlib.Path(tempfile.mkdtemp())
                for name, text in {{"runtime/jit": "class JITFunction:\\n    def run(self, *a, grid, warmup): return 'ran'\\n",
                                   "compiler/compiler": "class CompiledKernel:\\n    def __getitem__(self, grid): return 'got'\\n    run = property(lambda self: 'run')\\n"
                                   }}.items():
                    path = folder / "triton" / (name + ".py")
                    path.parent.mkdir(parents=True)
                    path.write_text(text)
                sys.path.insert(0, str(folder))
                if not {late}:
                    import triton.runtime.jit, triton.compiler.compiler
                with isobit.enabled():
                    from triton.runtime.jit import JITFunction
                    from triton.compiler.compiler import CompiledKernel
                    for call in (lambda: JITFunction().run(grid=1, warmup=False), lambda: CompiledKernel()[1],
                                 lambda: CompiledKernel().run):
                        try:
                            print(call())
                        except isobit.RefusedError as error:
                            print(str(error).partition("\\n")[0])
                print(JITFunction().run(grid=1, warmup=False), CompiledKernel()[1], CompiledKernel().run)
            """)
            self.assertEqual(code, 0, printed)
            self.assertEqual(printed.count("isobit: a Triton kernel is not certified under"), 3, printed)
            self.assertEqual(printed.strip().splitlines()[-1], "ran got run")

    def test_data_parallel(self):
        model, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
        with isobit.enabled():
            self.assertTrue(torch.equal(torch.nn.DataParallel(model)(x), model(x)))  # without GPUs it is the model
            parallel = sys.modules["torch.nn.parallel.data_parallel"]
            for function in (parallel.replicate, torch.nn.parallel.comm.reduce_add, torch.nn.parallel.comm.reduce_add_coalesced):
                with self.assertRaisesRegex(isobit.RefusedError, "DataParallel on several devices is not certified"):
                    function(model, [0, 1])

    def test_a_library_that_replaced_an_operator_before(self):
        """In front of autograd its kernel is met before any of isobit's; behind it, in an exact operator's place."""
        x = torch.ones(3, 3, requires_grad=True)

        def another(a, _b):
            return torch.zeros_like(a)

        for key, name, call in (("AutogradCPU", "mm", lambda: x @ x), ("ADInplaceOrView", "mm", lambda: x @ x),
                                ("CPU", "mul.Tensor", lambda: x * x), ("CompositeImplicitAutograd", "outer", lambda: torch.outer(x[0], x[0]))):
            library = torch.library.Library("aten", "IMPL")
            try:
                library.impl(name, another, key)
                with self.subTest(key), isobit.enabled():
                    with self.assertRaisesRegex(isobit.RefusedError, r"is computed by another library \(.*bypass_test.py:\d+\)"):
                        call()
                    self.assertEqual((x + x).sum().item(), 18)
            finally:
                library._destroy()
        library = torch.library.Library("aten", "IMPL")  # isobit's own stands in front of a composition's
        self.addCleanup(library._destroy)
        library.impl("matmul", another, "CompositeImplicitAutograd")
        with isobit.enabled():
            self.assertEqual((x @ x).sum().item(), 27)


class ReplacedKernels(unittest.TestCase):
    """Kernels registered while the switch is on, of which the dispatcher tells nobody; by torch's C++ class, behind the library."""

    def setUp(self):
        self.library = self.behind()

    def behind(self):
        library = torch._C._dispatch_library("IMPL", "aten", "", __file__, 1)
        self.addCleanup(library.reset)
        return library

    def replace(self, library=None):
        (library or self.library).impl("relu", "CPU", lambda x: x.clamp(min=0) * 1.001, False)

    def test_refused_where_python_registers_them(self):
        refused = self.assertRaisesRegex(isobit.RefusedError, r"(?s)aten::relu has had its kernel replaced.*before switching isobit on")
        with refused, isobit.enabled():
            with refused:
                self.replace()
            self.library.reset()
            self.assertEqual(torch.relu(torch.ones(1)).item(), 1)
            with refused:  # taken back, but what was computed meanwhile stays
                _library.check_kernels()
        self.assertFalse(isobit.is_enabled())
        with isobit.enabled():
            self.assertEqual(torch.relu(torch.ones(1)).item(), 1)

    def test_shapes_and_operators_of_ones_own(self):
        with isobit.enabled():
            self.library.impl("mm", "Meta", lambda a, b: a.new_empty(a.shape[0], b.shape[1]), False)
            own = torch.library.Library("isobit_bypass_test", "FRAGMENT")
            self.addCleanup(own._destroy)
            own.define("own(Tensor x) -> Tensor")
            own.impl("own", torch.exp, "CPU")
            _library.check_kernels()

    def test_a_record_with_one_is_not_sealed(self):
        """As a library in C++ would, which passes Python by: found by the look before the seal, however few steps there were."""
        for taken_back in (False, True):
            with self.subTest(taken_back=taken_back), tempfile.TemporaryDirectory() as runs:
                library = self.behind()
                model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                with self.assertRaisesRegex(isobit.RefusedError, "aten::relu has had its kernel replaced"):
                    with isobit.record(runs=runs) as run:
                        run.track(model)
                        with mock.patch.object(_library, "check_kernels") if not taken_back else contextlib.suppress(isobit.RefusedError):
                            self.replace(library)
                        model(torch.ones(1, 2)).sum().backward()
                        optimizer.step()
                        if taken_back:
                            library.reset()
                if not taken_back:
                    library.reset()
                self.assertFalse(isobit.is_enabled())
                self.assertEqual(len(list(pathlib.Path(runs).glob("*/experiment.toml"))), 1)
                self.assertEqual(list(pathlib.Path(runs).glob("*/manifest.json")), [])

    def test_disabled_does_not_hide_one(self):
        with self.assertRaisesRegex(isobit.RefusedError, "aten::relu"), isobit.enabled():
            with mock.patch.object(_library, "check_kernels"):
                self.replace()
            with isobit.disabled():
                self.fail("the switch went off over another library's kernel")


class Registrations(unittest.TestCase):
    """Kernels that torch.library would register under the switch: refused before there is one."""

    def library(self, *arguments):
        library = torch.library.Library(*arguments)
        self.addCleanup(lambda: library.m is not None and library._destroy())
        return library

    def test_every_key_of_a_listed_operator(self):
        x, fallthrough = torch.linspace(-2, 2, 5), torch.library.fallthrough_kernel
        library = self.library("aten", "IMPL")
        with isobit.enabled():
            for name, keys in {"exp": ("CPU", "CUDA", "FuncTorchBatched", "Negative", "AutocastCPU", "Autograd", "Functionalize", ""),
                               "add.Tensor": ("CPU", "Tracer"), "aten::matmul": ("CompositeImplicitAutograd",),
                               "special_bessel_j0": ("BackendSelect", "AutogradCPU", "ADInplaceOrView")}.items():
                for key in keys:
                    for kernel in (fallthrough, lambda *arguments: arguments[0] * 0):
                        with self.subTest(name, key=key), self.assertRaisesRegex(
                                isobit.RefusedError, f"aten::{name.rpartition('::')[2]} with a kernel of another .*({key})"):
                            library.impl(name, kernel, key)
            for name, register in {
                    "an overload": lambda: library.impl(torch.ops.aten.add.Tensor, torch.sub, "CPU"),
                    "keywords": lambda: library.impl(op_name="exp", fn=torch.sin, dispatch_key="CPU"),
                    "the library's key": lambda: self.library("aten", "IMPL", "CPU").impl("exp", torch.sin),
                    "register_vmap": lambda: torch.library.register_vmap("aten::exp", lambda _info, _dims, a: (a, 0)),
                    "register_autograd": lambda: torch.library.register_autograd("aten::exp", lambda _context, gradient: gradient),
                    "register_kernel": lambda: torch.library.register_kernel("aten::exp", "cpu", torch.sin),
                    "py_impl": lambda: torch.ops.aten.exp.default.py_impl(torch._C.DispatchKey.CPU)(torch.sin)}.items():
                with self.subTest(name), self.assertRaisesRegex(isobit.RefusedError, "with a kernel of another library's"):
                    register()
            _library.check_kernels()  # none was left
            self.assertTrue(torch.equal(torch.vmap(torch.exp)(x), x.exp()))
            with self.assertRaises(isobit.RefusedError):
                torch.special.bessel_j0(x)
        self.assertEqual(torch.ops.aten.exp.default.py_kernels.get(torch._C.DispatchKey.CPU), None)

    def test_in_front_of_the_refusal_of_ones_own(self):
        with isobit.enabled():
            own = self.library("isobit_bypass_front", "DEF")
            own.define("own(Tensor x) -> Tensor")
            for key in ("AutogradCPU", "AutogradCUDA", "BackendSelect", "ADInplaceOrView"):
                with self.subTest(key), self.assertRaisesRegex(isobit.RefusedError, "isobit_bypass_front::own with a kernel in front of"):
                    own.impl("own", torch.sin, key)
            for key in ("CPU", "Autograd", "FuncTorchBatched", "AutocastCPU", "CompositeExplicitAutograd"):
                own.impl("own", torch.sin, key)
            with self.assertRaisesRegex(isobit.RefusedError, "isobit_bypass_front::own is not certified"):
                torch.ops.isobit_bypass_front.own(torch.ones(2))
        own.impl("own", torch.sin, "AutogradCPU")

    def test_libraries_load(self):
        """torch's own parts that register when they are loaded, and custom operators."""
        code, printed = in_another_process("""
            import isobit
            isobit.enable()
            import torch, torch._dynamo, torch._inductor.compile_fx, torch.export, torch._decomp, torch._prims.rng_prims
            import torch.distributed.tensor, torch.distributed.fsdp, torch.ao.quantization.fx, torch.nn.attention.flex_attention
            library = torch.library
            for name, mutates in (("plain", ()), ("writes", ("x",))):
                @library.custom_op(f"isobit_bypass_loads::{name}", mutates_args=mutates)
                def own(x: torch.Tensor) -> torch.Tensor:
                    return x.clone()
                own.register_fake(torch.empty_like)
                own.register_vmap(lambda _info, dims, x: (x, dims[0]))
                own.register_kernel("cuda")(torch.clone)
                if not mutates:
                    own.register_autograd(lambda _context, gradient: gradient)
                    library.register_autocast(f"isobit_bypass_loads::{name}", "cpu", torch.float32)
                try:
                    own(torch.ones(2))
                except isobit.RefusedError as error:
                    print(str(error).partition("\\n")[0])
            print("loaded")
        """)
        self.assertEqual(code, 0, printed)
        for text in ("isobit_bypass_loads::plain is not certified", "isobit_bypass_loads::writes is not certified", "loaded"):
            self.assertIn(text, printed)


class Backends(unittest.TestCase):
    def test_a_backends_own_sums(self):
        code, printed = in_another_process("""
            import datetime, tempfile, threading, torch, isobit, torch.distributed as dist
            x, whole, single = [torch.ones(3)], [torch.ones(3, dtype=torch.int64)], torch.ones(1)
            folder = tempfile.mkdtemp()

            def backend(rank, world):
                store = dist.FileStore(f"{folder}/{world}", world)
                return dist.ProcessGroupGloo(store, rank, world, datetime.timedelta(seconds=60))

            made = {}
            threads = [threading.Thread(target=lambda rank=rank: made.update({rank: backend(rank, 2)})) for rank in range(2)]
            [thread.start() for thread in threads], [thread.join() for thread in threads]
            one = backend(0, 1)
            isobit.enable()
            for name, call in {"allreduce": lambda b: b.allreduce(x), "a tensor": lambda b: b.allreduce(x[0], dist.ReduceOp.SUM),
                               "keyword": lambda b: b.allreduce(tensors=x), "reduce": lambda b: b.reduce(x, dist.ReduceOptions()),
                               "coalesced": lambda b: b.allreduce_coalesced(x), "scatter": lambda b: b.reduce_scatter(x, [x * 2]),
                               "base": lambda b: b._reduce_scatter_base(single, torch.ones(2))}.items():
                try:
                    call(made[0])
                except isobit.RefusedError as error:
                    print(name, str(error).partition("\\n")[0])
            works = [made[rank].allreduce([whole[0] + rank]) for rank in range(2)]
            print("integers", [(work.wait(), work.result()[0].tolist())[1] for work in works])
            one.allreduce(x).wait()
            print("one rank", x[0].tolist())
            try:  # within options: only NCCL makes one (scripts/gpu-check --part ways)
                one.allreduce(x[0], dist.ReduceOp.PREMUL_SUM)
            except isobit.RefusedError as error:
                print("scaling", str(error).partition("\\n")[0])
        """)
        self.assertEqual(code, 0, printed)
        for name in ("allreduce", "a tensor", "keyword", "reduce", "coalesced", "scatter", "base"):
            self.assertIn(f"{name} isobit: torch.distributed.Backend.", printed)
        self.assertIn("integers [[3, 3, 3], [3, 3, 3]]", printed)
        self.assertIn("one rank [1.0, 1.0, 1.0]", printed)
        self.assertIn("scaling isobit: torch.distributed.Backend.allreduce is not certified", printed)


class Types(unittest.TestCase):
    def test_complex_numbers_and_floats_of_8_bits_are_not_computed_with(self):
        computes = {
            "add": lambda x: x + x, "number": lambda x: x + 1.5, "sub": lambda x: x - x, "mul": lambda x: x * x, "frac": torch.frac,
            "in place": lambda x: x.clone().add_(x), "mixed": lambda x: x + torch.ones(4),
            "out": lambda x: torch.add(torch.ones(4), 1, out=torch.empty(4, dtype=x.dtype)), "sum": torch.sum, "foreach":
                lambda x: torch._foreach_add([x], [x]), "matmul": lambda x: x @ x, "exp": torch.exp}
        keeps = {"copy": torch.clone, "cat": lambda x: torch.cat([x, x]), "equal": lambda x: x == x, "to float32":
                 lambda x: x.to(torch.complex64 if x.is_complex() else torch.float32), "where": lambda x: torch.where(x == x, x, x)}
        drops = {"neg": lambda x: -x, "abs": torch.abs, "sign": torch.sgn}  # exact on real numbers
        for dtype in (torch.complex64, torch.complex128):
            x = torch.ones(4).to(dtype)
            with isobit.enabled():
                for name, call in {**computes, **(drops if dtype.is_complex else {})}.items():
                    with self.subTest(name, dtype=dtype), self.assertRaises(isobit.RefusedError):
                        call(x)
                for call in {**keeps, **({} if dtype.is_complex else drops)}.values():
                    call(x)


if __name__ == "__main__":
    unittest.main()
