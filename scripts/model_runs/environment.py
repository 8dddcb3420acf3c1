"""build/models-env: an environment apart, with the libraries of scripts/models.txt."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "models-env"

_DECLARED = """

# scripts/models --setup of isobit: declared, for a PyTorch without CUDA beside which _C.so does not load
torch.library.define("torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
torch.library.define("torchvision::qnms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def package():
    """The folder with the isobit to test: PYTHONPATH's first that has it, else the release build."""
    for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if folder and (pathlib.Path(folder) / "isobit" / "libisobit_torch.so").exists():
            return folder
    return str(ROOT / "build" / "release" / "python")


def python():
    return FOLDER / "bin" / "python"


def setup():
    if not python().exists():
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    done = subprocess.run(
        [python(), "-m", "pip", "install", "--disable-pip-version-check", "-r", str(ROOT / "scripts" / "models.txt")], check=False
    )
    if done.returncode:
        print("models: the libraries do not install; pip says why", file=sys.stderr)
        return 2
    _do_without_cuda()
    return 0


def _do_without_cuda():
    """torchvision's and torchaudio's compiled parts on PyPI link to CUDA's libraries; their Python models run without them.

    torchaudio takes a missing library for a build without it. torchvision's import misses two operators; they are declared,
    without kernels, so a model that calls one fails in stock PyTorch too.
    """
    for packages in FOLDER.glob("lib/python*/site-packages"):
        for library in packages.glob("torchaudio/lib/*.so"):
            library.unlink()
        extension = packages / "torchvision" / "extension.py"
        text = extension.read_text(encoding="utf-8")
        if _DECLARED not in text:
            extension.write_text(text + _DECLARED, encoding="utf-8")
