"""isobit in this process: its Python package, or the shared library of its operators alone.

enabled() turns the operators on within a block; reference results are computed on the CPU by the same library. What people
use is the package, whose optimizers' steps take one pass; so it is taken where it lies beside the library.
"""

import contextlib
import ctypes
import pathlib
import sys


def package_of(path):
    """The package of the folder that the library lies in; None where there is only a library, as the emulated one."""
    folder = pathlib.Path(path).resolve().parent
    if not (folder / "__init__.py").exists() or folder.name != "isobit":
        return None
    sys.path.insert(0, str(folder.parent))
    import isobit
    if pathlib.Path(isobit.__path__[0]).resolve() != folder:
        raise RuntimeError(f"isobit was imported from {isobit.__path__[0]}, not from {folder}: unset PYTHONPATH")
    return isobit


class Library:
    def __init__(self, path):
        self.package = package_of(path)
        self._library = ctypes.CDLL(str(path))
        for name in ("enable", "disable", "set_isa", "set_threads", "contract_version", "device_name"):
            getattr(self._library, f"isobit_{name}").restype = ctypes.c_char_p

    def call(self, name, *arguments):
        message = getattr(self._library, f"isobit_{name}")(*arguments)
        if message is not None:
            raise RuntimeError(message.decode())

    @contextlib.contextmanager
    def enabled(self, products="ordered"):
        if self.package is not None:
            with self.package.enabled(products=products):
                yield
            return
        self.call("enable", products.encode())
        try:
            yield
        finally:
            self.call("disable")

    @property
    def contract_version(self):
        return self._library.isobit_contract_version().decode()

    def force_plan(self, tile=-1, chunk_leaves=0):
        """The tile and the split of k of ordered products on the device, instead of the planned ones; no bit changes."""
        function = self._library.isobit_force_product_plan
        function.argtypes, function.restype = (ctypes.c_int, ctypes.c_int64), ctypes.c_char_p
        self.call("force_product_plan", tile, chunk_leaves)

    def device_count(self):
        return self._library.isobit_device_count()

    def device_name(self, index):
        return self._library.isobit_device_name(index).decode()
