"""python -m isobit export RUN: a finished run as one file that anyone can verify, byte for byte what `isobit export` writes.

docs/formats/export.md says what goes in and what must not; src/archive/run_export.cpp is the C++ program's. The wheel carries no
C++ for it, so that it builds with a compiler and torch alone; the rules for secrets are one file that both read.
"""

import argparse
import errno
import json
import os
import pathlib
import re
import secrets
import sys
from typing import NamedTuple

from isobit._problem import Problem, of_the_system
from isobit._record_files import digest, digest_file, find_run, json_text, manifest_text, read_record
from isobit._secrets import SecretScan

FORMAT = "isobit-export-1"
PATCH, SOURCES, NETWORK = "dirty.patch", "sources.json", "network.pt"
_README = """The record of one training run, made by isobit. To execute it again and compare everything:

    {command}

It ends with 0 where every step came out with the same bits, with 1 where one did not. {look}
export.json says what was left out of the record or changed in it.
"""


class PatchedFile(NamedTuple):
    path: str
    added: int
    removed: int
    binary: bool
    first_line: int  # of the patch, from 1


class Plan:
    """What goes into the file; nothing is written yet."""

    def __init__(self, run):
        self.run = run
        self.texts = {}  # name -> bytes
        self.files = {}  # name -> path: what is not read into memory
        self.left_out = {}  # name -> digest
        self.changed = {}  # name -> what was done to it
        self.findings = []  # (place, what): where there are any, nothing may be written
        self.patch = []  # PatchedFile


# ---- the plan


def plan_export(folder, scan, with_weights=False, redact=False):
    record, sealed = read_record(folder, checkpoints=False)
    manifest = (folder / "manifest.json").read_bytes()
    plan = Plan(json.loads(manifest)["run"])
    for path in sorted(sealed, key=str.encode):
        if path.startswith("checkpoints/") and not with_weights:
            plan.left_out[path] = sealed[path]
        elif path.startswith("checkpoints/") or path == NETWORK:
            plan.files[path] = folder / path
        else:
            _add_text(plan, path, record[path], scan, redact)
    _name_patched_files(plan)
    _add_network(plan, record["experiment.toml"])
    _update_state(plan)
    # What was exported before and comes out as it is keeps what it says of the original.
    if plan.left_out or plan.changed or "export.json" not in plan.texts:
        plan.texts["export.json"] = _export_text(plan, sealed, json.loads(manifest)["digest"])
    plan.texts.setdefault("README.txt", _readme(record["experiment.toml"]))
    return plan


def _add_text(plan, path, text, scan, redact):
    changes = []
    if path == PATCH:
        _look_at_patch(plan, text, scan, redact)
    if path == SOURCES:
        plan.texts[path] = _cleaned_sources(plan, text, scan, redact, changes)
    else:
        plan.texts[path] = _cleaned(plan, path, text, scan, redact, changes)
    if changes:
        plan.changed[path] = changes


def _cleaned(plan, place, text, scan, redact, changes):
    """One text without home paths, and without secrets where that is asked for; findings where it is not."""
    def note(what):
        if what not in changes:
            changes.append(what)

    result = scan.without_home(text)
    if result != text:
        note("home paths as ~")
    found = scan.find(place, result)
    if found and redact:
        note("secrets left out")
        return scan.redacted(result)
    plan.findings += found
    return result


def _cleaned_sources(plan, text, scan, redact, changes):
    """Each text in it is looked at by itself, so that places are those of the program's files."""
    try:
        sources = json.loads(text)
        for path, source in sources["files"].items():
            sources["files"][path] = _cleaned(plan, f"{SOURCES}: {path}", source.encode(), scan, redact, changes).decode(errors="replace")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Problem(SOURCES, "does not hold a program's sources", "restore the run's folder from a copy") from None
    return json_text(sources).encode() if changes else text


def summarize_patch(patch):
    """What `git diff` changes, by file."""
    files, in_hunk = [], False
    for number, line in enumerate(patch.split(b"\n"), 1):
        if line.startswith(b"diff --git "):
            header = line[len(b"diff --git "):]
            path = header[header.rfind(b" b/") + 3:] if b" b/" in header else header
            files.append(PatchedFile(path.decode(errors="replace"), 0, 0, False, number))
            in_hunk = False
        elif not files:
            continue
        elif line.startswith(b"@@ "):
            in_hunk = True
        elif line.startswith(b"GIT binary patch"):
            files[-1] = files[-1]._replace(binary=True)
        elif in_hunk and line.startswith(b"+"):
            files[-1] = files[-1]._replace(added=files[-1].added + 1)
        elif in_hunk and line.startswith(b"-"):
            files[-1] = files[-1]._replace(removed=files[-1].removed + 1)
    return files


