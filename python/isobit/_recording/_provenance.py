"""What ran: the script, its sources, the commit and what differs from it, the machine. No secrets, no home paths.

Home directories become "~". Arguments that look like a secret, or whose name sounds like one, lose their value. Of the
environment's variables an allowlist is kept, the one of `src/archive/environment.cpp`.
"""

import _imp
import functools
import importlib.util
import json
import marshal
import os
import pathlib
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterable
from typing import Any

from isobit._base import _package
from isobit._base._errors import RecordError
from isobit._built import __version__

VARIABLES = ("ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "CUDA_VISIBLE_DEVICES", "DNNL_MAX_CPU_ISA", "GOMP_CPU_AFFINITY",
             "KMP_AFFINITY", "KMP_BLOCKTIME", "LANG", "LC_ALL", "MALLOC_ARENA_MAX", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS",
             "MKL_NUM_THREADS", "OMP_DYNAMIC", "OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "ONEDNN_MAX_CPU_ISA",
             "PYTHONHASHSEED", "SLURM_CPUS_PER_TASK", "SLURM_NNODES", "SLURM_NTASKS", "TZ")
FEATURES = {"avx", "avx2", "fma", "avx512f", "avx512vl", "avx512dq", "avx512bw", "asimd", "vsx", "f16c", "bmi2"}
SECRET = re.compile(r"(secret|token|passw|passphrase|\bpwd|(api|access|auth|private|account|encryption|signing)[-_]?key|"
                    r"credential)", re.IGNORECASE)
LEFT_OUT = "(left out)"
LARGEST_PATCH = 16 << 20  # bytes that a record is given
LARGEST_FILE = 256 << 20  # bytes of a record's sources.json, or of its patch, that are read
STACK = 5  # from here to the program's `with`


def without_home(text: str) -> str:
    home = os.path.expanduser("~").rstrip("/")
    return re.sub(re.escape(home) + r"(?=/|$|\s|['\":])", "~", text) if home not in ("", "/") else text


def without_secrets(arguments: Iterable[str]) -> list[str]:
    from isobit._recording import _record_files  # needs torch, which `isobit verify` does without

    kept: list[str] = []
    hide = False
    for argument in map(without_home, arguments):
        name, equals, _ = argument.partition("=")
        if hide:
            kept.append(LEFT_OUT)
        elif equals and SECRET.search(name):
            kept.append(f"{name}={LEFT_OUT}")
        else:
            kept.append(_record_files.redacted(argument) if _record_files.AVAILABLE else argument)
        hide = not hide and not equals and argument.startswith("-") and bool(SECRET.search(argument))
    return kept


# What a repository or its attributes may set, and what would change a diff's text or have it made by another program.
_PLAIN = ("--no-pager", "--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.quotePath=true",
          "-c", "core.attributesFile=/dev/null", "-c", "diff.suppressBlankEmpty=false", "-c", "apply.whitespace=nowarn",
          "-c", "apply.ignoreWhitespace=no")
_DIFF = ("diff", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--no-renames",
         "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=all", "--submodule=short", "--unified=3",
         "--inter-hunk-context=0", "--diff-algorithm=myers", "-O/dev/null", "HEAD")


@functools.cache
def _safe_folders() -> tuple[str, ...]:
    """The user's own word on whose repositories he trusts, the one thing of his configuration that stays."""
    try:
        done = subprocess.run(["git", "config", "--null", "--get-all", "safe.directory"], capture_output=True,
                              check=False, cwd="/")
    except OSError:
        return ()
    return tuple(os.fsdecode(value) for value in done.stdout.split(b"\0") if value)


