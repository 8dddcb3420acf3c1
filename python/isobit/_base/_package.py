"""Where this package lies, and what lies in it beside its modules. Needs no torch."""

import importlib.util
import os
import pathlib

FOLDER = pathlib.Path(__file__).parents[1]
# As it is named and without links: a build has links to the modules.
FOLDERS = str(FOLDER), os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
LIBRARY = FOLDER / "libisobit_torch.so"
PROGRAM = FOLDER / "bin" / "isobit"


def torch_folder() -> str | None:
    """Of the torch that `import torch` would find, which is not imported; None where there is none."""
    found = importlib.util.find_spec("torch")
    return str(pathlib.Path(found.origin).parent) if found is not None and found.origin else None
