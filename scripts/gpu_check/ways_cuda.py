"""Ways: graphs, memory, generators and code that reaches the device without an operator. What may hurt it comes last."""

import importlib
import os
import tempfile

import torch
from torch.nn import functional

from gpu_check.ways_base import (
    Unavailable,
    Way,
    gradients,
    need_real,
    normal,
    on_device,
    positive,
    real,
    wait,
    wide,
)
from gpu_check.ways_streams import WORK

WAYS = []
# ---- generators: none of the device's is drawn from

DRAWS = {
    "randn, rand, randint": lambda p: (torch.randn(99, device=p), torch.rand(9, device=p), torch.randint(9, (9,), device=p)),
    "randperm": lambda p: torch.randperm(99, device=p),
    "normal_, uniform_": lambda p: (torch.zeros(99, device=p).normal_(1, 2), torch.zeros(99, device=p).uniform_(-1, 3)),
    "exponential_": lambda p: torch.zeros(99, device=p).exponential_(0.3),
    "log_normal_": lambda p: torch.zeros(99, device=p).log_normal_(),
    "cauchy_": lambda p: torch.zeros(99, device=p).cauchy_(),
    "geometric_": lambda p: torch.zeros(99, device=p).geometric_(0.3),
    "bernoulli": lambda p: torch.bernoulli(torch.full((99,), 0.3, device=p)),
    "bernoulli_": lambda p: torch.zeros(99, device=p).bernoulli_(0.3),
    "random_": lambda p: torch.zeros(99, device=p).random_(),
    "multinomial": lambda p: torch.multinomial(positive(p, 3, 40), 7),
    "multinomial, replacing": lambda p: torch.multinomial(positive(p, 40), 99, True),
    "normal of tensors": lambda p: torch.normal(wide(p, 9), positive(p, 9)),
    "poisson": lambda p: torch.poisson(positive(p, 9)),
    "binomial": lambda p: torch.binomial(positive(p, 9) * 0 + 9, positive(p, 9)),
    "_standard_gamma": lambda p: torch._standard_gamma(positive(p, 9)),
    "_sample_dirichlet": lambda p: torch._sample_dirichlet(positive(p, 3, 9)),
    "dropout": lambda p: gradients(functional.dropout, wide(p, 99)),
    "alpha_dropout": lambda p: functional.alpha_dropout(wide(p, 99), training=True),
    "feature dropout": lambda p: functional.dropout2d(wide(p, 4, 9, 3, 3)),
    "rrelu": lambda p: functional.rrelu(wide(p, 99), training=True),
    "gumbel_softmax": lambda p: functional.gumbel_softmax(wide(p, 5, 9)),
    "nn.init": lambda p: [
        f(torch.zeros(9, 9, device=p))
        for f in (torch.nn.init.xavier_normal_, torch.nn.init.kaiming_uniform_, torch.nn.init.trunc_normal_)
    ],
    "orthogonal_": lambda p: torch.nn.init.orthogonal_(torch.zeros(5, 5, device=p)),
    "attention with dropout": lambda p: functional.scaled_dot_product_attention(*[normal(p, 1, 2, 9, 8)] * 3, dropout_p=0.3),
    "distributions": lambda p: torch.distributions.Normal(wide(p, 9), positive(p, 9)).sample((3,)),
    "a CPU generator": lambda p: torch.randn(9, generator=torch.Generator().manual_seed(4), device=p),
    "half": lambda p: torch.randn(9, device=p, dtype=torch.float16),
    "float64": lambda p: torch.randn(9, device=p, dtype=torch.float64),
    "randn, 0 elements, then 1": lambda p: (torch.randn(0, device=p), torch.randn(1, device=p)),
}


def with_generator(call):
    """The device's generator is put somewhere else first: nothing may change."""

    def run(place):
        if real(place):
            torch.cuda.manual_seed(99)
            torch.cuda._set_rng_state_offset(400) if hasattr(torch.cuda, "_set_rng_state_offset") else None
        torch.manual_seed(7) if not real(place) else torch.default_generator.manual_seed(7)
        return call(place)

    return run


