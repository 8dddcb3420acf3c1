"""python -m isobit verify RUN: the recorded script runs again, in a copy, and everything recorded is compared.

It executes the recorded code: verify what you would run. The copy is the recorded commit (from the repository that this
is called in) with the recorded patch and sources; without a repository the recorded sources alone. What else lies beside
the script (data) is linked into the copy, not copied.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from isobit import _exported, _library, _provenance, _switch
from isobit._record import RERUN
from isobit._record_files import DamagedRecord, find_run, read_record


class CannotJudge(Exception):
    pass


def workspace(folder, record, script, repository):
    """Fills `folder` with the program as it was."""
    top = _provenance.repository(repository)
    if script.get("commit") and top is not None:
        _check_out(folder, record, script, top, repository)
    for path, text in json.loads(record["sources.json"])["files"].items():
        target = folder / path
        if folder.resolve() not in target.resolve().parents:
            raise CannotJudge(f"sources.json names a file outside its folder: {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    beside = top or pathlib.Path(repository).resolve()
    for part in {"", script["folder"] or ""}:
        _link_rest(beside / part, folder / part)
    return folder / script["folder"]


def _check_out(folder, record, script, top, repository):
    packed = _provenance._git(top, "archive", script["commit"])
    if packed is None:
        if "export.json" not in record:
            raise CannotJudge(f"commit {script['commit'][:12]} is not in {repository}: fetch it, or name another --repository")
        say(f"commit {script['commit'][:12]} is not in {repository}: the sources in the file are used alone")
        return
    subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
    patch = record.get("dirty.patch", b"")
    if not patch or patch.startswith(b"# left out"):
        return
    done = subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=patch, cwd=folder, check=False, capture_output=True,
                          env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)})
    if done.returncode != 0:
        changed = {entry["path"] for entry in json.loads(record.get("export.json", b'{"changed": []}'))["changed"]}
        reason = done.stderr.decode(errors="replace").strip()
        if "dirty.patch" not in changed:
            raise CannotJudge(f"dirty.patch does not apply to commit {script['commit'][:12]}: {reason}")
        say("dirty.patch was changed by isobit export and does not apply: of changed files only those in sources.json are used")


def say(text):
    print(f"isobit: {text}", file=sys.stderr)


def _link_rest(source, target):
    target.mkdir(parents=True, exist_ok=True)
    if not source.is_dir():
        return
    for entry in source.iterdir():
        copy = target / entry.name
        if entry.name != ".git" and not copy.exists() and not copy.is_symlink():
            copy.symlink_to(entry.resolve())


def arguments_of(script, given):
    if given:
        return given
    if any(_provenance.LEFT_OUT in argument for argument in script["arguments"]):
        raise CannotJudge(f"arguments were left out of the record: {' '.join(script['arguments'])}; give all after --")
    home = os.path.expanduser("~")
    return [home + argument[1:] if argument.startswith("~/") else argument.replace("=~/", f"={home}/")
            for argument in script["arguments"]]


def again(record, script, options):
    """The files of the second record."""
    with tempfile.TemporaryDirectory(prefix="isobit-verify-") as temporary:
        runs, copy = pathlib.Path(temporary, "runs"), pathlib.Path(temporary, "copy")
        copy.mkdir()
        here = workspace(copy, record, script, options.repository)
        settings = {"runs": str(runs), "threads": options.threads, "isa": options.isa}
        done = subprocess.run([sys.executable, str(copy / script["file"]), *arguments_of(script, options.arguments)], cwd=here,
                              env={**os.environ, RERUN: json.dumps(settings)}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        found = [path for path in runs.glob("*") if not path.name.startswith(".")] if runs.is_dir() else []
        if len(found) != 1 or not (found[0] / "manifest.json").exists():
            tail = "\n".join(done.stdout.splitlines()[-15:])
            raise CannotJudge(f"the script ended with exit code {done.returncode} and {len(found)} records; its last lines:\n{tail}")
        return read_record(found[0])


def first_difference(recorded, recomputed):
    """{"step", "what", "recorded", "recomputed"}, or None."""
    before, now = (_lines(record["steps.jsonl"]) for record in (recorded, recomputed))
    for old, new in zip(before, now):
        for what in ("epoch", "batch", "loss", "weights", "optimizer"):
            if old.get(what) != new.get(what):
                return _difference(old["step"], what, old.get(what), new.get(what))
    if len(before) != len(now):
        return _difference(min(len(before), len(now)) + 1, "steps", len(before), len(now))
    old, new = (_lines(record["metrics.jsonl"]) for record in (recorded, recomputed))
    for a, b in zip(old, new):
        if a != b:
            return _difference(a["step"], "metrics", json.dumps(a["values"]), json.dumps(b["values"]))
    if len(old) != len(new):
        return _difference(len(before), "metrics", len(old), len(new))
    if all("evaluations.jsonl" in record for record in (recorded, recomputed)):  # records of earlier versions have none
        old, new = (_lines(record["evaluations.jsonl"]) for record in (recorded, recomputed))
        for a, b in zip(old, new):
            if a != b:
                return _difference(a["step"], "evaluated batches", a["batches"], b["batches"])
        if len(old) != len(new):
            return _difference(len(before), "evaluations", len(old), len(new))
    a, b = (_state(record)["weights"] for record in (recorded, recomputed))
    return _difference(len(before), "weights", a, b) if a != b else None


def _lines(log):
    return [json.loads(line) for line in log.splitlines()]


def _state(record):
    return json.loads(record["state.json"])


def _difference(step, what, recorded, recomputed):
    return {"step": step, "what": what, "recorded": str(recorded), "recomputed": str(recomputed)}


def other_settings(record, options):
    """Where nothing is asked for: other threads and another instruction set than recorded."""
    ran = json.loads(record["environment.json"])["run"]
    if options.threads is None:
        options.threads = 1 if int(ran.get("threads", 1)) > 1 else 2
    if options.isa is None:
        options.isa = "avx2" if ran.get("isa") == "avx512" else "auto" if ran.get("isa") == "reference" else "reference"


def verify(options, verdict):
    with tempfile.TemporaryDirectory(prefix="isobit-import-") as temporary:
        if pathlib.Path(options.run).is_file():
            verdict["path"] = options.run
            _, record = _exported.unpack(options.run, temporary)
            folder = options.run
        else:
            folder = find_run(options.runs, options.run)
            verdict["path"] = str(folder)
            record = read_record(folder)
    text = record["experiment.toml"].decode()
    if "\n[script]\n" not in text:
        raise CannotJudge(f"{folder} was recorded by isobit run: verify it with that program")
    script, state = _provenance.read_toml(text), _state(record)
    verdict["recorded_weights"] = state["weights"]
    if state["contract"] != _library.contract_version:
        raise CannotJudge(f"recorded under {state['contract']}, this is {_library.contract_version}")
    if not script["file"]:
        raise CannotJudge("recorded in an interactive session: there is no script to run again")
    other_settings(record, options)
    if "export.json" in record:
        say(f"running the program in the file: {script['file']} {' '.join(script['arguments'])}".rstrip())
    second = again(record, script, options)
    difference = first_difference(record, second)
    weights = None if difference else _state(second)["weights"]
    verdict.update({"verdict": "different" if difference else "identical", "from": 1, "to": state["steps"], "whole": True,
                    "weights": weights, "difference": difference})
    if difference:
        verdict["message"] = ("different at step {step}: {what} recorded {recorded}, recomputed {recomputed}"
                              .format(**difference))
    else:
        verdict["message"] = (f"identical: {state['steps']} steps, weights {weights} ({options.threads} "
                              f"thread{'s' * (options.threads != 1)}, {options.isa})")
    return 1 if difference else 0


def _count(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def declare(commands):
    command = commands.add_parser("verify", help="execute a recorded script again and compare everything", description=__doc__,
                                  epilog="After --: arguments for the script instead of the recorded ones.")
    command.add_argument("run", metavar="RUN", help="a run's folder, id, beginning of an id, last, or a file made by isobit export")
    command.add_argument("--runs", help="the archive (default: $ISOBIT_RUNS, else runs)")
    command.add_argument("--threads", type=_count, help="default: another count than recorded")
    command.add_argument("--isa", choices=_switch.ISAS, help="default: another than recorded")
    command.add_argument("--repository", default=".", help="where the commit and the data are (default: here)")
    command.add_argument("--json", action="store_true", help="one JSON object on stdout (docs/cli.md)")
    command.set_defaults(call=call)


def call(options):
    verdict = dict.fromkeys(("verdict", "path", "from", "to", "whole", "weights", "recorded_weights", "difference", "message"))
    try:
        code = verify(options, verdict)
    except (CannotJudge, DamagedRecord, OSError, subprocess.CalledProcessError) as error:
        verdict.update(verdict="cannot-judge", message=str(error))
        code = 2
    if options.json:
        print(json.dumps(verdict, indent=2, ensure_ascii=False))
    if code == 2:
        print(f"isobit: {verdict['message']}", file=sys.stderr)
    elif not options.json:
        print(verdict["message"])
    return code
