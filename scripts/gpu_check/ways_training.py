"""Ways: what a training does around its operators: optimizers, autograd, transforms, determinism, modes, saved tensors."""

import contextlib
import copy
import io
import pickle
import sys

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from gpu_check.ways_base import Unavailable, Way, deterministic, gradients, labels, need_real, normal, on_device, positive, wide


def model(place):
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(144, 7)
    ).to(place)
    with torch.no_grad():
        for i, parameter in enumerate(layers.parameters()):
            parameter.copy_(normal(place, *parameter.shape, name=f"parameter {i}") * 0.1)
    return layers


def loss_of(net, place):
    return functional.cross_entropy(net(normal(place, 6, 1, 8, 8)), labels(place, 7, 6))


@contextlib.contextmanager
def capturable_on_the_cpu():
    """PyTorch has this form on devices alone, and asks a function which; the formulas are the same anywhere."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("torch.optim.") and hasattr(module, "_get_capturable_supported_devices")
    ]
    before = [module._get_capturable_supported_devices for module in modules]
    for module in modules:
        module._get_capturable_supported_devices = lambda *_arguments, **_keywords: ["cpu", "cuda"]
    try:
        yield
    finally:
        for module, function in zip(modules, before, strict=True):
            module._get_capturable_supported_devices = function


def trained(name, place, steps=3, **options):
    kind = getattr(torch.optim, name, None)
    if kind is None:
        raise Unavailable(f"no torch.optim.{name}")
    net = model(place)
    parameters = [p for p in net.parameters() if name != "Muon" or p.dim() == 2]
    optimizer = kind(parameters, **options)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(net, place)
        loss.backward()
        return loss

    with capturable_on_the_cpu() if options.get("capturable") and not on_device(place) else contextlib.nullcontext():
        for _ in range(steps):
            optimizer.step(closure)
    return list(net.parameters()), list(net.buffers()), closure()


OPTIMIZERS = (
    "Adam",
    "AdamW",
    "SGD",
    "Adagrad",
    "RMSprop",
    "NAdam",
    "RAdam",
    "Adadelta",
    "Adamax",
    "ASGD",
    "Rprop",
    "LBFGS",
    "Muon",
    "Adafactor",
)
FORMS = {
    "default": {},
    "foreach": {"foreach": True},
    "single": {"foreach": False},
    "fused": {"fused": True},
    "capturable": {"capturable": True},
    "capturable, foreach": {"capturable": True, "foreach": True},
}
WAYS = [
    Way(f"optimizer: {name}, {form}", lambda p, name=name, options=options: trained(name, p, **options))
    for name in OPTIMIZERS
    for form, options in FORMS.items()
    if form == "default" or name not in ("LBFGS", "Muon")
]
WAYS += [
    Way(f"optimizer: {name}", call)
    for name, call in {
        "Adam, amsgrad, learning rate a tensor": lambda p: trained("Adam", p, amsgrad=True, lr=torch.tensor(0.01), foreach=False),
        "Adam, fused, learning rate on the device": lambda p: trained("Adam", p, fused=True, lr=torch.tensor(0.01, device=p)),
        "AdamW, fused, maximizing": lambda p: trained("AdamW", p, fused=True, maximize=True),
        "SGD, nesterov": lambda p: trained("SGD", p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        "SGD, fused": lambda p: trained("SGD", p, lr=0.1, momentum=0.9, fused=True),
    }.items()
]


# ---- GradScaler, clipping, averages


def scaled(place, unscale_only):
    scaler = torch.amp.GradScaler("cuda", init_scale=3.0)
    net = model(place)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if unscale_only:  # past what isobit replaces
        scaler._lazy_init_scale_growth_tracker(torch.device(place))
        loss_of(net, place).backward()
    else:
        scaler.scale(loss_of(net, place)).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return list(net.parameters())


def clipped(place, clip, *arguments, **options):
    net = model(place)
    (loss_of(net, place) * 99).backward()
    return clip(net.parameters(), *arguments, **options), [x.grad for x in net.parameters()]


def averaged(place):
    net, average = model(place), torch.optim.swa_utils.AveragedModel(model(place))
    for _ in range(3):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(0.9)
        average.update_parameters(net)
    return list(average.parameters())


def foreach(name, *arguments):
    return lambda p: getattr(torch, f"_foreach_{name}")(
        [wide(p, 33), wide(p, 5, 7)], *[a(p) if callable(a) else a for a in arguments]
    )


def _lists(p):
    return [normal(p, 33), normal(p, 5, 7)]


WAYS += [
    Way(f"training: {name}", call)
    for name, call in {
        "GradScaler": lambda p: scaled(p, False),
        "GradScaler.unscale_ alone": lambda p: scaled(p, True),
        "clip_grad_norm_": lambda p: clipped(p, torch.nn.utils.clip_grad_norm_, 0.1),
        "clip_grad_norm_, foreach": lambda p: clipped(p, torch.nn.utils.clip_grad_norm_, 0.1, foreach=True),
        "clip_grad_norm_, 3": lambda p: clipped(p, torch.nn.utils.clip_grad_norm_, 0.1, 3.0),
        "clip_grad_value_": lambda p: clipped(p, torch.nn.utils.clip_grad_value_, 0.1),
        "AveragedModel": averaged,
        **{
            f"_foreach_{name}": foreach(name)
            for name in ("exp", "sqrt", "rsqrt", "norm", "max", "neg", "tanh", "reciprocal", "lgamma", "sigmoid", "round")
        },
        **{f"_foreach_{name}, lists": foreach(name, _lists) for name in ("add", "mul", "div", "pow", "maximum", "sub")},
        **{f"_foreach_{name}, number": foreach(name, 0.3) for name in ("add", "mul", "div", "pow", "clamp_max")},
        **{f"_foreach_{name}, three": foreach(name, _lists, _lists, 0.3) for name in ("addcmul", "addcdiv")},
        "_foreach_lerp": foreach("lerp", _lists, 0.3),
        "_foreach_add, a tensor": foreach("add", lambda p: torch.tensor(0.1, device=p)),
        "_foreach_mul_ of many types": lambda p: torch._foreach_mul([wide(p, 9), labels(p, 9, 9)], 0.3),
        "_foreach_copy_": lambda p: torch._foreach_copy_([torch.zeros(9, device=p)], [wide(p, 9).double()]),
        "_fused_adam_ directly": lambda p: fused_adam(p),
        "parametrizations": lambda p: (
            torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(9, 5).to(p))(wide(p, 3, 9)).shape
        ),
        "spectral_norm": lambda p: seeded(lambda: torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(9, 5)).to(p))(
            wide(p, 3, 9)
        ),
        "orthogonal": lambda p: seeded(lambda: torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(5, 5).to(p))).weight,
    }.items()
]


def seeded(make):
    torch.manual_seed(3)
    return make()


def fused_adam(place):
    x, g, m, v = ([wide(place, 33, name=name)] for name in "xgmn")
    v = [positive(place, 33)]
    torch._fused_adam_(
        x,
        g,
        m,
        v,
        [],
        [torch.tensor(3.0, device=place)],
        lr=0.1,
        beta1=0.9,
        beta2=0.99,
        weight_decay=0.1,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
        grad_scale=torch.tensor(3.0, device=place),
        found_inf=torch.zeros((), device=place),
    )
    return x, m, v


# ---- autograd


class Own(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x.exp() * x

    @staticmethod
    def backward(context, gradient):
        return gradient * context.saved_tensors[0].tanh()


def hooked(place):
    x = wide(place, 33).requires_grad_()
    x.register_hook(lambda g: g.softmax(0))
    y = x.tanh()
    y.retain_grad()
    y.register_hook(lambda g: g * 0.3)
    (y * x).sum().backward()
    return x.grad, y.grad


def twice(place):
    x = normal(place, 4, 3, 9, 9).requires_grad_()
    w = normal(place, 5, 3, 3, 3).requires_grad_()
    (g,) = torch.autograd.grad(functional.gelu(functional.conv2d(x, w)).square().sum(), x, create_graph=True)
    return torch.autograd.grad(g.square().sum(), (x, w))


def checkpointed(place, **options):
    net = torch.nn.Sequential(torch.nn.Linear(9, 9), torch.nn.Dropout(0.5), torch.nn.Tanh()).to(place)
    with torch.no_grad():
        net[0].weight.copy_(normal(place, 9, 9))
        net[0].bias.zero_()
    torch.manual_seed(2)
    x = wide(place, 5, 9).requires_grad_()
    y = checkpoint(net, x, **options)
    y.sum().backward()
    return y, x.grad, net[0].weight.grad, torch.rand(3, device=place)


def saved_on_cpu(place):
    with torch.autograd.graph.save_on_cpu(pin_memory=on_device(place) and torch.version.cuda is not None):
        return gradients(lambda x: (x.tanh() @ x.t()).exp(), normal(place, 9, 9))


def many_consumers(place):
    """Their gradients are added one after the other by the engine, not by an operator that the program calls."""
    x = wide(place, 999).requires_grad_()
    sum(f(x) for f in (torch.tanh, torch.sin, torch.sigmoid, lambda x: x * 0.3, torch.atan)).sum().backward()
    (x * 0.7).sum().backward()
    return x.grad


def other_setting(place, graph):
    graph.backward()


def other_engine(place, graph):
    torch.autograd.Variable._execution_engine.run_backward(
        (graph,), (torch.ones((), device=place),), False, False, (), True, True
    )


def recorded(place):
    return (wide(place, 9).requires_grad_() * 2).sum()


def to_and_fro(place):
    x = wide(place, 99).requires_grad_()
    (x.cpu().tanh().to(place) * x + x.cpu().double().to(place).float()).sum().backward()
    return x.grad


WAYS += [
    Way("autograd: a graph of before the switch", other_setting, before=recorded, stock=False),
    Way("autograd: that graph, by the engine itself", other_engine, before=recorded, stock=False),
]
WAYS += [
    Way(f"autograd: {name}", call)
    for name, call in {
        "Function": lambda p: gradients(Own.apply, wide(p, 33)),
        "hooks": hooked,
        "second derivatives": twice,
        "checkpoint": lambda p: checkpointed(p, use_reentrant=False),
        "checkpoint, reentrant": lambda p: checkpointed(p, use_reentrant=True),
        "checkpoint, states not kept": lambda p: checkpointed(p, use_reentrant=False, preserve_rng_state=False),
        "save_on_cpu": saved_on_cpu,
        "many consumers": many_consumers,
        "to the CPU and back": to_and_fro,
        "forward mode": lambda p: torch.func.jvp(lambda x: x.softmax(0), (wide(p, 9),), (wide(p, 9, name="t"),)),
        "batched gradients": lambda p: torch.autograd.functional.jacobian(torch.tanh, normal(p, 5), vectorize=True),
        "gradcheck's numbers": lambda p: torch.autograd.functional.hvp(
            lambda x: x.exp().sum(), normal(p, 5), normal(p, 5, name="v")
        ),
        "allow_mutation_on_saved_tensors": lambda p: mutated(p),
        "backward of a sparse embedding": lambda p: gradients(
            lambda w: functional.embedding(torch.tensor([1, 1, 2], device=p), w, sparse=True), wide(p, 5, 3)
        ),
    }.items()
]


def mutated(place):
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        x = normal(place, 9).requires_grad_()
        y = x * 1
        z = y.exp() * y
        y.mul_(0.5)
        z.sum().backward()
        return x.grad


# ---- transforms and modes


class Counting(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        return function(*arguments, **(keywords or {}))


class Functions(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        return function(*arguments, **(keywords or {}))


class Wrapped(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        return super().__torch_function__(function, types, arguments, keywords or {})


def work(place):
    return (normal(place, 33, 70) @ normal(place, 70, 9)).softmax(1).exp().sum(0)


def under(make, call=work):
    def run(place):
        with make(place):
            return call(place)

    return run


def per_sample(place):
    net = torch.nn.Linear(9, 3).to(place)
    parameters = {"weight": normal(place, 3, 9), "bias": normal(place, 3)}
    loss = lambda parameters, x: torch.func.functional_call(net, parameters, (x[None],)).square().sum()
    return torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, normal(place, 5, 9))


def fake(place):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(allow_fallback_kernels=True):
        y = torch.ones(3, 3, device=place) @ torch.ones(3, 3, device=place)
        return torch.special.bessel_j0(y).shape


def functionalized(place):
    return torch.func.functionalize(lambda x: x.add_(1).softmax(0))(wide(place, 9))


def traced(place):
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(lambda x: functional.gelu(x) @ x)(normal(place, 9, 9))(normal(place, 9, 9))


def through_a_file(place):
    buffer = io.BytesIO()
    torch.save([wide(place, 99), wide(place, 9).double(), model(place).state_dict()], buffer)
    buffer.seek(0)
    x, y, state = torch.load(buffer, map_location=place)
    return x.exp(), y, list(state.values())


WAYS += [
    Way(f"transforms: {name}", call)
    for name, call in {
        "vmap": lambda p: torch.vmap(lambda x: x.softmax(0) @ x)(wide(p, 5, 9)),
        "vmap, random, different": lambda p: torch.vmap(lambda x: x + torch.rand_like(x), randomness="different")(wide(p, 5, 9)),
        "vmap, random, same": lambda p: torch.vmap(lambda x: functional.dropout(x), randomness="same")(wide(p, 5, 9)),
        "vmap, chunks": lambda p: torch.vmap(lambda x: x.cumsum(0), chunk_size=2)(wide(p, 5, 9)),
        "gradients per sample": per_sample,
        "jacrev": lambda p: torch.func.jacrev(torch.tanh)(normal(p, 5)),
        "hessian": lambda p: torch.func.hessian(lambda x: x.exp().sum())(normal(p, 5)),
        "vmap of an operator that falls back": lambda p: torch.vmap(torch.special.bessel_j0)(normal(p, 5, 3)),
        "linearize": lambda p: torch.func.linearize(torch.tanh, normal(p, 5))[1](normal(p, 5)),
        "functionalize": functionalized,
        "make_fx": traced,
        "FakeTensor, with fallbacks": fake,
        "TorchDispatchMode": under(lambda p: Counting()),
        "TorchFunctionMode": under(lambda p: Functions()),
        "a subclass": lambda p: wide(p, 99).as_subclass(Wrapped).softmax(0).as_subclass(torch.Tensor),
        "DeviceContext": under(lambda p: torch.device(p)),
        "enable_python_dispatcher": under(lambda p: torch._dispatch.python.enable_python_dispatcher()),
        "cond": lambda p: torch.cond(torch.tensor(True), torch.exp, torch.tanh, (wide(p, 9),)),
        "jit.trace": lambda p: torch.jit.trace(lambda x: x.exp() * x.tanh(), wide(p, 9), check_trace=False)(wide(p, 99)),
        "files": through_a_file,
        "deepcopy, pickle": lambda p: (
            copy.deepcopy(model(p))(normal(p, 6, 1, 8, 8)),
            pickle.loads(pickle.dumps(wide(p, 9))).exp(),
        ),
        "TypedStorage": lambda p: typed(p),
    }.items()
]


def typed(place):
    storage = wide(place, 9)._typed_storage()
    return torch.tensor([], device=place).set_(storage).exp(), storage.double().tolist(), storage.half().tolist()


# ---- use_deterministic_algorithms(True): nn.functional and some operators compute in another way


def in_deterministic(call, fill=True):
    return under(lambda _place: deterministic(fill), call)


def indices(p):
    return labels(p, 7, 40)


DETERMINISTIC = {
    **{
        f"interpolate {mode}": lambda p, mode=mode, shape=shape: gradients(
            lambda x: functional.interpolate(x, scale_factor=1.7, mode=mode), normal(p, *shape)
        )
        for mode, shape in (
            ("bilinear", (1, 2, 7, 7)),
            ("bicubic", (1, 2, 7, 7)),
            ("nearest", (1, 2, 7, 7)),
            ("nearest-exact", (1, 2, 7, 7)),
            ("linear", (1, 2, 7)),
            ("trilinear", (1, 2, 5, 5, 5)),
            ("area", (1, 2, 7, 7)),
        )
    },
    "interpolate antialiased": lambda p: functional.interpolate(normal(p, 1, 2, 9, 9), (4, 4), mode="bilinear", antialias=True),
    **{
        f"pad {mode} {dims}": lambda p, mode=mode, dims=dims: gradients(
            lambda x: functional.pad(x, (1, 2) * dims, mode), normal(p, 1, 2, *[5] * dims)
        )
        for mode in ("replicate", "reflect", "circular")
        for dims in (1, 2, 3)
    },
    "max_pool3d": lambda p: gradients(lambda x: functional.max_pool3d(x, 2), normal(p, 1, 2, 4, 4, 4)),
    "adaptive_avg_pool2d": lambda p: gradients(lambda x: functional.adaptive_avg_pool2d(x, 3), wide(p, 1, 2, 7, 7)),
    "adaptive_max_pool2d": lambda p: gradients(lambda x: functional.adaptive_max_pool2d(x, 3), wide(p, 1, 2, 7, 7)),
    "fractional_max_pool2d": lambda p: gradients(
        lambda x: functional.fractional_max_pool2d(x, 2, output_size=3), wide(p, 1, 2, 7, 7)
    ),
    "max_unpool2d": lambda p: functional.max_unpool2d(*functional.max_pool2d(wide(p, 1, 2, 6, 6), 2, return_indices=True), 2),
    "avg_pool3d": lambda p: gradients(lambda x: functional.avg_pool3d(x, 2), wide(p, 1, 2, 4, 4, 4)),
    "grid_sample": lambda p: gradients(
        lambda x, g: functional.grid_sample(x, g, align_corners=False), normal(p, 1, 2, 5, 5), normal(p, 1, 4, 4, 2)
    ),
    "cumsum": lambda p: gradients(lambda x: x.cumsum(0), wide(p, 999)),
    "cumprod": lambda p: gradients(lambda x: x.cumprod(0), normal(p, 99)),
    "index_put accumulating": lambda p: wide(p, 7).index_put((indices(p),), wide(p, 40), accumulate=True),
    "index_put": lambda p: wide(p, 7).index_put((indices(p),), wide(p, 40)),
    "put_ accumulating": lambda p: wide(p, 7).put_(indices(p), wide(p, 40), accumulate=True),
    "index_add": lambda p: wide(p, 7).index_add(0, indices(p), wide(p, 40), alpha=0.3),
    "index_copy": lambda p: wide(p, 7).index_copy(0, indices(p), wide(p, 40)),
    "scatter": lambda p: wide(p, 7).scatter(0, labels(p, 7, 7).unique(), 0.1),
    "scatter_add": lambda p: wide(p, 7).scatter_add(0, indices(p), wide(p, 40)),
    **{
        f"scatter_reduce {how}": lambda p, how=how: wide(p, 7).scatter_reduce(0, indices(p), wide(p, 40), how)
        for how in ("sum", "prod", "mean", "amax")
    },
    "index_reduce": lambda p: wide(p, 7).index_reduce(0, indices(p), wide(p, 40), "mean"),
    "gather": lambda p: gradients(lambda x: x.gather(0, indices(p)), wide(p, 7)),
    "indexing": lambda p: gradients(lambda x: x[indices(p)], wide(p, 7, 3)),
    "embedding": lambda p: gradients(lambda w: functional.embedding(indices(p), w), wide(p, 7, 5)),
    "embedding, padded": lambda p: gradients(
        lambda w: functional.embedding(indices(p), w, 2, scale_grad_by_freq=True), wide(p, 7, 5)
    ),
    "embedding_bag": lambda p: gradients(
        lambda w: functional.embedding_bag(indices(p).view(8, 5), w, mode="mean"), wide(p, 7, 5)
    ),
    "bincount": lambda p: torch.bincount(indices(p), wide(p, 40)),
    "histc": lambda p: wide(p, 40).histc(5, -1, 1),
    "nll_loss 2d": lambda p: gradients(lambda x: functional.nll_loss(x, labels(p, 3, 2, 5, 5)), wide(p, 2, 3, 5, 5)),
    "ctc_loss": lambda p: gradients(
        lambda x: functional.ctc_loss(
            x.log_softmax(2), torch.ones(2, 3, dtype=torch.long, device=p), torch.tensor([9, 9]), torch.tensor([3, 2])
        ),
        normal(p, 9, 2, 5),
    ),
    "kthvalue, median": lambda p: (wide(p, 99).kthvalue(7), wide(p, 99).median(), wide(p, 9, 9).mode(0)),
    "repeat_interleave": lambda p: gradients(lambda x: x.repeat_interleave(3), wide(p, 9)),
    "conv_transpose2d": lambda p: gradients(functional.conv_transpose2d, normal(p, 1, 2, 5, 5), normal(p, 2, 3, 3, 3)),
    "cdist": lambda p: gradients(torch.cdist, normal(p, 5, 9), normal(p, 4, 9)),
    "resize_": lambda p: torch.ones(2, device=p).resize_(5),
    "empty": lambda p: torch.empty(9, device=p),
    "lstm": lambda p: seeded(lambda: torch.nn.LSTM(9, 5, 2).to(p))(wide(p, 4, 2, 9)),
    "multi_margin_loss": lambda p: gradients(lambda x: functional.multi_margin_loss(x, labels(p, 5, 6)), normal(p, 6, 5)),
}
WAYS += [Way(f"deterministic algorithms: {name}", in_deterministic(call)) for name, call in DETERMINISTIC.items()]
WAYS += [Way(f"without them: {name}", call) for name, call in DETERMINISTIC.items()]
WAYS += [Way("deterministic algorithms, nothing filled: empty", in_deterministic(DETERMINISTIC["empty"], False), stock=False)]


def sync_batch_norm(place):
    need_real(place)
    return torch.nn.SyncBatchNorm(4).to(place)(wide(place, 3, 4, 5))


WAYS += [
    Way("training: SyncBatchNorm in one process", sync_batch_norm, reference=lambda p: torch.nn.BatchNorm1d(4)(wide(p, 3, 4, 5)))
]