def _git(folder: str | os.PathLike[str], *arguments: str, given: bytes | None = None, **variables: str) -> bytes | None:
    """What git prints, without the configuration of user and system; None where it fails. given: its input."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C", **variables}
    safe = [word for safe_folder in _safe_folders() for word in ("-c", f"safe.directory={safe_folder}")]
    try:
        done = subprocess.run(["git", "-C", str(folder), *_PLAIN, *safe, *arguments], input=given, capture_output=True,
                              check=False, env=environment)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def applies(top: str | os.PathLike[str], patch: bytes) -> bool:
    """Whether the patch can be applied to the commit, tried on an index of its own: the repository stays as it is."""
    with tempfile.TemporaryDirectory(prefix="isobit-") as scratch:
        index = os.path.join(scratch, "index")
        return (_git(top, "read-tree", "HEAD", GIT_INDEX_FILE=index) is not None
                and _git(top, "apply", "--cached", "--check", "-", given=patch, GIT_INDEX_FILE=index) is not None)


def take_patch(top: str | os.PathLike[str]) -> tuple[bytes, bool]:
    """(what differs from the commit, whether it can be applied to it), with a warning where it cannot."""
    patch = _git(top, *_DIFF)
    if patch is None:
        problem, patch = "git cannot say what they are", b"# left out: git diff failed\n"
    elif len(patch) > LARGEST_PATCH:
        problem, patch = f"they are {len(patch)} bytes, above {LARGEST_PATCH}", f"# left out: {len(patch)} bytes\n".encode()
    elif patch and not applies(top, patch):
        problem = "git cannot apply its own patch of them to the commit"
    else:
        return patch, True
    warnings.warn(f"isobit.record: the uncommitted changes cannot be taken from the record: {problem}; commit them, so that the "
                  "run can be verified", stacklevel=STACK)
    return patch, False


def script_path() -> pathlib.Path | None:
    """The program's file, or None in an interactive session."""
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    spec = getattr(main, "__spec__", None)
    if path is None or (spec is not None and spec.name == "isobit.__main__"):
        return None
    path = pathlib.Path(path).resolve()
    return path if path.is_file() else None


def repository(folder: str | os.PathLike[str]) -> pathlib.Path | None:
    root = _git(folder, "rev-parse", "--show-toplevel")
    return pathlib.Path(root.decode().strip()).resolve() if root else None


def _real(path: str, folders: dict[str, str]) -> str:
    """os.path.realpath of one of thousands of modules: each folder on the way is looked at once. `folders`: those seen."""
    folder, name = os.path.split(path)
    if not folder or name in ("", ".", ".."):
        return os.path.realpath(path)
    if folder not in folders:
        folders[folder] = _real(folder, folders)
    path = os.path.join(folders[folder], name)
    return os.path.realpath(path) if os.path.islink(path) else path


def _require_compiled_from(text: str, path: str, cached: object) -> None:
    """RecordError where Python took compiled code for the module that it never holds against the text, and that is not of it: the
    text would be recorded, and something else had run."""
    try:
        with open(str(cached), "rb") as file:
            content = file.read()
    except (OSError, ValueError):
        return
    flags = int.from_bytes(content[4:8], "little")
    unchecked = flags & 1 and _imp.check_hash_based_pycs != "always" and (not flags & 2 or _imp.check_hash_based_pycs == "never")
    if not unchecked or content[:4] != importlib.util.MAGIC_NUMBER:
        return
    try:
        same = marshal.loads(content[16:]) == compile(text, path, "exec", dont_inherit=True, optimize=sys.flags.optimize)
    except (EOFError, SyntaxError, TypeError, ValueError):
        same = False
    if not same:
        raise RecordError(f"isobit.record: {cached} is taken in the place of {path} and was not compiled from it, so that what "
                          "runs would not be what is recorded\n  do     remove that file, or start Python with "
                          "--check-hash-based-pycs always")


