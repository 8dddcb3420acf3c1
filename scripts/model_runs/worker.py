"""Executes models of one library, each execution in a child of its own: python -m model_runs.worker LIBRARY

Reads {"name", "work": "execute" | "gradients" | "probe" | "time", "isa", "threads", "timed", "seconds", for "time" also
"rounds"} by line from standard input, and answers each with a line of JSON. The library is imported once; a fork is a fresh
process that has it already. Before the fork one thread alone computes, so no pool of threads is lost by it.
"""

import json
import os
import resource
import select
import signal
import sys
import time

MEMORY = 12 << 30  # bytes of address space: a mistake in a configuration must not take the machine down


def _work(request, entry):
    from model_runs import execute, gradients, probe, steps

    if request["work"] == "execute":
        return execute.execute(entry, request["isa"], request["threads"], request.get("timed", False))
    if request["work"] == "time":
        return steps.times(entry, request["rounds"])
    return {"gradients": gradients.compare, "probe": probe.probe}[request["work"]](entry)


def _child(request, entry, pipe):
    from model_runs.execute import as_line, outcome

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found = outcome(_work, request, entry)
    with os.fdopen(pipe, "w", encoding="utf-8") as file:
        file.write(as_line(found))


def _answer(pipe, deadline):
    """All that the child writes until it closes the pipe; None past the deadline."""
    parts = []
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return None
        part = os.read(pipe, 1 << 16)
        if not part:
            return b"".join(parts).decode()
        parts.append(part)


def run_in_child(request, entry):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints is no answer
            _child(request, entry, writing)
        finally:
            os._exit(0)
    os.close(writing)
    text = _answer(reading, time.monotonic() + request["seconds"])
    os.close(reading)
    if text is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if text is None:
        return {"slow": request["seconds"]}
    if not text:
        return {"error": f"the process ended with status {os.waitstatus_to_exitcode(status)}"}
    return json.loads(text)


def _warm_up():
    """What PyTorch and isobit import at the first optimizer step and the first enable(): seconds, once."""
    import torch

    import isobit

    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.ones(2))
    weight.sum().backward()
    torch.optim.AdamW([weight]).step()
    with isobit.enabled():
        pass


def _import_parts(entry):
    """Libraries import a model's module when it is first made: once here, instead of in each child."""
    import torch

    from model_runs.execute import outcome

    torch.manual_seed(1)
    outcome(lambda: {"made": bool(entry.make())})


def main(library):
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from model_runs import entries, lists

    lists.prepare(library)
    known = {**entries.all_entries(), **entries.all_entries(full_size=True)}
    _warm_up()
    print(json.dumps({"versions": lists.versions(library)}), file=answers, flush=True)
    last = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["name"] != last:
            last = request["name"]
            _import_parts(known[f"{library}/{last}"])
        found = run_in_child(request, known[f"{library}/{request['name']}"])
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
