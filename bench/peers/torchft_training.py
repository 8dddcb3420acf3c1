#!/usr/bin/env python3
"""torchft under the faults of bench/peers/elastic: three replica groups of one worker each, gloo over loopback.

    python torchft_training.py [--steps 120] [--at 70] [unbroken kill stop]

torchft takes no checkpoint: a worker that comes back gets its state from a peer. A worker that was killed is started anew at
once. Prints steps committed with fewer than three workers, seconds, and the SHA-256 of the weights of worker 0. Needs torchft
(pip install torchft opentelemetry-exporter-otlp-proto-http); isobit takes no part.
"""

import argparse
import datetime
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torchft
from ddp_training import digest, lenet, strike
from torch import nn


def average(manager: torchft.Manager, model: nn.Module) -> None:
    """By torchft's all-reduce itself: the hook of its DistributedDataParallel (0.2.0) ends the process where a peer dies."""
    gradients = [parameter.grad for parameter in model.parameters()]
    flat = torch.cat([gradient.view(-1) for gradient in gradients])
    manager.allreduce(flat).wait()
    for gradient, mean in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def train(folder: pathlib.Path, replica: int, steps: int, lighthouse: str, fault: list[str]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = lenet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def load(state: dict[str, object]) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True)
    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=datetime.timedelta(seconds=60)), min_replica_size=2, load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, use_async_quorum=False,
        replica_id=f"replica{replica}", store_addr="127.0.0.1", store_port=store.port, rank=0, world_size=1,
        lighthouse_addr=lighthouse, hostname="127.0.0.1", timeout=datetime.timedelta(seconds=60))
    wrapped = torchft.Optimizer(manager, optimizer)
    with (folder / f"log{replica}.jsonl").open("a", buffering=1) as log:
        while manager.current_step() < steps:
            step = manager.current_step() + 1
            generator = torch.Generator().manual_seed(1000 * step + replica)
            x, y = torch.randn(64, 1, 28, 28, generator=generator), torch.randint(10, (64,), generator=generator)
            wrapped.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            if fault and (replica, step) == (1, int(fault[1])) and not (folder / "struck").exists():
                strike(fault[0], folder / "struck")
            loss.backward()
            average(manager, model)
            wrapped.step()
            done = manager.current_step() >= step
            ranks = manager.num_participants()
            log.write(json.dumps({"step": step, "committed": done, "ranks": ranks, "time": time.time()}) + "\n")
        log.write(json.dumps({"weights": digest(model)}) + "\n")
    os._exit(0)


def run(kind: str, options: argparse.Namespace) -> dict[str, object]:
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=2, join_timeout_ms=10000)
    address = "http://127.0.0.1:" + lighthouse.address().rsplit(":", 1)[1]
    with tempfile.TemporaryDirectory(prefix="torchft-") as folder:
        fault = [] if kind == "unbroken" else [kind, str(options.at)]
        words = [sys.executable, "-W", "ignore", __file__, "--child", folder, "--steps", str(options.steps), address, *fault]

        def start(replica: int) -> subprocess.Popen[bytes]:
            return subprocess.Popen([*words, "--replica", str(replica)], stderr=subprocess.DEVNULL)

        began = time.time()
        workers = [start(replica) for replica in range(3)]
        while any(worker.poll() is None for worker in workers) and time.time() - began < 240:
            time.sleep(0.1)
            for replica, worker in enumerate(workers):
                if worker.poll() == -signal.SIGKILL:
                    workers[replica] = start(replica)
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
        paths = sorted(pathlib.Path(folder).glob("log*"))
        logs = [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]
    lighthouse.shutdown()
    steps = [line for line in logs[0] if "step" in line]
    return {"kind": kind, "seconds": time.time() - began, "training": steps[-1]["time"] - steps[0]["time"],
            "done": steps[-1]["step"], "not committed": sum(not line["committed"] for line in steps),
            "with fewer": sum(line["ranks"] < 3 for line in steps if line["committed"]),
            "longest": max(b["time"] - a["time"] for a, b in itertools.pairwise(steps)),
            "weights": [next((line["weights"][:16] for line in log if "weights" in line), None) for log in logs],
            "load": round(os.getloadavg()[0], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", default=["unbroken", "kill", "stop"])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--at", type=int, default=70)
    parser.add_argument("--child", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--replica", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        train(options.child, options.replica, options.steps, options.words[0], options.words[1:])
    for kind in options.words:
        print(json.dumps(run(kind, options)), flush=True)


if __name__ == "__main__":
    main()
