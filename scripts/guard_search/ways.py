"""The ways: what a program would write, what is expected of it, and what docs/guard.md says beside it."""

import copy
import dataclasses
import io
import math
import pickle
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

import isobit


@dataclasses.dataclass
class Way:
    name: str
    expected: str  # "covered", "refused" or "outside"
    note: str
    call: Callable[[], Any] = lambda: None

    @property
    def outside(self) -> bool:
        return self.expected == "outside"


def numbers(*shape: int) -> torch.Tensor:
    return torch.linspace(-2, 2, math.prod(shape)).reshape(shape)


def in_16_bits(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return functional.linear(x, x, x[0]).exp()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(x)
        return torch.exp(x) * x

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (x,) = context.saved_tensors
        return gradient * torch.tanh(x)


class Wrapped(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        return super().__torch_function__(function, types, arguments, keywords or {})


def gradients(function: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> Any:
    x = numbers(*(shape or (7, 5))).requires_grad_()
    y = function(x)
    y.sum().backward()
    return y, x.grad


def second_derivatives() -> Any:
    x = numbers(7).requires_grad_()
    (first,) = torch.autograd.grad(x.exp().tanh().sum(), x, create_graph=True)
    return torch.autograd.grad(first.square().sum(), x)


def in_a_thread(call: Callable[[], Any]) -> Any:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def hooked() -> Any:
    x = numbers(5).requires_grad_()
    x.register_hook(lambda gradient: torch.sigmoid(gradient))
    (x * x).sum().backward()
    return x.grad


def trained(optimizer: Callable[[Any], Any]) -> Any:
    model = torch.nn.Linear(5, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(numbers(*parameter.shape))
    steps = optimizer(model.parameters())
    for _ in range(3):
        steps.zero_grad()
        functional.mse_loss(model(numbers(4, 5)), numbers(4, 3)).backward()
        steps.step()
    return list(model.parameters())


def through_a_file(x: torch.Tensor) -> torch.Tensor:
    buffer = io.BytesIO()
    torch.save(x, buffer)
    buffer.seek(0)
    return torch.exp(torch.load(buffer))


def defined_under_the_switch() -> Any:
    library = torch.library.Library("isobit_ways", "FRAGMENT")
    if not hasattr(torch.ops.isobit_ways, "own"):
        library.define("own(Tensor x) -> Tensor")
    library.impl("own", lambda x: torch.exp(x), "CPU")
    try:
        return torch.ops.isobit_ways.own(numbers(5))
    finally:
        library._destroy()


def replaced_before() -> Any:
    library = torch.library.Library("aten", "IMPL")
    try:
        with isobit.disabled():
            library.impl("mm", lambda a, _b: torch.zeros_like(a), "AutogradCPU")
        return numbers(3, 3) @ numbers(3, 3)
    finally:
        library._destroy()


def replaced_under_the_switch() -> Any:
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("mm", lambda a, _b: torch.zeros_like(a), "CPU")
        return numbers(3, 3) @ numbers(3, 3)
    finally:
        library._destroy()


WAYS = [
    Way("functions and methods of tensors", "covered", "or refused, operator by operator ([coverage](coverage.md))",
        lambda: numbers(33).exp().softmax(0)),
    Way("an operator that no list has", "refused", "`torch.special.bessel_j0` stands for all of them",
        lambda: torch.special.bessel_j0(numbers(3))),
    Way("`torch.ops.aten`, `torch._C._nn`", "covered", "they call the dispatcher",
        lambda: torch.ops.aten.gelu.default(numbers(33))),
    Way("autograd", "covered", "formulas are operators", lambda: gradients(functional.gelu)),
    Way("`autograd.Function`", "covered", "what it calls is", lambda: gradients(Cube.apply)),
    Way("hooks on tensors and modules", "covered", "what they call is", hooked),
    Way("second derivatives", "covered", "", second_derivatives),
    Way("optimizers, foreach", "covered", "their host scalars, too", lambda: trained(lambda p: torch.optim.AdamW(p, lr=0.01))),
    Way("optimizers, `fused=True`", "covered", "the certified kernel",
        lambda: trained(lambda p: torch.optim.AdamW(p, lr=0.01, fused=True))),
    Way("random numbers", "covered", "of the contract's generator", lambda: torch.randn(33)),
    Way("memory that nobody has written", "covered", "NaN", lambda: torch.empty(33)),
    Way("subclasses of tensors", "covered", "", lambda: torch.exp(numbers(33).as_subclass(Wrapped)).as_subclass(torch.Tensor)),
    Way("another thread", "covered", "the switch belongs to the process", lambda: in_a_thread(lambda: numbers(33).exp())),
    Way("files, pickles, copies", "covered", "", lambda: (through_a_file(numbers(33)), copy.deepcopy(numbers(5)).exp(),
                                                          pickle.loads(pickle.dumps(numbers(5))).exp())),
    Way("functorch: `vmap`, `grad`, `jacrev`", "covered", "",
        lambda: torch.vmap(torch.func.grad(lambda x: x.exp().sum()))(numbers(4, 5))),
    Way("functorch: forward mode", "covered", "", lambda: torch.func.jvp(torch.tanh, (numbers(3),), (numbers(3),))),
    Way("an operator that a library defines under the switch", "refused", "before any kernel of it is there",
        defined_under_the_switch),
    Way("an operator that a library replaced before the switch went on", "refused", "before autograd and behind it",
        replaced_before),
    Way("an operator that Python replaces under the switch", "refused", "`torch.library`, at once", replaced_under_the_switch),
    Way("16-bit floats on the CPU", "covered", "[types](#types)", lambda: numbers(5).half() + 1),
    Way("complex numbers", "refused", "copied only", lambda: torch.complex(numbers(5), numbers(5)) * 2),
    Way("`torch.fft`", "refused", "", lambda: torch.fft.fft(numbers(8))),
    Way("`torch.linalg`: eigenvalues, singular values", "refused", "systems, Cholesky, LU and QR are certified",
        lambda: torch.linalg.svd(numbers(3, 3))),
    Way("sparse tensors", "refused", "", lambda: numbers(3, 3).to_sparse() @ numbers(3, 3)),
    Way("quantized tensors", "refused", "", lambda: torch.quantize_per_tensor(numbers(5), 0.1, 0, torch.qint8)),
    Way("nested tensors", "refused", "", lambda: torch.nested.nested_tensor([numbers(2), numbers(3)]) * 2),
    Way("mkldnn tensors", "refused", "", lambda: numbers(3, 3).to_mkldnn() + numbers(3, 3).to_mkldnn()),
    Way("`torch.autocast` on the CPU", "covered", "[types](#types)", lambda: in_16_bits(numbers(3, 3))),
    Way("TorchScript", "covered", "operators", lambda: torch.jit.trace(torch.exp, numbers(5))(numbers(33))),
    Way("TorchScript's own arithmetic", "refused", "`aten::exp.float` and its like",
        lambda: torch.ops.aten.exp.float(0.3)),
    Way("`torch.compile`", "refused", "[above](#ways-past-the-dispatcher)", lambda: torch.compile(torch.exp)(numbers(3))),
    Way("`torch.export`", "refused", "[above](#ways-past-the-dispatcher)",
        lambda: torch.export.export(torch.nn.Tanh(), (numbers(3),))),
    Way("CUDA graphs", "refused", "`replay`", lambda: torch.cuda.CUDAGraph.replay(None)),
    Way("a graph of the other setting of the switch", "refused", "", lambda: BEFORE.backward()),
    Way("a backward from a `GradientEdge`", "refused", "", lambda: torch.autograd.backward(
        torch.autograd.graph.get_gradient_edge(numbers(2).requires_grad_().exp().sum()))),
    Way("NumPy on a tensor's memory, `from_numpy`, DLPack", "outside", "NumPy's arithmetic is NumPy's"),
    Way("arithmetic on Python's floats (`.item()`, `math.exp`)", "outside", "but for torch.optim, schedules and initial weights"),
    Way("a C++ extension on `data_ptr`, `at::native::`", "outside", "the dispatcher does not see it"),
    Way("dispatch keys excluded or named by hand (`_ExcludeDispatchKeyGuard`, `redispatch`)", "outside",
        "nothing in a training does so"),
    Way("processes that the program starts", "outside", "but DataLoader's workers: call `isobit.enable()` there"),
]

BEFORE = (numbers(3).requires_grad_() * 2).sum()  # recorded at import, with the switch off
assert not isobit.is_enabled()
