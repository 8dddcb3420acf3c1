"""The package over a library that has the operators alone (ISOBIT_EXTENSION_ONLY): it computes, and says what it cannot.

That build's library is extension.cpp without records and program, as the emulated device's is, which stands for it here.
"""

import os
import pathlib
import tempfile
import unittest

from cases import run_python

import isobit

PROGRAM = """
import torch, isobit
with isobit.enabled():
    print(isobit.fingerprint(torch.ones(3) + 1) == isobit.fingerprint(torch.full((3,), 2.0)))
try:
    with isobit.record("runs"):
        print("recorded")
except isobit.RecordError as error:
    print(error)
"""


class OperatorsOnly(unittest.TestCase):
    def test_record_says_that_it_is_not_there(self):
        with tempfile.TemporaryDirectory(prefix="isobit-test-") as folder:
            package = pathlib.Path(folder) / "isobit"
            package.mkdir()
            for file in pathlib.Path(isobit.__file__).parent.iterdir():
                if file.suffix in (".py", ".pyi") or (file / "__init__.py").exists():
                    (package / file.name).symlink_to(file.resolve())
            (package / "libisobit_torch.so").symlink_to(os.environ["ISOBIT_EMULATED"])
            self.assertEqual(run_python(f"import os\nos.chdir({folder!r})\n{PROGRAM}", PYTHONPATH=folder), (
                "True\n"
                "isobit.record: this build of isobit has only the operators\n"
                "  do     build it without ISOBIT_EXTENSION_ONLY\n"))
            self.assertFalse((pathlib.Path(folder) / "runs").exists())


if __name__ == "__main__":
    unittest.main()
