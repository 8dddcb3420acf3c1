"""What bench/peers/elastic starts under torchrun: stock PyTorch, DistributedDataParallel, a LeNet on random images, gloo.

    python ddp_training.py FOLDER STEPS EVERY [kill|stop RANK STEP]

Rank 0 saves a checkpoint in FOLDER after each EVERY steps; every start resumes from it. A rank's samples are those of step and
rank. The fault strikes once: RANK ends by SIGKILL, or is stopped for 30 s by SIGSTOP, between the forward pass and the backward
of STEP. FOLDER/log.jsonl has a line for each step done by rank 0, and at the end the SHA-256 of the weights.
"""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def lenet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def strike(kind: str, marker: pathlib.Path) -> None:
    marker.touch()
    if kind == "stop":
        subprocess.Popen(["sh", "-c", f"sleep 30; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGKILL if kind == "kill" else signal.SIGSTOP)


def digest(model: nn.Module) -> str:
    return hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values())).hexdigest()


def main() -> None:
    folder, steps, every = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    fault = sys.argv[4:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = lenet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    checkpoint, done = folder / "checkpoint.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    # KEEP_BUCKETS: with it DDP does not make its buckets anew after the first step of each start.
    ddp = DistributedDataParallel(model, find_unused_parameters="KEEP_BUCKETS" in os.environ)
    log = (folder / "log.jsonl").open("a", buffering=1) if rank == 0 else None
    for step in range(done + 1, steps + 1):
        generator = torch.Generator().manual_seed(1000 * step + rank)
        x, y = torch.randn(64, 1, 28, 28, generator=generator), torch.randint(10, (64,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(ddp(x), y)
        if fault and (rank, step) == (int(fault[1]), int(fault[2])) and not (folder / "struck").exists():
            strike(fault[0], folder / "struck")
        loss.backward()
        optimizer.step()
        if log is not None:
            log.write(json.dumps({"step": step, "ranks": ranks, "time": time.time()}) + "\n")
            if step % every == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, folder / "new.pt")
                (folder / "new.pt").rename(checkpoint)
    if log is not None:
        log.write(json.dumps({"weights": digest(model)}) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
