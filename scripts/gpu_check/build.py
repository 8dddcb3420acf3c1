"""Builds libisobit_torch.so against the torch of this Python: cmake, ninja, nvcc, g++; nothing else."""

import os
import pathlib
import re
import shutil
import subprocess

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


class BuildError(RuntimeError):
    pass


def run(command, log, environment=None):
    log.write("$ " + " ".join(map(str, command)) + "\n")
    log.flush()
    done = subprocess.run(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, env=environment,
                          check=False)
    if done.returncode != 0:
        raise BuildError(f"'{' '.join(map(str, command))}' failed (exit {done.returncode}); see {log.name}")


def build(folder, log, jobs):
    for tool in ("cmake", "ninja", "nvcc"):
        if shutil.which(tool) is None:
            raise BuildError(f"{tool} is not on the PATH")
    major, minor = torch.cuda.get_device_capability(0)
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DISOBIT_EXTENSION_ONLY=ON", "-DISOBIT_CUDA=on",
               f"-DISOBIT_TORCH_DIR={pathlib.Path(torch.__file__).parent}",
               f"-DCMAKE_CUDA_ARCHITECTURES={major}{minor}"]
    run(["cmake", "-S", ROOT, "-B", folder, *options], log)
    run(["ninja", "-C", folder, "-j", jobs, "isobit_torch"], log)
    return folder / "python" / "isobit" / "libisobit_torch.so"


def commit():
    """The commit, '+changes' where the tree differs; 'unknown' outside git."""
    try:
        name = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout.strip()
        dirty = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=ROOT, capture_output=True, text=True,
                               check=True).stdout.strip()
        return name + ("+changes" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("ISOBIT_COMMIT", "unknown")


def sanitize(script, log):
    """compute-sanitizer's tools over a small part; None where it is not installed, else {tool: verdict}."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        return None
    verdicts = {}
    for tool in ("memcheck", "racecheck"):
        done = subprocess.run([program, "--tool", tool, "--error-exitcode", "99", *script], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        log.write(f"== compute-sanitizer {tool}\n{done.stdout}\n")
        summary = re.findall(r"={8,} (?:ERROR|RACECHECK) SUMMARY: .*", done.stdout)
        verdicts[tool] = "clean" if done.returncode == 0 else (summary[-1] if summary else f"exit {done.returncode}")
    return verdicts