def _look_at_patch(plan, patch, scan, redact):
    plan.patch = summarize_patch(patch)
    for file in plan.patch:
        if not scan.is_secret_file(file.path.encode()):
            continue
        if redact:
            raise Problem(file.path, "a file that usually holds secrets is in the uncommitted changes",
                          f"--redact can not tell what in it is one; where it holds none: --allow '{file.path}'")
        plan.findings.append((f"{PATCH}:{file.first_line}", f"{file.path}, a file that usually holds secrets"))


def _name_patched_files(plan):
    """ "dirty.patch:12" becomes "dirty.patch:12 (train.py)"."""
    for index, (place, what) in enumerate(plan.findings):
        if place.startswith(f"{PATCH}:"):
            line = int(place.removeprefix(f"{PATCH}:"))
            within = [file.path for file in plan.patch if file.first_line <= line]
            if within:
                plan.findings[index] = (f"{place} ({within[-1]})", what)


def _add_network(plan, experiment):
    """The TorchScript file of an experiment that names one: its initial weights are needed."""
    named = re.search(rb'^torchscript = "(.*)"$', experiment, re.MULTILINE)
    if named is None or NETWORK in plan.files:
        return
    network = pathlib.Path(os.fsdecode(named[1]))
    if not network.is_file():
        raise Problem(network, "the run's TorchScript file is not there, and it is needed to verify",
                      "call isobit export where the run was started")
    recorded = re.search(rb'^sha256 = "([0-9a-f]{64})"$', experiment, re.MULTILINE)
    if recorded is None or digest_file(network)["sha256"] != recorded[1].decode():
        raise Problem(network, "is not the TorchScript file that the run began with", "restore it")
    plan.files[NETWORK] = network


def _update_state(plan):
    """state.json knows the digests of the inputs."""
    state = json.loads(plan.texts["state.json"])
    changed = [path for path in state["inputs"] if path in plan.changed]
    if changed:
        state["inputs"] = {path: digest(plan.texts[path]) if path in changed else state["inputs"][path]
                           for path in sorted(state["inputs"], key=str.encode)}
        plan.texts["state.json"] = json_text(state).encode()


def _export_text(plan, sealed, seal):
    return json_text({
        "format": FORMAT, "run": plan.run, "manifest": seal,
        "left_out": [{"path": path, **file} for path, file in plan.left_out.items()],
        "changed": [{"path": path, "sha256": sealed[path]["sha256"], "changes": plan.changed[path]}
                    for path in sorted(plan.changed, key=str.encode)]}).encode()


def _readme(experiment):
    if b"[script]\n" in experiment:
        return _README.format(
            command="python -m isobit verify FILE.tar",
            look="It runs the recorded program:\nlook at sources.json and dirty.patch first. Call it where the program's repository "
                 "and its data lie.").encode()
    return _README.format(command="isobit verify FILE.tar --data FOLDER", look="data.json names the\ndata's files with their "
                          "digests.").encode()


# ---- the file


