"""The isobit package over the emulated device: to be called before `import isobit` (gpu_check.emulation makes cuda:0)."""

import argparse
import atexit
import ctypes
import importlib.util
import pathlib
import shutil
import sys
import tempfile

from gpu_check import emulation


def named():
    """The argument of --emulate, which has to be known before isobit is loaded; None without."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--emulate")
    return parser.parse_known_args()[0].emulate


def package(library):
    """A folder with the package found now, but for its library, which is the given one."""
    found = importlib.util.find_spec("isobit")
    if found is None:
        raise ImportError("no isobit package: build it, or set PYTHONPATH")
    folder = tempfile.mkdtemp(prefix="isobit-emulated-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    there = pathlib.Path(folder) / "isobit"
    there.mkdir()
    rooms = (room.parent for room in pathlib.Path(found.origin).parent.glob("*/__init__.py"))
    for file in (*pathlib.Path(found.origin).parent.glob("*.py"), *rooms):
        (there / file.name).symlink_to(file.absolute())
    (there / "libisobit_torch.so").symlink_to(pathlib.Path(library).resolve())
    return folder


def install(library):
    """cuda:0 as a PyTorch with CUDA and cuDNN has it: its composites take the ways that they take there."""
    emulation.install(library)
    ctypes.CDLL(str(library)).isobit_fake_cuda_claims_cudnn(1)
    sys.path.insert(0, package(library))


def stock_arithmetic(library):
    """A function: the stock floating-point kernels of the device that were called since its last call, as a text."""
    function = ctypes.CDLL(str(library)).isobit_take_fake_cuda_arithmetic
    function.restype = ctypes.c_char_p
    return lambda: function().decode()