def own_generator(place, kind="own"):
    if not on_device(place):
        return torch.randn(9, generator=torch.Generator())
    generator = torch.Generator(place) if kind == "own" else torch.cuda.default_generators[0]
    return torch.randn(9, device=place, generator=generator), torch.zeros(9, device=place).bernoulli_(0.3, generator=generator)


def states(place):
    need_real(place)
    state = torch.get_rng_state()
    kept = torch.cuda.get_rng_state() if on_device(place) else None
    first = torch.randn(9, device=place)
    with torch.random.fork_rng(devices=[0] if on_device(place) else []):
        torch.manual_seed(3)
        torch.randn(9, device=place)
    second = torch.randn(9, device=place)
    torch.set_rng_state(state)
    if kept is not None:
        torch.cuda.set_rng_state(kept)
    return first, second, torch.randn(9, device=place)


WAYS += [Way(f"random: {name}", with_generator(call)) for name, call in DRAWS.items()]
WAYS += [
    Way("random: torch.Generator('cuda')", own_generator),
    Way("random: the device's default generator", lambda p: own_generator(p, "default")),
    Way("random: states kept and set", states),
]


# ---- memory that nobody has written, and allocators


def dirty(place):
    """So that fresh memory holds something."""
    x = [torch.full((1000,), 3.25, device=place) for _ in range(8)]
    wait(place)
    del x


def unwritten(make):
    def call(place):
        dirty(place)
        return make(place)

    return call


WAYS += [
    Way(f"unwritten memory: {name}", unwritten(call), outside=outside)
    for name, call, outside in (
        ("empty", lambda p: torch.empty(999, device=p), ""),
        ("empty_like", lambda p: torch.empty_like(wide(p, 999)), ""),
        ("empty_strided", lambda p: torch.empty_strided((9, 9), (1, 9), device=p), ""),
        ("new_empty", lambda p: wide(p, 3).new_empty(999), ""),
        ("new", lambda p: wide(p, 3).new(999), ""),
        ("resize_", lambda p: wide(p, 3).resize_(999), ""),
        ("half", lambda p: torch.empty(999, device=p, dtype=torch.float16), ""),
        ("complex", lambda p: torch.empty(99, device=p, dtype=torch.complex64), ""),
        ("int64", lambda p: torch.empty(99, device=p, dtype=torch.int64), ""),
        ("the legacy constructor", lambda p: torch.cuda.FloatTensor(999) if on_device(p) else torch.FloatTensor(999), ""),
        ("out= resized", lambda p: torch.add(wide(p, 9), 1, out=torch.empty(0, device=p)), ""),
        (
            "UntypedStorage",
            lambda p: torch.tensor([], device=p).set_(torch.UntypedStorage(4000, device=p)).exp(),
            "torch.UntypedStorage(n) is outside",
        ),
        ("to_empty", lambda p: torch.nn.Linear(9, 9).to_empty(device=p).weight, ""),
        ("nonzero, masks", lambda p: (wide(p, 99) > 0).nonzero(), ""),
        ("dropout's mask", lambda p: torch.native_dropout(wide(p, 9), 0.3, True), ""),
        ("pinned", lambda p: torch.empty(999, pin_memory=real(p)), ""),
        ("in a MemPool", lambda p: in_a_pool(p), ""),
        ("index of an empty tensor", lambda p: torch.empty(0, 3, device=p).mean(0), ""),
    )
]


def in_a_pool(place):
    if not real(place):
        need_real(place)
        return torch.empty(999)
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        x = torch.empty(999, device=place)
    return x


def everything(place):
    need_real(place)
    return [work(normal(place, 300, 300)) for work in WORK.values()]