def write_export(plan, path):
    """Writes the plan; the file's digest. Whole or not at all; a file of that name stays."""
    files = {name: digest(text) for name, text in plan.texts.items()} | {name: digest_file(file) for name, file in plan.files.items()}
    entries = {**plan.texts, **plan.files, "manifest.json": manifest_text(plan.run, files).encode()}
    path = pathlib.Path(path)
    if os.path.lexists(path):
        raise Problem(path, "is there already", "name another file, or move that one away")
    temporary = path.with_name(f".tmp-{secrets.token_hex(4)}")
    with of_the_system(path, "can not be written"):
        try:
            with open(temporary, "xb") as out:
                for name in sorted(entries, key=str.encode):
                    _write_entry(out, f"{plan.run}/{name}", entries[name])
                out.write(bytes(1024))
                out.flush()
                os.fsync(out.fileno())
            _put_in_place(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    return digest_file(path)


def _put_in_place(temporary, path):
    try:
        os.link(temporary, path)  # fails where the name is taken meanwhile
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise
        os.rename(temporary, path)


def _write_entry(out, name, content):
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    out.write(tar_header(name, size))
    if isinstance(content, bytes):
        out.write(content)
    else:
        with open(content, "rb") as file:
            while piece := file.read(1 << 20):
                out.write(piece)
    out.write(bytes(-size % 512))


def tar_header(name, size):
    """A POSIX header (ustar) in libarchive's spelling: a regular file, mode 0644, owner 0, time 0."""
    if size >= 1 << 33:
        raise Problem(name, f"{size} bytes: a file of 8 GiB or more is not written by the Python package",
                      "use the isobit program, or leave --with-weights out")
    content = name.encode()
    cut = 0 if len(content) <= 100 else content.index(b"/", len(content) - 101) + 1
    header = content[cut:].ljust(100, b"\0") + b"000644 \0" + b"000000 \0" * 2 + b"%011o %011o " % (size, 0) + b" " * 8 + b"0"
    header += bytes(100) + b"ustar\00000" + bytes(64) + b"000000 \0" * 2 + content[:max(cut - 1, 0)].ljust(155, b"\0") + bytes(12)
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


# ---- the command


def declare(commands):
    command = commands.add_parser(
        "export", help="write a finished run to one file that anyone can verify",
        description="Writes a finished run to one file that anyone can verify, as `isobit export` does. It stops at what looks like a "
                    "secret, and shows uncommitted changes before they go out.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python -m isobit export last -o run.tar\n  python -m isobit verify run.tar")
    command.add_argument("run", metavar="RUN", help="a finished run's folder, id, beginning of an id, or last")
    command.add_argument("-o", "--out", metavar="FILE", help="the file to make (default: <id>.tar here)")
    command.add_argument("--runs", metavar="DIR", help="the archive (default: $ISOBIT_RUNS, else runs)")
    command.add_argument("--with-weights", action="store_true", help="checkpoints, too")
    command.add_argument("--redact", action="store_true", help="write '(left out)' where something looks like a secret")
    command.add_argument("--allow", metavar="TEXT", action="append", default=[], help="lines that hold TEXT have no secret (repeatable)")
    command.add_argument("--yes", action="store_true", help="uncommitted changes may go out; do not ask")
    command.add_argument("--json", action="store_true", help="one JSON object on stdout (docs/formats/export.md)")
    command.set_defaults(call=call)


def call(options):
    folder = find_run(options.runs, options.run)
    scan = SecretScan([os.fsencode(text) for text in options.allow], os.environb, os.environb.get(b"HOME", b""))
    plan = plan_export(folder, scan, options.with_weights, options.redact)
    if plan.findings:
        if options.json:
            print(_as_json(plan, None, None))
        for place, what in plan.findings:
            _tell(f"{_harmless(place)}: looks like {_harmless(what)}")
        raise Problem(plan.run, f"{_plural(len(plan.findings), 'possible secret')}; nothing written",
                      "--redact leaves them out; --allow TEXT lets lines with TEXT pass")
    if PATCH in plan.texts and not _confirmed(plan, options.yes):
        _tell("isobit: nothing written")
        return 2
    file = options.out or f"{plan.run}.tar"
    written = write_export(plan, file)
    if plan.left_out:
        _tell(f"left out: {_plural(len(plan.left_out), 'checkpoint')}, {sum(entry['size'] for entry in plan.left_out.values())} bytes "
              "(--with-weights puts them in)")
    for path in sorted(plan.changed, key=str.encode):
        _tell(f"changed: {path}: {', '.join(plan.changed[path])}")
    if options.json:
        print(_as_json(plan, file, written))
    else:
        print(f"{file}: {_plural(len(plan.texts) + len(plan.files) + 1, 'file')}, {written['size']} bytes, sha256 {written['sha256']}")
    return 0


def _confirmed(plan, yes):
    """Whether the uncommitted changes may go out."""
    person = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    patch = plan.texts[PATCH].decode(errors="replace")
    if person and not yes:
        _tell(_harmless(patch))
    _tell(f"uncommitted changes that go into the export ({PATCH}):")
    for file in plan.patch:
        _tell(f"  {_harmless(file.path)}: " + ("binary" if file.binary else f"+{file.added} -{file.removed}"))
    if not plan.patch:
        _tell(f"  {_harmless(patch[:200])}")
    if yes:
        return True
    if not person:
        raise Problem(plan.run, "has uncommitted changes, and nobody can be asked whether they may go out",
                      f"read {PATCH}, then call again with --yes")
    print("export them? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()[:1] in ("y", "Y")


def _as_json(plan, file, written):
    return json.dumps({
        "run": plan.run, "file": file, "size": written and written["size"], "sha256": written and written["sha256"],
        "left_out": list(plan.left_out),
        "changed": [{"path": path, "changes": plan.changed[path]} for path in sorted(plan.changed, key=str.encode)],
        "patch": [{"path": item.path, "added": item.added, "removed": item.removed, "binary": item.binary} for item in plan.patch],
        "findings": [{"place": place, "what": what} for place, what in plan.findings]}, indent=2, ensure_ascii=False)


def _tell(text):
    print(text, file=sys.stderr)


def _plural(count, what):
    return f"{count} {what}{'s' * (count != 1)}"


def _harmless(text):
    """Without what a terminal would obey."""
    return "".join("?" if (letter < " " and letter not in "\n\t") or letter == "\x7f" else letter for letter in text)
