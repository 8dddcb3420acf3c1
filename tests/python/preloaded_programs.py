"""Programs that isobit verify --trust executes again, in forks of the test's process, which has PyTorch already.

The interpreter, isobit._proof._verify and isobit._proof._again are those that a user has; of the program's own process alone the import of
torch is left out (preloaded/sitecustomize.py).
"""

import array
import json
import os
import pathlib
import runpy
import shutil
import signal
import socket
import sys
import tempfile

from programs import _be_program

STARTS = pathlib.Path(__file__).parent / "preloaded"


class _Descriptor:
    def __init__(self, number):
        self.number = number

    def fileno(self):
        return self.number


def _run(words, folder, environment, out, told):
    def call():
        script = os.path.join(folder, words[0])
        sys.path.insert(0, os.path.dirname(script))
        runpy.run_path(script, run_name="__main__")

    os.environ.clear()
    _be_program(call, folder, words, environment, _Descriptor(out), _Descriptor(told))


def _answer(connection):
    """Of one request, in a process of its own."""
    received, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(2 * 4))
    descriptors = array.array("i")
    for _, _, content in ancillary:
        descriptors.frombytes(content)
    size, text = int.from_bytes(received, "big"), b""
    while len(text) < size and (piece := connection.recv(size - len(text))):
        text += piece
    request = json.loads(text)
    program = os.fork()
    if program == 0:
        _run(request["words"], request["folder"], request["environment"], *descriptors)
    code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    connection.sendall(bytes([code if 0 <= code < 256 else 1]))


class PreloadedPrograms:
    """A process that executes programs for whoever starts a Python with `environment`; ended by close()."""

    def __init__(self):
        self._folder = tempfile.mkdtemp(prefix="isobit-preloaded-")
        self.environment = {"ISOBIT_PRELOADED": f"{self._folder}/socket"}
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.environment["ISOBIT_PRELOADED"])
        listener.listen()
        sys.stdout.flush()
        self._process = os.fork()
        if self._process == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who answer
            while True:
                connection, _ = listener.accept()
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listener.close()
                    try:
                        _answer(connection)
                    finally:
                        os._exit(0)
                connection.close()
        listener.close()

    def close(self):
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        shutil.rmtree(self._folder)