SEGMENTS = (
    ("PYTORCH_ALLOC_CONF", "expandable_segments:True"),
    ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    ("NVIDIA_TF32_OVERRIDE", "1"),
    ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1"),
    ("PYTORCH_TUNABLEOP_ENABLED", "1"),
    ("TORCH_BLAS_PREFER_CUBLASLT", "1"),
)
ASYNC = (
    ("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync"),
    ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"),
    ("CUDA_LAUNCH_BLOCKING", "1"),
)
WAYS += [
    Way(f"environment: {name}", call, environment=environment, seconds=60)
    for name, environment in (
        ("expandable segments, TF32 overrides, tunable", SEGMENTS),
        ("cudaMallocAsync, blocking launches", ASYNC),
    )
    for call in (everything,)
]
WAYS += [
    Way(
        "environment: unwritten memory of cudaMallocAsync",
        unwritten(lambda p: (need_real(p), torch.empty(999, device=p))[1]),
        environment=ASYNC,
    )
]


# ---- copies and sums among devices


def communication(name, *arguments, **keywords):
    def call(place):
        need_real(place)
        if not on_device(place):
            raise Unavailable("devices alone")
        module = importlib.import_module("torch.cuda.comm")  # which PyTorch does not load by itself
        return getattr(module, name)(*[a(place) if callable(a) else a for a in arguments], **keywords)

    return call


def data_parallel(place):
    need_real(place)
    net = torch.nn.Linear(9, 5).to(place)
    with torch.no_grad():
        net.weight.copy_(normal(place, 5, 9))
        net.bias.zero_()
    net = torch.nn.DataParallel(net, device_ids=[0]) if on_device(place) else net
    y = net(wide(place, 7, 9))
    y.sum().backward()
    return y, [p.grad for p in net.parameters()]


def nccl(name):
    def call(place):
        need_real(place)
        x = wide(place, 99)
        if on_device(place):
            if not torch.cuda.nccl.is_available([x]):
                raise Unavailable("no NCCL")
            if name == "all_reduce":
                torch.cuda.nccl.all_reduce([x])
            else:
                torch.cuda.nccl.reduce([x], x)
        return x

    return call


def alone_in_a_group(operation):
    """One rank: what NCCL is asked to do there is a copy, but for an operation that scales."""

    def call(place):
        need_real(place)
        import torch.distributed as distributed

        x = wide(place, 99)
        if not on_device(place):
            return x
        if not distributed.is_nccl_available():
            raise Unavailable("no NCCL")
        with tempfile.TemporaryDirectory() as folder:
            distributed.init_process_group(
                "nccl", init_method=f"file://{os.path.join(folder, 'store')}", rank=0, world_size=1, device_id=torch.device(place)
            )
            try:
                operation(distributed, x)
                torch.cuda.synchronize()
            finally:
                distributed.destroy_process_group()
        return x

    return call


WAYS += [
    Way(f"comm: {name}", call, reference=reference, stock="rank" not in name and "group" not in name)
    for name, call, reference in (
        ("broadcast", communication("broadcast", lambda p: wide(p, 9), devices=[0]), lambda p: [wide(p, 9)]),
        (
            "broadcast_coalesced",
            communication("broadcast_coalesced", lambda p: [wide(p, 9)], devices=[0]),
            lambda p: [[wide(p, 9)]],
        ),
        ("reduce_add of one", communication("reduce_add", lambda p: [wide(p, 9)], destination=0), lambda p: wide(p, 9)),
        (
            "reduce_add of two",
            communication("reduce_add", lambda p: [wide(p, 9), wide(p, 9, name="b")], destination=0),
            lambda p: wide(p, 9) + wide(p, 9, name="b"),
        ),
        (
            "reduce_add_coalesced of two",
            communication("reduce_add_coalesced", lambda p: [[wide(p, 9)], [wide(p, 9, name="b")]], destination=0),
            lambda p: [wide(p, 9) + wide(p, 9, name="b")],
        ),
        (
            "gather",
            communication("gather", lambda p: [wide(p, 9), wide(p, 9)], destination=0),
            lambda p: torch.cat([wide(p, 9)] * 2),
        ),
        ("scatter", communication("scatter", lambda p: wide(p, 9), devices=[0]), lambda p: [wide(p, 9)]),
        ("DataParallel on one device", data_parallel, None),
        ("nccl.all_reduce of one", nccl("all_reduce"), None),
        ("nccl.reduce of one", nccl("reduce"), None),
        ("all_reduce of one rank", alone_in_a_group(lambda d, x: d.all_reduce(x)), None),
        ("all_reduce of one rank, AVG", alone_in_a_group(lambda d, x: d.all_reduce(x, d.ReduceOp.AVG)), None),
        ("reduce_scatter of one rank", alone_in_a_group(lambda d, x: d.reduce_scatter_tensor(x, x.clone())), None),
        (
            "all_reduce of one rank that scales",
            alone_in_a_group(lambda d, x: d.all_reduce(x, d._make_nccl_premul_sum(0.3))),
            lambda p: wide(p, 99),
        ),
        (
            "a process group's backend that scales",
            alone_in_a_group(
                lambda d, x: d.distributed_c10d._get_default_group()._get_backend(x.device).allreduce([x], _options(d)).wait()
            ),
            lambda p: wide(p, 99),
        ),
    )
]


