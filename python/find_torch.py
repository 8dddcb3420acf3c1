"""Which torch the package is built against: the one in the environment that asks for the build.

pip builds in an environment of its own where that torch is hidden, and one that pip would fetch there may be another
version, with other binary interfaces. So the same interpreter is asked again without pip's settings (python -E).
ISOBIT_TORCH_DIR, a path to a torch package, goes before. As a program: prints that path. As a module: the metadata
provider that makes the wheel ask for exactly that torch.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

NOT_FOUND = ("no torch in the environment of {}: install torch first (pip install torch), or name a torch package's "
             "folder in ISOBIT_TORCH_DIR, or build with --no-build-isolation")


def torch_folder():
    """The torch package's folder; RuntimeError where there is none."""
    named = os.environ.get("ISOBIT_TORCH_DIR")
    if named:
        return pathlib.Path(named)
    done = subprocess.run([sys.executable, "-E", __file__], capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise RuntimeError(NOT_FOUND.format(sys.executable))
    return pathlib.Path(done.stdout.strip())


def torch_version(folder):
    """ "2.13.0", without what says how it was built ("+cpu")."""
    text = (folder / "version.py").read_text(encoding="utf-8")
    return re.search(r"__version__ = '([0-9.]+)", text).group(1)


def dynamic_metadata(field, settings=None, project=None):
    if field != "dependencies":
        raise RuntimeError(f"find_torch provides dependencies, not {field}")
    return [f"torch=={torch_version(torch_folder())}"]


def main():
    named = os.environ.get("ISOBIT_TORCH_DIR")
    spec = importlib.util.find_spec("torch") if not named else None
    if not named and (spec is None or spec.origin is None):
        return NOT_FOUND.format(sys.executable)
    print(named or pathlib.Path(spec.origin).parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
