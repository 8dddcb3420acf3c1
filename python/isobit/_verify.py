"""python -m isobit._verify FOLDER WORK ...: what `isobit verify` calls to execute a Python program's record again.

FOLDER is a record that was proven. The program runs in WORK/copy and leaves its second record in WORK/runs, which
`isobit verify` compares with the first. Exit code 2 and the reason on stdout where the program cannot be executed again.

It executes the recorded code: verify what you would run. The copy is the recorded commit (from --repository) with the
recorded patch and sources; without a repository the recorded sources alone. What else lies beside the script (data) is
linked into the copy, not copied. Needs no torch itself.
"""

import argparse
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from isobit import _provenance

RERUN = "ISOBIT_RERUN"  # tells isobit.record in the program where the second record goes, with how many threads


class CannotJudge(Exception):
    pass


def _text(record: pathlib.Path, name: str) -> str:
    """Of a file of the record; "" where it has none of that name."""
    path = record / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def workspace(folder: pathlib.Path, record: pathlib.Path, script: Mapping[str, Any], repository: str) -> pathlib.Path:
    """Fills `folder` with the program as it was; the folder in it where the program is called."""
    top = _provenance.repository(repository)
    if script.get("commit") and top is not None:
        _check_out(folder, record, script, top, repository)
    for path, text in json.loads(_text(record, "sources.json"))["files"].items():
        target = folder / path
        if folder.resolve() not in target.resolve().parents:
            raise CannotJudge(f"sources.json names a file outside its folder: {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    beside = top or pathlib.Path(repository).resolve()
    for part in {"", script["folder"] or ""}:
        _link_rest(beside / part, folder / part)
    here: str = script["folder"]
    return folder / here


def _check_out(folder: pathlib.Path, record: pathlib.Path, script: Mapping[str, Any], top: pathlib.Path,
               repository: str) -> None:
    packed = _provenance._git(top, "archive", script["commit"])
    if packed is None:
        if not (record / "export.json").exists():
            raise CannotJudge(f"commit {script['commit'][:12]} is not in {repository}: fetch it, or name another --repository")
        say(f"commit {script['commit'][:12]} is not in {repository}: the sources in the file are used alone")
        return
    subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
    patch = (record / "dirty.patch").read_bytes() if (record / "dirty.patch").exists() else b""
    if not patch or patch.startswith(b"# left out"):
        return
    done = subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=patch, cwd=folder, check=False, capture_output=True,
                          env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)})
    if done.returncode != 0:
        changed = {entry["path"] for entry in json.loads(_text(record, "export.json") or '{"changed": []}')["changed"]}
        reason = done.stderr.decode(errors="replace").strip()
        if "dirty.patch" not in changed:
            raise CannotJudge(f"dirty.patch does not apply to commit {script['commit'][:12]}: {reason}")
        say("dirty.patch was changed by isobit export and does not apply: of changed files only those in sources.json are used")


def say(text: str) -> None:
    print(f"isobit: {text}", file=sys.stderr)


def _link_rest(source: pathlib.Path, target: pathlib.Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    if not source.is_dir():
        return
    for entry in source.iterdir():
        copy = target / entry.name
        if entry.name != ".git" and not copy.exists() and not copy.is_symlink():
            copy.symlink_to(entry.resolve())


def arguments_of(script: Mapping[str, Any], given: list[str]) -> list[str]:
    if given:
        return given
    if any(_provenance.LEFT_OUT in argument for argument in script["arguments"]):
        raise CannotJudge(f"arguments were left out of the record: {' '.join(script['arguments'])}; give all after --")
    home = os.path.expanduser("~")
    return [home + argument[1:] if argument.startswith("~/") else argument.replace("=~/", f"={home}/")
            for argument in script["arguments"]]


def again(record: pathlib.Path, work: pathlib.Path, options: argparse.Namespace) -> None:
    """Runs the program; it leaves one sealed record."""
    script = _provenance.read_toml(_text(record, "experiment.toml"))
    if not script["file"]:
        raise CannotJudge("recorded in an interactive session: there is no script to run again")
    arguments = arguments_of(script, options.arguments)
    if (record / "export.json").exists():
        say(f"running the program in the file: {script['file']} {' '.join(script['arguments'])}".rstrip())
    runs, copy = work / "runs", work / "copy"
    copy.mkdir()
    here = workspace(copy, record, script, options.repository)
    settings = {"runs": str(runs), "threads": options.threads, "isa": options.isa}
    done = subprocess.run([sys.executable, str(copy / script["file"]), *arguments], cwd=here,
                          env={**os.environ, RERUN: json.dumps(settings)}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    found = [path for path in runs.glob("*") if not path.name.startswith(".")] if runs.is_dir() else []
    if len(found) != 1 or not (found[0] / "manifest.json").exists():
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise CannotJudge(f"the script ended with exit code {done.returncode} and {len(found)} records; its last lines:\n{tail}")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m isobit._verify", description=__doc__)
    parser.add_argument("record", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--isa", required=True)
    parser.add_argument("--repository", default=".")
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    options.arguments = words[end + 1:]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    try:
        again(options.record, options.work, options)
    except (CannotJudge, OSError, subprocess.SubprocessError) as error:
        print(error)
        return 2
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        print(f"{options.record}: not the record of a Python program: {error!r}")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