def _options(distributed):
    options = distributed.AllreduceOptions()
    options.reduceOp = distributed._make_nccl_premul_sum(0.3)
    return options


# ---- code that no operator stands for

MEMORY = "code that computes on a tensor's memory itself"
SOURCE = """extern "C" __global__ void fast(float* y, const float* x, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = __expf(x[i]);
}"""


def jiterated(place):
    need_real(place)
    return torch.cuda.jiterator._create_jit_fn("template <typename T> T own(T x) { return ::exp(x) * T(0.3); }")(
        normal(place, 99)
    )


def jiterated_before(place, function):
    need_real(place)
    return function(normal(place, 99))


def compiled_kernel(place):
    need_real(place)
    if not hasattr(torch.cuda, "_compile_kernel"):
        raise Unavailable("no torch.cuda._compile_kernel")
    x, y = normal(place, 99), torch.zeros(99, device=place)
    torch.cuda._compile_kernel(SOURCE, "fast")(grid=(2, 1, 1), block=(64, 1, 1), args=[y, x, 99])
    return y


def by_another_library(name):
    def call(place):
        module = __import__(name)
        need_real(place)
        x = normal(place, 99)
        if name == "cupy":
            return torch.from_dlpack(module.exp(module.from_dlpack(x)))
        from numba import cuda

        return cuda.as_cuda_array(x).copy_to_host().tolist()

    return call


