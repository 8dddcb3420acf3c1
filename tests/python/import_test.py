"""What `import isobit` loads, and what is there without PyTorch."""

import inspect
import os
import pathlib
import pickle
import pydoc
import subprocess
import sys
import unittest

import isobit

PACKAGE = pathlib.Path(isobit.__file__).parent
LAZY = sorted(set(isobit.__all__) - {"RecordError", "RefusedError", "__version__", "contract_version", "show", "tables"})


def python(program, *options):
    """(exit code, output) of a fresh interpreter that finds this package."""
    done = subprocess.run([sys.executable, *options, "-c", f"import sys\nsys.path.insert(0, {str(PACKAGE.parent)!r})\n{program}"],
                          capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""})
    return done.returncode, done.stdout + done.stderr


class Import(unittest.TestCase):
    def test_loads_no_torch(self):
        code, text = python("import isobit\nassert 'torch' not in sys.modules\nprint(isobit.__version__, isobit.contract_version, "
                            "isobit.RefusedError, isobit.RecordError, 'enable' in dir(isobit))\nassert 'torch' not in sys.modules\n"
                            "isobit.isa\nassert 'torch' in sys.modules")
        expected = (f"{isobit.__version__} {isobit.contract_version} <class 'isobit.RefusedError'> <class 'isobit.RecordError'> "
                    "True\n")
        self.assertEqual((code, text), (0, expected))

    def test_without_torch(self):
        """-S: an interpreter without any installed package."""
        code, text = python(f"""
import isobit
from isobit._built import torch_version
for name in {LAZY!r}:
    try:
        getattr(isobit, name)
        raise SystemExit(f"{{name}}: no error")
    except ImportError as error:
        expected = f"isobit.{{name}} needs PyTorch, which is not installed (pip install torch=={{torch_version}})"
        assert str(error) == expected and error.name == "torch", error
try:
    from isobit import record
    raise SystemExit("record: no error")
except ImportError as error:
    assert "pip install torch==" in str(error), error
assert callable(isobit.show) and callable(isobit.tables)  # they read records, which needs no torch
print(isobit.contract_version)""", "-S")
        self.assertEqual((code, text), (0, isobit.contract_version + "\n"))

    def test_another_missing_module_is_named(self):
        code, text = python("sys.modules['torch.nn'] = None\nimport isobit\nisobit.enable")
        self.assertEqual(code, 1)
        self.assertIn("torch.nn", text.splitlines()[-1])
        self.assertNotIn("pip install", text)

    def test_no_such_attribute(self):
        with self.assertRaisesRegex(AttributeError, "module 'isobit' has no attribute 'enabel'"):
            isobit.enabel  # noqa: B018
        self.assertFalse(hasattr(isobit, "enabel"))

    def test_star(self):
        names = {}
        exec("from isobit import *", names)
        self.assertLessEqual(set(isobit.__all__), set(names))
        self.assertIs(names["record"], isobit.record)

    def test_names(self):
        self.assertLessEqual(set(isobit.__all__), set(dir(isobit)))
        for name in isobit.__all__:
            self.assertTrue(hasattr(isobit, name), name)
        code, text = python("import isobit\nprint(*dir(isobit))")
        self.assertEqual(code, 0)
        self.assertLessEqual(set(isobit.__all__), set(text.split()))

    def test_pickle(self):
        for name in LAZY:
            self.assertIs(pickle.loads(pickle.dumps(getattr(isobit, name))), getattr(isobit, name), name)

    def test_help(self):
        text = pydoc.plain(pydoc.render_doc(isobit))
        for name in ("class RefusedError", "class RecordError", "class record", "enable(isa:", "seed(number: int) -> None"):
            self.assertIn(name, text)

    def test_the_library_is_of_the_same_contract(self):
        from isobit._base import _library

        self.assertEqual(_library.contract_version, isobit.contract_version)

    def test_everything_public_is_described_and_annotated(self):
        public = [(name, getattr(isobit, name)) for name in isobit.__all__]
        public += [(f"record.{name}", value) for name, value in vars(isobit.record).items() if not name.startswith("_")]
        for name, value in public:
            if isinstance(value, str):
                continue
            function = value.fget if isinstance(value, property) else value
            self.assertTrue(inspect.getdoc(value), name)
            if inspect.isfunction(function):
                signature = inspect.signature(function)
                parameters = [p for p in signature.parameters.values() if p.name != "self"]
                for annotation in (signature.return_annotation, *(p.annotation for p in parameters)):
                    self.assertIsNot(annotation, inspect.Signature.empty, name)


if __name__ == "__main__":
    unittest.main()
