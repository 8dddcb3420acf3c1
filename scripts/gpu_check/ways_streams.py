"""Ways: work on other streams than the device's default one, from several threads, beside copies that nobody waits for."""

import contextlib
import functools
import threading

import torch
from torch.nn import functional

from gpu_check.ways_base import (
    Way,
    gradients,
    labels,
    need_real,
    normal,
    on_device,
    real,
    side_stream,
    slow,
    wait,
)
from gpu_check.ways_values import printed

# ---- streams: a kernel of ours on another stream than the current one would read what is not there yet

kept_labels = functools.lru_cache(64)(labels)  # as gradients' seeds


WORK = {
    "mm": lambda x: x @ x.t(),
    "mm, few rows, long sums": lambda x: x.view(4, -1) @ x.view(4, -1).t(),
    "bmm": lambda x: torch.bmm(x.view(4, 75, -1), x.view(4, 75, -1).transpose(1, 2)),
    "addmv": lambda x: x @ x[0],
    "conv2d": lambda x: gradients(
        lambda x, w: functional.conv2d(x, w, padding=1), x.view(5, 8, 45, 50), x.flatten()[:576].view(8, 8, 3, 3)
    ),
    "conv1d": lambda x: functional.conv1d(x.view(5, 8, -1), x.flatten()[:192].view(8, 8, 3)),
    "attention": lambda x: gradients(functional.scaled_dot_product_attention, *[x.view(2, 3, 250, 60)] * 3),
    "softmax": lambda x: gradients(lambda x: x.softmax(1), x),
    "layer_norm": lambda x: gradients(lambda x: functional.layer_norm(x, [300]), x),
    "batch_norm": lambda x: gradients(lambda x: functional.batch_norm(x, None, None, training=True), x),
    "sum": lambda x: (x.sum(), x.sum(0), x.mean(1), x.var(), x.norm()),
    "cumsum": lambda x: (x.cumsum(0), x.cumsum(1)),
    "exp, gelu": lambda x: gradients(lambda x: functional.gelu(x).exp(), x),
    "where, masks": lambda x: (torch.where(x > 0, x * 0.1, x), x[x > 0.5]),
    "sort, topk": lambda x: (x.sort(1), x.topk(5, 0), x.argsort(0)),
    "cross_entropy": lambda x: gradients(lambda x: functional.cross_entropy(x, kept_labels(str(x.device), 300, 300)), x),
    "embedding": lambda x: gradients(lambda w: functional.embedding(kept_labels(str(w.device), 300, 999), w), x),
    "index_add": lambda x: x.index_add(0, kept_labels(str(x.device), 300, 300), x.clone()),
    "scatter_add": lambda x: x.scatter_add(0, kept_labels(str(x.device), 300, 300, 300), x),
    "index_put": lambda x: x.index_put((kept_labels(str(x.device), 300, 300),), x, accumulate=True),
    "pooling": lambda x: gradients(lambda x: functional.max_pool2d(functional.avg_pool2d(x, 2), 3), x.view(5, 8, 45, 50)),
    "interpolate": lambda x: gradients(
        lambda x: functional.interpolate(x, scale_factor=1.5, mode="bilinear"), x.view(5, 8, 45, 50)
    ),
    "random": lambda x: (
        torch.randn_like(x),
        functional.dropout(x),
        torch.bernoulli(x.sigmoid()),
        torch.randperm(99, device=x.device),
    ),
    "_foreach": lambda x: torch._foreach_addcmul([x, x[0]], [x, x[1]], [x, x[2]], 0.3),
    "qr (on the CPU)": lambda x: torch.linalg.qr(x[:9, :5]),
    "unique, mode": lambda x: (x.round().unique(), x.round().mode(1)),
    "printed": printed,
    "item": lambda x: x.tanh().sum().item(),
    "to the CPU": lambda x: (x.cpu().exp(), x.t().to("cpu", non_blocking=True).clone()),
    "lstm": lambda x: _lstm(x),
    "uninitialised": lambda x: torch.empty_like(x),
}


def _lstm(x):
    torch.manual_seed(1)
    return torch.nn.LSTM(300, 20).to(x.device)(x.view(30, 10, 300))