def local_sources(root: str | os.PathLike[str]) -> dict[str, str]:
    """path within root -> text, of the modules loaded from there: the entry script and what it imported. RecordError where that
    is not the text that they were compiled from."""
    root = f"{root}{'' if str(root).endswith('/') else '/'}"
    outside = tuple(os.path.realpath(folder) + "/" for folder in
                    (*map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), *_package.FOLDERS))
    folders: dict[str, str] = {}
    found: dict[str, str] = {}
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if not isinstance(name, str) or not name.endswith(".py"):
            continue
        path = _real(name, folders)
        if path.startswith(root) and not path.startswith(outside):
            try:
                text = pathlib.Path(path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            _require_compiled_from(text, path, getattr(module, "__cached__", None))
            found[path[len(root):]] = text
    return dict(sorted(found.items()))


def describe_script() -> tuple[dict[str, Any], pathlib.Path | None, bytes | None]:
    """(what experiment.toml says, root of the sources or None, patch or None)"""
    from isobit._jobs import _job  # needs torch, which `isobit verify` does without

    path = script_path()
    if path is None:
        return {"file": "", "arguments": []}, None, None
    top = repository(path.parent)
    root = top or path.parent
    told = (_job.called_for() or {}).get("root")  # of a program that is executed again, so that its sources have their names
    if told is not None and pathlib.Path(told).resolve() in path.parents:
        root = pathlib.Path(told).resolve()
    here = pathlib.Path.cwd().resolve()
    script: dict[str, Any] = {"file": str(path.relative_to(root)), "arguments": without_secrets(sys.argv[1:]),
                              "folder": str(here.relative_to(root)) if here == root or root in here.parents else ""}
    patch = None
    commit = _git(top, "rev-parse", "HEAD") if top else None
    if top and commit:
        patch, whole = take_patch(top)
        script |= {"commit": commit.decode().strip(), "dirty": bool(patch)} | ({} if whole else {"patch_applies": False})
    return script, root, patch or None


def toml(table: str, values: dict[str, Any], comment: str) -> str:
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return f"# {comment}\n[{table}]\n" + "\n".join(lines) + "\n"


def read_toml(text: str) -> dict[str, Any]:
    """What toml() wrote: a value per line in JSON's spelling, which is TOML's too."""
    pairs = (line.split(" = ", 1) for line in text.splitlines() if " = " in line and not line.startswith("#"))
    return {key: json.loads(value) for key, value in pairs}


def _first_value(path: str, key: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                name, separator, value = line.partition(":" if ":" in line else "=")
                if separator and name.strip() == key:
                    return value.strip().strip('"')
    except OSError:
        pass
    return ""


def environment(stock: bool = False) -> dict[str, Any]:
    """stock: PyTorch computes as it comes."""
    import torch

    from isobit._base import _library
    from isobit._recording import _stock

    flags = _first_value("/proc/cpuinfo", "flags").split()
    versions = {name: getattr(sys.modules[name], "__version__", "") for name in ("numpy",) if name in sys.modules}
    variables = {name: "(a path)" if "/" in os.environ[name] else os.environ[name] for name in VARIABLES if name in os.environ}
    return {
        "format": "isobit-environment-1",
        "program": {"version": __version__, "code": "", "compiler": "", "build": "python package"},
        "contract": _stock.CONTRACT if stock else _library.contract_in_force(),
        "hardware": {"architecture": platform.machine(), "cpu": _first_value("/proc/cpuinfo", "model name"),
                     "features": [flag for flag in flags if flag in FEATURES], "cores": os.cpu_count(),
                     "cores_allowed": len(os.sched_getaffinity(0)), "memory": _first_value("/proc/meminfo", "MemTotal")},
        "libraries": {"system": _first_value("/etc/os-release", "PRETTY_NAME"),
                      "kernel": f"{platform.system()} {platform.release()}", "libc": platform.libc_ver()[1],
                      "python": platform.python_version(), **versions},
        "run": _stock.environment() if stock else {"threads": str(torch.get_num_threads()), "isa": _library.isa(),
                                                   "torch": torch.__version__},
        "variables": variables}
