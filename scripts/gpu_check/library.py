"""The shared library of isobit's operators, loaded into this process.

enabled() turns them on within a block; reference results are computed on the CPU by the same library.
"""

import contextlib
import ctypes


class Library:
    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))
        for name in ("enable", "disable", "set_isa", "set_threads", "contract_version", "device_name"):
            getattr(self._library, f"isobit_{name}").restype = ctypes.c_char_p

    def call(self, name, *arguments):
        message = getattr(self._library, f"isobit_{name}")(*arguments)
        if message is not None:
            raise RuntimeError(message.decode())

    @contextlib.contextmanager
    def enabled(self, products="ordered"):
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