def beside(work, products="ordered"):
    def call(place):
        if products != "ordered":
            need_real(place)  # emulated, these take seconds; other parts have them
        source = normal(place, 300, 300)
        x = torch.zeros(300, 300, device=place)
        work(torch.ones(300, 300, device=place))  # what is set up once is set up
        wait(place)
        with side_stream(place) as stream:
            slow(place)
            x.copy_(source)
            torch.manual_seed(5)
            result = work(x)
        if stream is not None:
            stream.synchronize()
        return result

    return call


def two_streams(place):
    """Both in turns, with scratch memory each: none may write what the other one still reads."""
    need_real(place)
    a, b = normal(place, 300, 300), normal(place, 300, 300, name="other")
    wait(place)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()] if real(place) else [None, None]
    found = []
    for _ in range(4):
        for name in (
            "mm",
            "mm, few rows, long sums",
            "cumsum",
            "conv2d",
            "softmax",
            "sum",
            "index_add",
            "sort, topk",
            "attention",
        ):
            for stream, x in zip(streams, (a, b), strict=True):
                with torch.cuda.stream(stream) if stream is not None else contextlib.nullcontext():
                    found.append(WORK[name](x))
    wait(place)
    return found


def two_threads(place):
    need_real(place)
    a, b = normal(place, 300, 300), normal(place, 300, 300, name="other")
    wait(place)
    found, errors = {}, []

    def run(number, x):
        try:
            with side_stream(place):
                found[number] = [
                    WORK[name](x) for _ in range(4) for name in ("mm", "cumsum", "conv2d", "sum", "attention", "cross_entropy")
                ]
                wait(place)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=job) for job in enumerate((a, b))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


def pinned(place):
    need_real(place)
    host = normal("cpu", 999, 99)
    host = host.pin_memory() if real(place) else host
    x = torch.empty(999, 99, device=place)
    slow(place)
    x.copy_(host, non_blocking=True)
    y = x.exp()
    out = torch.empty(999, 99, pin_memory=real(place))
    out.copy_(y, non_blocking=True)
    pageable = y.to("cpu", non_blocking=True) * 0.3
    wait(place)
    return out, pageable


def memory_reused(place):
    """What one stream frees another one may get, once record_stream has been heard."""
    need_real(place)
    x = normal(place, 300, 300)
    wait(place)
    with side_stream(place) as stream:
        slow(place)
        y = x @ x
        z = (y @ x).softmax(1)
    if stream is not None:
        y.record_stream(stream)
        del y
        for _ in range(9):
            torch.full((300, 300), 7.0, device=place)
        torch.cuda.current_stream().wait_stream(stream)
    return z * 0.3


def backward_elsewhere(place):
    """The engine runs each node on the stream of its forward, from a thread of its own."""
    need_real(place)
    x = normal(place, 300, 300).requires_grad_()
    wait(place)
    with side_stream(place):
        slow(place)
        y = (x @ x).tanh()
    with side_stream(place):
        z = x.exp().sum(0)
    wait(place)
    (y.sum() + (z * 0.1).sum()).backward()
    wait(place)
    return x.grad


def external_stream(place):
    need_real(place)
    x = normal(place, 300, 300)
    wait(place)
    if not on_device(place):
        return x @ x
    with torch.cuda.stream(torch.cuda.ExternalStream(torch.cuda.Stream(priority=-1).cuda_stream)):
        slow(place)
        y = x.clone() @ x
    wait(place)
    return y


WAYS = [Way(f"side stream: {name}", beside(work)) for name, work in WORK.items()]
WAYS += [
    Way(f"side stream, exact3: {name}", beside(WORK[name], "exact3"), products="exact3")
    for name in ("mm", "bmm", "conv2d", "attention")
]
WAYS += [
    Way(f"streams: {name}", call, products=products)
    for name, call, products in (
        ("two in turns", two_streams, "ordered"),
        ("two in turns, exact3", two_streams, "exact3"),
        ("two threads", two_threads, "ordered"),
        ("two threads, exact3", two_threads, "exact3"),
        ("pinned memory, non_blocking", pinned, "ordered"),
        ("record_stream", memory_reused, "ordered"),
        ("backward on two", backward_elsewhere, "ordered"),
        ("an external one", external_stream, "ordered"),
    )
]
