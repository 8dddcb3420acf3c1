#!/usr/bin/env python3
"""Runs a transcript: commands and what they must print, in one file.

    # a comment
    $ isobit log --jsn
    isobit: unknown option '--jsn', did you mean '--json'? (see isobit log --help)
    ? 2

A line "$ COMMAND" runs COMMAND in bash, in an empty folder that all commands of the file share; what follows is what
it prints, stdout before stderr; "? N" is its exit code (0 where there is none). In expected lines

    <id>      a run's id                 <hex>     one or more hex digits
    <time>    a UTC time                 <number>  digits, with or without a point
    <...>     anything within the line   ...       alone on a line: any number of lines

and two blanks or more stand for two or more.
On PATH are isobit and make-run (make_run.cpp). Usage: transcript.py ISOBIT MAKE_RUN FILE
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PLACEHOLDERS = {
    "<id>": r"\d{8}-\d{6}-[A-Za-z0-9._-]+-[0-9a-f]{8}",
    "<hex>": r"[0-9a-f]+",
    "<time>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
    "<number>": r"\d+(?:\.\d+)?",
    "<...>": r".*",
}


class Step:
    def __init__(self, line, command):
        self.line, self.command, self.expected, self.code = line, command, [], 0


def read_steps(path):
    steps = []
    for number, line in enumerate(pathlib.Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("$ "):
            steps.append(Step(number, line[2:]))
        elif line.startswith("? "):
            steps[-1].code = int(line[2:])
        elif line.startswith("#") and (not steps or not line.startswith("#!")):
            continue
        elif steps:
            steps[-1].expected.append(line)
    for step in steps:
        while step.expected and not step.expected[-1].strip():
            step.expected.pop()  # blank lines between commands are for the reader
    return steps


def to_pattern(lines):
    pattern = ""
    for line in lines:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
            continue
        parts = re.split("(" + "|".join(map(re.escape, PLACEHOLDERS)) + ")", line.rstrip())
        pattern += "".join(PLACEHOLDERS.get(part) or re.sub(r"(\\ ){2,}", " {2,}", re.escape(part)) for part in parts) + r"[ \t]*\n"
    return re.compile(pattern + r"\s*")


def run(step, folder, environment):
    done = subprocess.run(["bash", "-c", step.command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, check=False)
    output = done.stdout.decode() + done.stderr.decode()
    if output and not output.endswith("\n"):
        output += "\n"
    # Blank lines that a command prints count like any other, but for those at its end.
    if to_pattern(step.expected).fullmatch(output) and done.returncode == step.code:
        return True
    print(f"line {step.line}: $ {step.command}")
    print("--- expected\n" + "\n".join(step.expected) + f"\n? {step.code}")
    print("--- printed\n" + output + f"? {done.returncode}")
    return False


def main():
    isobit, make_run, transcript = map(os.path.abspath, sys.argv[1:4])
    steps = read_steps(transcript)
    if not steps:
        sys.exit(f"{transcript}: no command in it")
    with tempfile.TemporaryDirectory(prefix="isobit-transcript-") as folder:
        programs, work = os.path.join(folder, "bin"), os.path.join(folder, "work")
        os.makedirs(programs)
        os.makedirs(work)
        os.symlink(isobit, os.path.join(programs, "isobit"))
        os.symlink(make_run, os.path.join(programs, "make-run"))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ISOBIT_")}
        environment.update(PATH=programs + os.pathsep + os.environ["PATH"], HOME=folder, LC_ALL="C.UTF-8",
                           XDG_CACHE_HOME=os.path.join(folder, "cache"))
        # Later commands build on earlier ones: the first failure ends the transcript.
        for step in steps:
            if not run(step, work, environment):
                sys.exit(f"{transcript}:{step.line}: not what was expected")


if __name__ == "__main__":
    main()