def triton_kernel(place):
    """Triton reads a kernel's source from its file, so there has to be one."""
    need_real(place)
    import importlib.util

    source = (
        "import triton\nimport triton.language as tl\n@triton.jit\ndef own(x, y, n, B: tl.constexpr):\n    i = tl.arange(0, B)\n"
        "    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)), mask=i < n)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "isobit_way.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        spec = importlib.util.spec_from_file_location("isobit_way", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        x, y = normal(place, 99), torch.zeros(99, device=place)
        module.own[(1,)](x, y, 99, B=128)
        return y


def scripted(place, function=None):
    x = normal(place, 99)
    function = function or torch.jit.script(_fusible)
    for _ in range(4):
        y = function(x, x)
    return y


def _fusible(x: torch.Tensor, y: torch.Tensor):
    return torch.tanh(x * y + 0.3) * torch.sigmoid(x)


def fused_before(place):
    """Called until the fuser has made a kernel of it."""
    function = torch.jit.script(_fusible)
    with torch.jit.fuser("fuser1"):
        for _ in range(4):
            function(normal(place, 99), normal(place, 99))
    return function


def script_with_gradients(place):
    return gradients(torch.jit.script(_fusible), normal(place, 99), normal(place, 99))


def compiled_before(place):
    need_real(place)
    if not on_device(place):
        return lambda x: x.exp() * 0.3
    function = torch.compile(lambda x: x.exp() * 0.3, backend="aot_eager")
    function(normal(place, 99))
    return function


WAYS += [
    Way(f"no operator: {name}", call, outside=outside, before=before, reference=reference, seconds=60)
    for name, call, outside, before, reference in (
        ("jiterator", jiterated, "", None, None),
        (
            "jiterator, made before",
            jiterated_before,
            "",
            lambda p: torch.cuda.jiterator._create_jit_fn("template <typename T> T own(T x) { return ::exp(x) * T(0.3); }"),
            None,
        ),
        ("torch.cuda._compile_kernel (NVRTC)", compiled_kernel, MEMORY, None, None),
        ("a Triton kernel", triton_kernel, MEMORY, None, None),
        ("CuPy", by_another_library("cupy"), MEMORY, None, None),
        ("numba.cuda", by_another_library("numba"), MEMORY, None, None),
        ("torch.compile", lambda p: torch.compile(torch.exp, backend="aot_eager")(normal(p, 9)), "", None, None),
        ("torch.compile, made before", lambda p, f: f(normal(p, 99)), "", compiled_before, None),
        ("jit.script", scripted, "", None, None),
        ("jit.script, fused before", scripted, "", fused_before, None),
        ("jit.script, gradients", script_with_gradients, "", None, None),
        ("torch.export", lambda p: torch.export.export(torch.nn.Tanh(), (normal(p, 3),)).module()(normal(p, 3)), "", None, None),
    )
]


# ---- graphs: what was captured runs without an operator being called


def captured(place, stays=True):
    """A graph of a product and an exponential, with its input and output."""
    need_real(place)
    if not on_device(place):
        return None
    x = normal(place, 64, 64)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            (x @ x).sin()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle() if stays else None):
        y = (x @ x).sin()
    return graph, x, y


def replayed(replay):
    def call(place, prepared):
        new = normal(place, 64, 64, name="new")
        if not on_device(place):
            return (new @ new).sin()
        graph, x, y = prepared
        x.copy_(new)
        replay(graph)
        torch.cuda.synchronize()
        return y

    return call


def now(replay):
    return lambda place: replayed(replay)(place, captured(place, False))


def by_the_runtime(graph):
    import ctypes

    runtime = ctypes.CDLL("libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
    code = runtime.cudaGraphLaunch(
        ctypes.c_void_p(graph.raw_cuda_graph_exec()), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    )
    if code != 0:
        raise Unavailable(f"cudaGraphLaunch: {code}")


def callables(place, function=None):
    need_real(place)
    x = normal(place, 7, 9)
    return (function or graphed(place))(x)


def graphed(place):
    need_real(place)
    net = torch.nn.Linear(9, 5).to(place)
    with torch.no_grad():
        net.weight.copy_(normal(place, 5, 9))
        net.bias.zero_()
    return torch.cuda.make_graphed_callables(net, (normal(place, 7, 9),)) if on_device(place) else net


WAYS += [
    Way(f"graphs: {name}", call, before=before, seconds=40, outside=outside, stock=stock)
    for name, call, before, outside, stock in (
        ("captured before, replayed", replayed(lambda graph: graph.replay()), captured, "", True),
        (
            "captured before, replayed by the base class",
            replayed(lambda graph: torch._C._CUDAGraph.replay(graph)),
            captured,
            "",
            True,
        ),
        (
            "captured before, replayed by super()",
            replayed(lambda graph: super(torch.cuda.CUDAGraph, graph).replay()),
            captured,
            "",
            True,
        ),
        (
            "captured before, launched by the runtime",
            replayed(by_the_runtime),
            captured,
            "a C++ extension, and what else calls CUDA itself",
            True,
        ),
        ("captured under the switch, replayed", now(lambda graph: graph.replay()), None, "", True),
        (
            "captured under the switch, replayed by the base class",
            now(lambda graph: torch._C._CUDAGraph.replay(graph)),
            None,
            "",
            False,
        ),
        ("make_graphed_callables before", callables, graphed, "", True),
        ("make_graphed_callables under the switch", callables, None, "", True),
    )
]
