"""TorchScript under the switch: what its interpreter would compute past the dispatcher is refused, however it is reached."""

import io
import math
import pathlib
import tempfile
import unittest
import warnings
from typing import Any

import torch
from cases import Case, run_python
from torch.jit import mobile

import isobit
from isobit._switching import _torchscript

warnings.simplefilter("ignore")  # of torch.jit's age


@torch.jit.script
def with_exp(x: torch.Tensor, scale: float) -> torch.Tensor:
    return x * math.exp(scale)


@torch.jit.script
def exact_scalars(x: torch.Tensor, scale: float) -> torch.Tensor:
    sizes = [x.size(0), x.numel() // 2]
    names = {"a": sizes[0] * 2, "b": int(scale)}
    total = 0.0
    for i in range(len(sizes)):
        total += float(sizes[i]) / 3.0
    if total > 1.0 and "a" in names:
        return x * (total - scale) / math.sqrt(float(names["a"])) + math.floor(scale)
    return x


@torch.jit.script
def within_a_branch(x: torch.Tensor, never: bool) -> torch.Tensor:
    if never:
        for i in range(3):
            x = x * math.sin(float(i))
    return x


@torch.jit.script
def save_it(x: torch.Tensor, path: str) -> torch.Tensor:
    torch.save(x, path)
    return x


@torch.jit.script
def inner(scale: float) -> float:
    return math.log(scale)


@torch.jit.script
def calls_another(x: torch.Tensor) -> torch.Tensor:
    return x * inner(2.5)


@torch.jit.script
def in_a_fork(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.jit.wait(torch.jit.fork(with_exp, x, scale))


@torch.jit.interface
class Scales:
    def scale(self, x: float) -> float:
        pass


@torch.jit.script
class Doubles:
    def __init__(self):
        self.factor = 2.0

    def scale(self, x: float) -> float:
        return x * self.factor


@torch.jit.script
class Exponentials:
    def __init__(self):
        self.factor = 2.0

    def scale(self, x: float) -> float:
        return math.exp(x * self.factor)


@torch.jit.script
def by_an_interface(x: torch.Tensor, how: Scales, scale: float) -> torch.Tensor:
    return x * how.scale(scale)


@torch.jit.script
def makes_one(x: torch.Tensor, exponential: bool, scale: float) -> torch.Tensor:
    if exponential:
        return by_an_interface(x, Exponentials(), scale)
    return by_an_interface(x, Doubles(), scale)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.inner(x))

    @torch.jit.export
    def with_cosine(self, x: torch.Tensor, angle: float) -> torch.Tensor:
        return self.forward(x) * math.cos(angle)


class Trained(torch.nn.Module):
    """Stock's optimised form of it has another gradient of the batch norm, which is refused."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 40)
        self.norm = torch.nn.BatchNorm1d(40)
        self.last = torch.nn.Linear(40, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sigmoid(self.norm(self.first(x)))
        return self.last(x * torch.tanh(x)).mean()


def gradients(model, times):
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(1))
    found = []
    for _ in range(times):
        model.zero_grad()
        model(x).backward()
        found.append(isobit.fingerprint({name: part.grad for name, part in model.named_parameters()}))
    return found


class TorchScript(Case):
    def setUp(self):
        super().setUp()
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("ignore")
        isobit.enable()
        self.x = torch.ones(4)

    def assert_refused(self, operator, function, place="torchscript_test.py:"):
        with self.assertRaises(isobit.RefusedError) as caught:
            function()
        self.assertEqual(caught.exception.operator, operator)
        self.assertIn(place, str(caught.exception))
        self.assertIn("or run this part outside isobit", str(caught.exception))
        return str(caught.exception)

    def test_scalar_mathematics(self):
        message = self.assert_refused("aten::exp.float", lambda: with_exp(self.x, 0.5))
        line = 1 + pathlib.Path(__file__).read_text().splitlines().index("    return x * math.exp(scale)")
        self.assertRegex(message, rf"\Aisobit: aten::exp.float is not certified under isobit-\S+\n"
                                  rf"  at     \S*torchscript_test.py:\d+\n"
                                  rf"  in     \S*torchscript_test.py:{line}:16 \(TorchScript, with_exp\)\n"
                                  rf"  do     compute it as a tensor \(.*\), or run this part outside isobit \(with isobit.disabled\(\):\)\Z")
        isobit.disable()
        self.assertEqual(with_exp(self.x, 0.5)[0].item(), torch.tensor(1.0).mul(math.exp(0.5)).item())

    def test_exact_scalars_pass(self):
        self.assertTrue(torch.equal(exact_scalars(self.x, 1.5),
                                    self.x * ((4.0 / 3.0 + 2.0 / 3.0) - 1.5) / math.sqrt(8.0) + 1))
        self.assertEqual(within_a_branch.code.count("sin"), 1)

    def test_a_branch_that_is_not_taken(self):
        self.assert_refused("aten::sin.float", lambda: within_a_branch(self.x, False))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "written.pt"
            self.assert_refused("aten::save", lambda: save_it(self.x, str(path)))
            self.assertFalse(path.exists())

    def test_what_is_called(self):
        self.assert_refused("aten::log.float", lambda: calls_another(self.x))
        self.assert_refused("aten::exp.float", lambda: in_a_fork(self.x, 0.5))

    def test_behind_an_interface(self):
        """Who answers is known when it is called: the operator itself refuses."""
        self.assertTrue(torch.equal(makes_one(self.x, False, 0.5), self.x))
        self.assert_refused("aten::exp.float", lambda: makes_one(self.x, True, 0.5), "in ")

    def test_methods_of_a_module(self):
        scripted = torch.jit.script(Net())
        self.assertEqual(scripted(torch.ones(2, 4)).shape, (2, 4))
        self.assert_refused("aten::cos.float", lambda: scripted.with_cosine(torch.ones(2, 4), 0.3))
        self.assert_refused("aten::cos.float", lambda: scripted._c._get_method("with_cosine")(torch.ones(2, 4), 0.3))

    def test_from_a_file(self):
        isobit.disable()
        file = io.BytesIO()
        torch.jit.save(torch.jit.script(Net()), file)
        isobit.enable()
        file.seek(0)
        loaded = torch.jit.load(file)
        self.assertEqual(loaded(torch.ones(2, 4)).shape, (2, 4))
        self.assert_refused("aten::cos.float", lambda: loaded.with_cosine(torch.ones(2, 4), 0.3))

    def test_while_a_file_is_loaded(self):
        """Loading restores objects by their own code."""
        isobit.disable()
        file = io.BytesIO()
        torch.jit.save(torch.jit.script(RestoredByExp()), file)
        isobit.enable()
        file.seek(0)
        with self.assertRaisesRegex(RuntimeError, "aten::exp.float is not certified"):
            torch.jit.load(file)

    def test_compilation_units_and_graphs(self):
        unit = torch.jit.CompilationUnit("def f(x: float) -> float:\n    return torch.erf(x)\n")
        self.assert_refused("aten::erf.float", lambda: unit.f(0.5), "TorchScript, f")
        graph = torch._C.parse_ir("graph(%x : float):\n  %y : float = aten::tanh(%x)\n  return (%y)")
        self.assert_refused("aten::tanh.float", lambda: torch._C._create_function_from_graph("g", graph)(0.5), "TorchScript, g")
        with self.assertRaisesRegex(RuntimeError, "isobit: aten::tanh.float is not certified"):
            torch._C._jit_interpret_graph(graph, (0.5,))

    def test_a_graph_that_is_changed_after_it_was_looked_at(self):
        unit = torch.jit.CompilationUnit("def f(x: float, y: float) -> float:\n    return x * y\n")
        self.assertEqual(unit.f(3.0, 2.0), 6.0)
        graph = unit.f.graph
        node = next(iter(graph.nodes()))
        inputs = list(graph.inputs())
        changed = graph.create("aten::atan2", inputs, 1)
        changed.insertAfter(node)
        changed.output().setType(torch._C.FloatType.get())
        node.output().replaceAllUsesWith(changed.output())
        isobit.disable()
        isobit.enable()
        self.assert_refused("aten::atan2.float", lambda: unit.f(3.0, 2.0), "TorchScript, f")

    def test_by_name(self):
        for call in (lambda: torch.ops.aten.exp(0.5), lambda: torch.ops.aten.exp.float(0.5),
                     lambda: torch._C._jit_get_operation("aten::exp")[0](0.5)):
            self.assert_refused("aten::exp.float", call, "at ")
        isobit.disable()
        self.assertEqual(torch.ops.aten.exp.float(0.5), math.exp(0.5))

    def test_constants_that_the_compiler_would_fold(self):
        """The compiler runs operators on constants: what it may not run stays in the graph and is refused there."""
        @torch.jit.script
        def folded(x: torch.Tensor) -> torch.Tensor:
            return x * math.exp(0.5)

        self.assertIn("aten::exp", str(folded.graph))
        self.assert_refused("aten::exp.float", lambda: folded(self.x))

    def test_numbers_of_any_type(self):
        """A Scalar is known when it is there: complex products and floats beyond integers are refused then."""
        unit = torch.jit.CompilationUnit("""
def product(x: Tensor, y: Tensor):
    return x.item() * y.item()
def whole(x: float) -> int:
    return int(x)
""")
        two = torch.tensor(2.0)
        self.assertEqual(unit.product(two, two), 4.0)
        self.assertEqual(unit.whole(-7.5), -7)
        self.assert_refused("aten::mul", lambda: self._complex_product(unit), "in ")
        for value in (1e19, math.inf, math.nan, -2.0**63 - 2048):
            with self.assertRaisesRegex(isobit.RefusedError, "a number that no integer holds"):
                unit.whole(value)
        self.assertEqual(unit.whole(-2.0**63), -2**63)

    def _complex_product(self, unit):
        isobit.disable()
        number = torch.tensor(1 + 2j)
        isobit.enable()
        return unit.product(number, number)

    def test_every_call_has_the_same_bits(self):
        """Stock rewrites graphs after two calls: other operators, and gradients by other formulas."""
        torch.manual_seed(5)
        plain = Trained()
        scripted = torch.jit.script(Trained())
        scripted.load_state_dict(plain.state_dict())
        self.assertEqual(gradients(scripted, 5), gradients(plain, 1) * 5)

    def test_what_stock_has_optimised_before(self):
        torch.manual_seed(5)
        plain = Trained()
        expected = gradients(plain, 1)
        isobit.disable()
        scripted = torch.jit.script(Trained())
        scripted.load_state_dict(plain.state_dict())
        for _ in range(3):
            gradients(scripted, 3)
            with isobit.enabled():
                self.assertEqual(gradients(scripted, 1), expected)

    def test_fusers_and_executors_come_back(self):
        def settings():
            return (torch._C._jit_texpr_fuser_enabled(), torch._C._jit_can_fuse_on_cpu(), torch._C._jit_can_fuse_on_gpu(),
                    torch._C._jit_can_fuse_on_cpu_legacy(), torch._C._get_graph_executor_optimize())

        self.assertEqual(settings()[:4], (False,) * 4)
        isobit.disable()
        torch._C._jit_override_can_fuse_on_cpu(True)
        try:
            before = settings()
            with isobit.enabled():
                self.assertEqual(settings()[:4], (False,) * 4)
            self.assertEqual(settings(), before)
            self.assertTrue(before[1])
        finally:
            torch._C._jit_override_can_fuse_on_cpu(False)
        self.assertTrue(torch._C._jit_set_profiling_mode(True))

    def test_stock_optimises_again(self):
        scripted = torch.jit.script(Net())
        x = torch.ones(2, 4)
        for _ in range(3):
            scripted(x)
        isobit.disable()
        for _ in range(3):
            scripted(x)
        self.assertTrue(scripted.get_debug_state().execution_plans)

    def test_the_optimiser_turned_on_again(self):
        torch.manual_seed(5)
        plain = Trained()
        scripted = torch.jit.script(Trained())
        scripted.load_state_dict(plain.state_dict())
        torch._C._jit_set_profiling_mode(True)
        torch._C._jit_set_profiling_executor(True)
        self.assertEqual(gradients(scripted, 5), gradients(plain, 1) * 5)

    def test_other_interpreters(self):
        isobit.disable()
        scripted = torch.jit.script(Net())
        static = torch._C._jit_to_static_module(torch.jit.freeze(scripted.eval())._c)
        light = mobile._load_for_lite_interpreter(io.BytesIO(scripted._save_to_buffer_for_lite_interpreter()))
        x = torch.ones(2, 4)
        self.assertTrue(torch.allclose(static(x), light(x)))
        isobit.enable()
        for name, call in {"StaticModule": lambda: static(x), "LiteScriptModule": lambda: light(x)}.items():
            with self.assertRaises(isobit.RefusedError) as caught:
                call()
            self.assertEqual(caught.exception.operator, f"torch._C.{name}")

    def test_what_a_compiler_made(self):
        for kind in (torch._C._aoti.AOTIModelPackageLoader, torch._C._aoti.AOTIModelContainerRunnerCpu,
                     torch._C._nativert.PyModelRunner):
            with self.assertRaisesRegex(isobit.RefusedError, kind.__name__):
                kind("no file", "model")

    def test_classes_of_libraries(self):
        """Their methods are C++ and pass by everything."""
        isobit.disable()
        profile = torch.classes.profiling._ScriptProfile()
        graph = torch._C.parse_ir("""graph(%p : __torch__.torch.classes.profiling._ScriptProfile):
  %none : NoneType = prim::CallMethod[name="enable"](%p)
  return (%none)""")
        function = torch._C._create_function_from_graph("enables", graph)
        isobit.enable()
        self.assert_refused("prim::CallMethod", profile.enable, "at ")
        self.assert_refused("prim::CallMethod", lambda: function(profile), "TorchScript, enables")

    def test_the_switch_turned_within_a_script(self):
        """The plan that runs stays, though others are compiled again meanwhile."""
        unit = torch.jit.CompilationUnit("def f(x: float) -> float:\n    return torch.exp(x)\n")

        @torch.jit.ignore
        def outside(x: float) -> float:
            with isobit.disabled():
                return float(unit.f(x))

        @torch.jit.script
        def calls_outside(x: float) -> float:
            return outside(x) + outside(2.0 * x)

        for _ in range(3):
            self.assertEqual(calls_outside(0.5), math.exp(0.5) + math.exp(1.0))
            self.assertFalse(_torchscript._running)
        self.assert_refused("aten::exp.float", lambda: unit.f(0.5), "TorchScript, f")

    def test_python_within_a_script(self):
        @torch.jit.ignore
        def in_python(x: torch.Tensor) -> torch.Tensor:
            return torch.special.bessel_j0(x)

        @torch.jit.script
        def calls_python(x: torch.Tensor) -> torch.Tensor:
            return in_python(x)

        with self.assertRaisesRegex(isobit.RefusedError, "aten::special_bessel_j0 is not certified"):
            calls_python(self.x)

    def test_no_grad_and_prints_pass(self):
        @torch.jit.script
        def without(x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                y = x * 2
            return y

        self.assertFalse(without(torch.ones(2, requires_grad=True)).requires_grad)
        self.assertTrue(torch.is_grad_enabled())

    def test_traces(self):
        model = Trained()
        traced: Any = torch.jit.trace(model, torch.ones(2, 6))
        self.assertEqual(gradients(traced, 4), gradients(model, 4))

    def test_traces_of_convolutions(self):
        """The tracer records aten::_convolution, as under stock, with the bits of a call and of its gradients."""
        for name, dims in (("Conv1d", 1), ("Conv2d", 2), ("Conv3d", 3), ("ConvTranspose1d", 1), ("ConvTranspose2d", 2), ("ConvTranspose3d", 3)):
            for more in ({}, {"bias": False}, {"groups": 2, "stride": 2}):
                model = getattr(torch.nn, name)(4, 6, 3, **more)
                for x in (torch.randn(2, 4, *[6] * dims), torch.randn(4, *[7] * dims)):
                    traced: Any = torch.jit.trace(model, x)
                    with isobit.disabled():
                        stock: Any = torch.jit.trace(model, x)
                    self.assertEqual([node.kind() for node in traced.graph.nodes()], [node.kind() for node in stock.graph.nodes()])
                    self.assertIn("aten::_convolution", [node.kind() for node in traced.graph.nodes()])
                    for _ in range(3):
                        found, expected = traced(x), model(x)
                        self.assertTrue(torch.equal(found, expected), (name, more))
                        of = [torch.autograd.grad(y.square().sum(), model.parameters()) for y in (found, expected)]
                        self.assertTrue(all(map(torch.equal, *of)), (name, more))
        x = torch.randn(1, 4, 8, 8, dtype=torch.bfloat16)
        narrow = torch.nn.Conv2d(4, 6, 3).bfloat16()
        self.assertTrue(torch.equal(torch.jit.trace(narrow, x)(x), narrow(x)))  # type: ignore[operator]

    def test_a_traced_network_is_saved_and_read(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm, self.attention = torch.nn.Conv2d(1, 8, 3, padding="same"), torch.nn.BatchNorm2d(8), \
                    torch.nn.MultiheadAttention(8, 2, batch_first=True)

            def forward(self, x):
                one, other = torch.relu(self.norm(self.first(x))).chunk(2, 1)  # compiled: prim::ConstantChunk
                tokens = torch.cat([other, one], 1).flatten(2).mT
                return self.attention(tokens, tokens, tokens)[0]

        model, x = Net().eval(), torch.randn(2, 1, 5, 5)
        traced: Any = torch.jit.trace(model, x)
        file = io.BytesIO()
        torch.jit.save(traced, file)
        file.seek(0)
        read: Any = torch.jit.load(file)
        for _ in range(3):
            self.assertTrue(torch.equal(read(x), model(x)))
            self.assertTrue(torch.equal(traced(x), model(x)))

    def test_what_is_refused_is_refused_while_it_is_traced(self):
        with self.assertRaisesRegex(isobit.RefusedError, "convolution is certified for float32 only, got Double"):
            torch.jit.trace(torch.nn.Conv1d(1, 1, 1).double(), torch.ones(1, 1, 4, dtype=torch.float64))

    def test_compiled_before_isobit(self):
        """What ran before the package was there holds stock's code; it is compiled again."""
        self.assertEqual(run_python("""
import math, warnings
warnings.simplefilter("ignore")
import torch

unit = torch.jit.CompilationUnit("def f(x: float) -> float:\\n    return torch.exp(x)\\n")
operator = torch._C._jit_get_operation("aten::exp")[0]
for _ in range(4):
    unit.f(0.5)
import isobit
with isobit.enabled():
    for call in (lambda: unit.f(0.5), lambda: operator(0.5), lambda: torch.ops.aten.exp.float(0.5)):
        try:
            print(call())
        except RuntimeError as error:
            print("isobit: aten::exp.float is not certified" in str(error))
print(unit.f(0.5) == math.exp(0.5))
"""), "True\n" * 4)

    def test_the_older_executor(self):
        self.assertEqual(run_python("""
import warnings
warnings.simplefilter("ignore")
import torch, isobit
unit = torch.jit.CompilationUnit("def f(x: float) -> float:\\n    return x * 2\\n")
with isobit.enabled():
    try:
        unit.f(1.0)
    except isobit.RefusedError as error:
        print("unset TORCH_JIT_DISABLE_NEW_EXECUTOR" in str(error))
print(unit.f(1.0))
""", TORCH_JIT_DISABLE_NEW_EXECUTOR="1"), "True\n2.0\n")


class RestoredByExp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.value = 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.value

    @torch.jit.export
    def __getstate__(self):
        return (self.value, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[float, bool]):
        self.value = math.exp(state[0])
        self.training = state[1]


if __name__ == "__main__":
    unittest.main()
