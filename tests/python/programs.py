"""Python programs for tests, cheaply: run in forks of the test's process, which has PyTorch already, in a folder in memory.

To import torch takes some seconds, and a record waits for the disk at each checkpoint; a test starts dozens of programs.
"""

import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import traceback
import unittest

import torch._dynamo  # noqa: F401  (the first optimizer imports it, which takes as long as torch itself)

MEMORY = "/dev/shm"


def _sandbox_problem():
    """Why isobit verify can make no sandbox on this machine; "" where it can."""
    groups = pathlib.Path("/sys/fs/cgroup")
    if os.geteuid() == 0 and not any(os.access(groups / part, os.W_OK) for part in ("pids", "cgroup.subtree_control")):
        return "root can make no control group here"
    words = ["bwrap", "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc",
             "--size", "4096", "--tmpfs", "/tmp", "true"]
    try:
        done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", *words], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return done.stderr.strip() or f"exit code {done.returncode}" if done.returncode != 0 else ""


NO_SANDBOX = _sandbox_problem()


def read_record(folder):
    """name -> bytes of a finished record's files but checkpoints, once `isobit show` has proven it; AssertionError where it is not sound."""
    folder = pathlib.Path(folder).absolute()
    shown = subprocess.run([os.environ["ISOBIT_PROGRAM"], "show", folder, "--json"], capture_output=True, text=True, check=False)
    record = json.loads(shown.stdout)["record"] if shown.returncode == 0 else shown.stderr
    if not record.startswith("sound: "):
        raise AssertionError(record)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


class Programs(unittest.TestCase):
    """`self.folder`, where programs are written and run."""

    def setUp(self):
        memory = MEMORY if os.access(MEMORY, os.W_OK) else None
        temporary = tempfile.TemporaryDirectory(prefix="isobit-test-", dir=memory)
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def fork(self, call, arguments, environment):
        """(how call() ended in a fork, its stdout, its stderr). What is read when Python or torch starts (OMP_NUM_THREADS,
        PYTHONPATH) keeps this process' value there."""
        sys.stdout.flush()
        sys.stderr.flush()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
            child = os.fork()
            if child == 0:
                _be_program(call, self.folder, arguments, environment, out, told)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = []
            for file in (out, told):
                file.seek(0)
                texts.append(file.read().decode())
            return status, *texts

    def run_script(self, name="train.py", *arguments, **environment):
        """(how it ended, its stdout, its stderr)"""

        def run():
            sys.path.insert(0, str(self.folder))
            runpy.run_path(str(self.folder / name), run_name="__main__")

        return self.fork(run, [name, *arguments], environment)


def _be_program(call, folder, arguments, environment, out, told):
    code = 1
    try:
        os.chdir(folder)
        for number, file in ((1, out), (2, told)):
            os.dup2(file.fileno(), number)
        sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False, encoding="utf-8") for number in (1, 2))  # noqa: SIM115
        sys.argv = list(arguments)
        os.environ.update(environment)
        code = call() or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
