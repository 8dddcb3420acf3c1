"""Processes of one process group on this machine, for tests: forked from the test, meeting in a file, over loopback."""

import datetime
import multiprocessing
import os
import tempfile
import traceback

import torch
import torch.distributed as dist

import isobit

os.environ["GLOO_SOCKET_IFNAME"] = "lo"
torch.set_num_threads(1)  # a forked child cannot use threads that its parent had


def on_ranks(ranks, function, *arguments, timeout=60):
    """[what function(rank, *arguments) returned, or the exception] of each rank; "killed" where it left nothing."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="isobit-ranks-") as folder:
        pipes = [context.Pipe(duplex=False) for _ in range(ranks)]
        processes = [context.Process(target=_work, args=(rank, ranks, folder, pipes[rank][1], timeout, function, arguments))
                     for rank in range(ranks)]
        for process in processes:
            process.start()
        for _, end in pipes:
            end.close()
        results = [_received(end, timeout) for end, _ in pipes]
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        return results


def _received(end, timeout):
    try:
        return end.recv() if end.poll(timeout + 20) else AssertionError(f"a rank has not ended within {timeout + 20} s")
    except EOFError:
        return "killed"


def _work(rank, ranks, folder, end, timeout, function, arguments):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=timeout))
    try:
        result = function(rank, *arguments)
    except Exception as error:
        traceback.clear_frames(error.__traceback__)
        result = error if type(error) in (isobit.RefusedError, ValueError, TypeError) else RuntimeError(str(error))
    end.send(result)
    end.close()
    os._exit(0)  # without the farewells of what the test's process had open
