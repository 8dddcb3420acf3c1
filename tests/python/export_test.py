"""isobit export of a Python program's record, and its verification by somebody who has nothing but the file."""

import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import unittest
import unittest.mock

import torch
from record_test import PARTS, PROGRAM, SCRIPT, Folder
from records import write_images

from isobit._recording import _provenance


class Export(Folder):
    def exported(self, *options, **keywords):
        self.call(PROGRAM, "export", "last", "--out", "run.tar", *options, **keywords)
        return self.folder / "run.tar"

    def alone(self):
        """The file goes, nothing else stays."""
        for path in self.folder.iterdir():
            if path.name != "run.tar":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def judged(self, *words, expect=0):
        return json.loads(self.call(*words, "--json", expect=expect))

    def test_a_stranger_verifies_with_one_command(self):
        self.train()
        self.exported()
        self.alone()
        for words in ((sys.executable, "-m", "isobit", "verify", "run.tar"),
                      (PROGRAM, "verify", "run.tar", "--isa", "reference", "--into", "kept")):
            verdict = self.judged(*words)
            self.assertEqual((verdict["verdict"], verdict["to"], verdict["weights"]), ("identical", 8, verdict["recorded_weights"]))
        self.assertEqual(self.verify("--runs", "kept")["verdict"], "identical")

    def test_a_difference_is_found(self):
        self.write("train.py", SCRIPT.replace("END", "pass").replace("isobit.seed(3)", "isobit.seed(3 + ('other' in sys.argv))"))
        self.train()
        self.exported()
        self.alone()
        verdict = json.loads(self.isobit("verify", "run.tar", "--json", "--", "other", expect=1))
        self.assertEqual((verdict["verdict"], verdict["difference"]["step"]), ("different", 1))

    def git(self, *words):
        self.call("git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words)

    def test_patch_with_a_secret(self):
        self.git("init", "-q", ".")
        self.git("add", "train.py", "parts.py")
        self.git("commit", "-qm", "first")
        self.write("parts.py", PARTS.replace("WORKERS = 0", 'WORKERS = 0\nAPI_TOKEN = "abcd1234efgh"  # /home/alice/x'))
        self.train()
        self.exported("--yes", expect=2)
        self.exported("--redact", expect=2)
        self.assertFalse((self.folder / "run.tar").exists())
        self.exported("--yes", "--redact")
        content = (self.folder / "run.tar").read_bytes()
        self.assertNotIn(b"abcd1234efgh", content)
        self.assertNotIn(b"alice", content)
        self.git("checkout", "-q", "parts.py")
        self.assertEqual(json.loads(self.isobit("verify", "run.tar", "--json"))["verdict"], "identical")
        self.alone()  # the commit, too
        self.git("init", "-q", ".")
        self.assertEqual(json.loads(self.isobit("verify", "run.tar", "--json"))["verdict"], "identical")

    def test_torchscript_brings_its_network(self):
        write_images(self.folder)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
        torch.jit.script(network).save(str(self.folder / "net.pt"))
        self.write("small.toml", 'name = "script"\nbatch = 10\nsteps = 4\n[data]\nformat = "idx"\npath = "."\n[model]\n'
                                 'name = "torchscript"\ntorchscript = "net.pt"\n[optimizer]\nname = "sgd"\nlr = 0.1\n')
        self.call(PROGRAM, "run", "small.toml")
        self.exported()
        self.assertIn(b"net.pt", (self.folder / "run.tar").read_bytes())
        self.written("--with-weights")
        (self.folder / "net.pt").unlink()
        self.assertEqual(self.judged(PROGRAM, "verify", "run.tar")["verdict"], "identical")
        self.assertIn("net.pt: the run's TorchScript file is missing", self.written(expect=2)[1])

    def written(self, *options, expect=0, words=(PROGRAM,), **environment):
        """(stdout, stderr, the file or None)"""
        path = self.folder / "file.tar"
        path.unlink(missing_ok=True)
        done = subprocess.run([*words, "export", "last", "--out", "file.tar", *options], cwd=self.folder, capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL, env={**os.environ, **self.environment(**environment)})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.assertEqual(path.exists(), expect == 0)
        return done.stdout, done.stderr, path.read_bytes() if path.exists() else None

    def test_the_same_bytes_each_time(self):
        self.write("train.py", SCRIPT.replace("END", "run.save(model.state_dict())"))
        self.train()
        self.assertEqual(self.written(), self.written(words=(sys.executable, "-m", "isobit")))
        self.assertEqual(json.loads(self.written("--json")[0])["left_out"], ["checkpoints/step-8.pt"])
        _, _, content = self.written("--with-weights")
        self.assertIn(b".pt", content)
        # What the stranger is told to call: python -m would import modules of the folder that he calls it in.
        self.assertIn(b"    isobit verify FILE.tar\n", content)
        self.assertNotIn(b"python -m isobit", content)
        shutil.rmtree(self.folder / "runs")
        with tarfile.open(self.folder / "file.tar") as tar:  # what was exported, exported again
            tar.extractall(self.folder / "runs")
        self.assertTrue(self.written("--with-weights")[2] == content)
        self.assertTrue(self.written("--with-weights", "--yes", "--redact", HOME="/nowhere/at/all")[2] == content)

    def test_names_of_more_than_100_bytes(self):
        self.write("train.py", SCRIPT.replace('"runs", every=2', f'"runs", every=2, name="{"n" * 64}"').replace("END", "run.save(1)"))
        self.train()
        self.written("--with-weights")
        self.isobit("verify", "file.tar")

    def test_secrets_stop_it(self):
        lines = [f"{key} = {value}" for key, value in (
            ("API_TOKEN", '"abcd1234efgh"'), ("x", "'hf_" + "a1" * 20 + "'"), ("url", "'https://me:pa55w0rd@example.org'"),
            ("tokenizer_config", '"abcdefgh"'), ("key", "'-----BEGIN RSA PRIVATE KEY-----'"), ("d", "{'secret': 'qwertz123'}"),
            ("text", "'--password hunter2222 '"), ("e", "'--password=words of a program'"), ("h", "'/home/alice/x:/home/bob'"),
            ("v", "'value-of-a-variable and value-of-a-variable'"), ("umlaut", "'Schl\u00fcssel_token=abcd1234 \u00e9'"),
            ("two", "'sk-" + "z9" * 15 + " ghp_" + "Q" * 36 + "'"), ("MY_KEY", "r'abc%def'"), ("form", "'token\u000cabcd12345 '"))]
        self.write("parts.py", PARTS + "\n".join(lines) + "\n")
        self.train()
        secret = {"OTHER_SECRET": "value-of-a-variable"}
        _, told, _ = self.written(expect=2, **secret)
        found = [line.split(":")[2] for line in told.splitlines() if line.startswith("sources.json: parts.py:")]
        first = PARTS.count("\n") + 1
        self.assertEqual(sorted({int(number) - first for number in found}), [0, 1, 2, 4, 5, 6, 9, 10, 11, 12, 13])
        for value in ("abcd1234", "pa55w0rd", "hunter2222", "value-of-a-variable", "qwertz123"):
            self.assertNotIn(value, told)
        self.written("--json", expect=2, **secret)
        _, _, content = self.written("--redact", "--json", **secret)
        for value in (b"abcd1234", b"pa55w0rd", b"hunter2222", b"value-of-a-variable", b"qwertz123", b"alice"):
            self.assertNotIn(value, content)
        self.written(*(word for text in ("a", "KEY", "secret", "sk-") for word in ("--allow", text)), **secret)

    def test_a_private_key_stops_it_whatever_is_asked(self):
        body = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"] * 3)
        self.write("parts.py", PARTS + f'KEY = """-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"""\nTOKEN = "abcd1234efgh"\n')
        self.train()
        everything = [word for text in ("KEY", "MII", "-", "a", "TOKEN") for word in ("--allow", text)]
        for options in ((), ("--redact",), everything, ("--redact", *everything)):
            done = subprocess.run([PROGRAM, "export", "last", "-o", "run.tar", *options], cwd=self.folder, capture_output=True, text=True,
                                  check=False, env={**os.environ, **self.environment()})
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(f"sources.json: parts.py:{PARTS.count(chr(10)) + 1}: looks like a private key\n", done.stderr)
            self.assertIn("1 private key; nothing written (no option lets a private key pass", done.stderr)
            self.assertNotIn("MII", done.stderr)
        self.assertFalse((self.folder / "run.tar").exists())

    def test_a_key_file_that_git_quotes(self):
        self.git("init", "-q", ".")
        self.git("add", "train.py", "parts.py")
        self.git("commit", "-qm", "first")
        self.write("\u00fc.pem", "x\n")
        self.git("add", "-N", "\u00fc.pem")
        self.train()
        self.assertIn("\u00fc.pem, a file that usually holds secrets", self.written("--yes", expect=2)[1])
        self.write("\u00fc.pem", "\0\1")  # what cannot be looked into is no file without a key
        self.train()
        for options in ((), ("--redact",), ("--allow", "pem")):
            self.assertIn("\u00fc.pem, a private key's file that cannot be looked into", self.written("--yes", *options, expect=2)[1])

    def test_arguments_that_are_secrets_are_not_recorded(self):
        secrets = ["--pwd", "hunter2", "--wandb-key=a1", "--auth-key", "x1", "hf_" + "a1" * 20, "https://me:pa55@host/x", "lr=0.1"]
        lines = self.train(*secrets)
        text = (self.folder / lines[0] / "experiment.toml").read_text()
        (arguments,) = (json.loads(line.partition(" = ")[2]) for line in text.splitlines() if line.startswith("arguments"))
        self.assertEqual(arguments, ["--pwd", "(left out)", "--wandb-key=a1", "--auth-key", "(left out)", "(left out)",
                                     "https://(left out)@host/x", "lr=0.1"])

    def test_what_was_redacted_holds_no_secret(self):
        """Random lines made of what the rules look for."""
        draw = random.Random(2)
        pieces = ["token", "Secret", "API_KEY", "api-key", "password", "passphrase", "x_pat", "=", ":", " = ", '"', "'", "\\\"", "]", " ",
                  "\t", "a1b2c3d4", "abcdefgh", "12345678", "sk-" + "a" * 20, "://", "u:p@", "AKIA" + "A1" * 8, "\u00e9", "_KEY", ".", "-",
                  "/home/al", "/Users/b c", "~", "r'", ": str = ", "eyJ" + "a" * 8 + ".eyJ" + "b" * 8 + "." + "c" * 9, "/", "\\n", "K\u212aEY"]
        lines = ["# " + "".join(draw.choices(pieces, k=draw.randrange(1, 9))) for _ in range(3000)]
        self.write("parts.py", PARTS + "\n".join(lines) + "\n")
        self.train()
        _, told, _ = self.written(expect=2)
        found = {int(line.split(":")[2]) for line in told.splitlines() if line.startswith("sources.json: parts.py:")}
        self.assertGreater(len(found), 300)
        first = PARTS.count("\n") + 1
        for number, line in enumerate(lines, first):  # shapes of known services' tokens, wherever they stand by themselves
            if re.search(r"(?<![A-Za-z0-9_])(sk-a{20}|AKIA(A1){8})(?![A-Za-z0-9_-])", line):
                self.assertIn(number, found, line)
        self.written("--redact")
        shutil.rmtree(self.folder / "runs")
        with tarfile.open(self.folder / "file.tar") as tar:
            tar.extractall(self.folder / "runs")
        (run,) = (self.folder / "runs").iterdir()
        redacted = json.loads((run / "sources.json").read_text())["files"]["parts.py"].split("\n")[first - 1:]
        for number, (before, after) in enumerate(zip(lines, redacted, strict=False), first):
            self.assertEqual("(left out)" in after, number in found, before)

    def test_uncommitted_changes_are_shown(self):
        self.git("init", "-q", ".")
        self.git("add", "train.py", "parts.py")
        self.git("commit", "-qm", "first")
        self.write("parts.py", PARTS + "# more\n# \x1b[2J\n")
        self.write("data.bin", "\0\1")
        self.write(".env.local", "x=1\n")
        self.git("add", "-N", "data.bin")
        self.train()
        _, told, _ = self.written(expect=2)
        self.assertIn("  parts.py: +2 -0\n  data.bin", told.replace("  data.bin: binary\n  parts.py: +2 -0\n", "  parts.py: +2 -0\n  data.bin"))
        self.assertIn("--yes", told)
        self.written("--yes")
        self.git("add", "-N", ".env.local")
        self.train()
        self.assertIn(".env.local, a file that usually holds secrets", self.written("--yes", expect=2)[1])
        self.written("--yes", "--redact", expect=2)
        self.written("--yes", "--allow", ".env.local")

    def test_a_person_is_asked(self):
        self.git("init", "-q", ".")
        self.git("add", "train.py", "parts.py")
        self.git("commit", "-qm", "first")
        self.write("parts.py", PARTS + "# \x1b[2J\n")
        self.train()
        answers = []
        for words in ((PROGRAM,), (sys.executable, "-m", "isobit")):
            for answer in ("n", "y"):
                (self.folder / "run.tar").unlink(missing_ok=True)
                answers.append(self.on_terminal([*words, "export", "last", "-o", "run.tar"], answer))
                self.assertEqual((self.folder / "run.tar").exists(), answer == "y")
        self.assertEqual(answers[:2], answers[2:])
        self.assertIn("+# \\x1b[2J", answers[0][1])
        self.assertEqual([code for code, _ in answers[:2]], [2, 0])

    def test_where_it_cannot_be_written(self):
        self.train()

        def told(*words, limit=resource.RLIM_INFINITY):
            done = subprocess.run([PROGRAM, "export", *words], cwd=self.folder, capture_output=True, text=True, check=False,
                                  env={**os.environ, **self.environment()},
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)))
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            return done.stderr

        self.write("there.tar", "x")
        self.assertEqual(told("last", "-o", "there.tar"),
                         "isobit: there.tar: exists already (name another file, or move that one away)\n")
        self.assertIn("isobit: no/run.tar: cannot be written: No such file or directory (check the folder", told("last", "-o", "no/run.tar"))
        self.assertIn("isobit: run.tar: cannot be written: File too large (raise the limit", told("last", "-o", "run.tar", limit=4096))
        self.assertEqual([path.name for path in self.folder.glob("*tar")], ["there.tar"])
        self.assertEqual([path.name for path in self.folder.glob(".tmp*")], [])
        self.assertIn("isobit: lest: no such run in runs (did you mean 'last'?)", told("lest"))
        self.assertIn("isobit: export: run is missing: a finished run's folder", told())
        self.assertIn("Example:", self.isobit("export", "--help"))
        (self.folder / "runs" / self.isobit("export", "last").partition(".tar")[0] / "steps.jsonl").write_text("")
        self.assertIn("steps.jsonl: damaged: it has 0 bytes", told("last", "-o", "x.tar"))

    def test_names_that_mlflow_takes_for_one_stay_apart(self):
        self.write("named.py", """import isobit
with isobit.record("runs") as run:
    run.log("test", **{"a@b": 1.0, "a b": 2.0, "c": 3.0})
    run.log("loss", x=4.0)
""")
        self.call(sys.executable, "named.py")
        self.call(PROGRAM, "export", "last", "--to", "mlflow", "store")
        folder = next(self.folder.glob("store/*/*/metrics"))
        values = {str(path.relative_to(folder)): float(path.read_text().split()[1]) for path in folder.rglob("*") if path.is_file()}
        self.assertEqual(sorted(values.values()), [1.0, 2.0, 3.0, 4.0])
        self.assertEqual((values["test/c"], values["loss_set/x"]), (3.0, 4.0))
        self.assertEqual(len([name for name in values if name.startswith("test/a_b")]), 2)

    def test_what_is_no_export_is_refused(self):
        self.train()
        path = self.exported()
        content = path.read_bytes()
        with tarfile.open(path) as tar:
            top = next(iter(tar)).name.partition("/")[0]

        def refused(content, part="run.tar: "):
            path.write_bytes(content)
            self.assertIn(part, self.judged(PROGRAM, "verify", "run.tar", expect=2)["message"])

        def before(name, kind=tarfile.REGTYPE, size=None):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            member.size = 4 if size is None and kind == tarfile.REGTYPE else size or 0
            made = member.tobuf(tarfile.USTAR_FORMAT) + (b"text".ljust(512, b"\0") if member.size == 4 else b"")
            return made + content

        refused(before("../x"), "cannot be a file of a run")
        refused(before("/x"), "cannot be a file of a run")
        refused(before("other/x"), "cannot be a file of a run")
        refused(before(f"{top}/link", tarfile.SYMTYPE), "not a regular file")
        refused(before(f"{top}/link", tarfile.LNKTYPE), "not a regular file")
        refused(before(f"{top}/folder", tarfile.DIRTYPE), "not a regular file")
        refused(before(f"{top}/huge", size=1 << 32), "larger than the archive")
        refused(before(f"{top}/added.txt"), "added.txt")
        refused(before(f"{top}/manifest.json"), "twice")
        for size in (0, 100, 700, len(content) // 2, len(content.rstrip(b"\0")) - 1):
            refused(content[:size])
        refused(b"text")
        for at in range(700, len(content), len(content) // 6):  # in what the run left; tests/archive/run_export_test.cpp has every byte
            at = content.index(b'"', at) + 1
            refused(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
        verdict = json.loads(self.isobit("verify", "parts.py", "--json", expect=2))
        self.assertEqual(verdict["verdict"], "cannot-judge")


class Patches(Folder):
    """The uncommitted changes are taken by git, but not as somebody configured it, and tried before they are recorded."""

    def setUp(self):
        super().setUp()
        self.git("init", "-q", ".")
        self.write("\u00fc b.py", "a = 1\n\nb = 2\n")
        self.write("gone.py", "x\n")
        self.git("add", ".")
        self.git("commit", "-qm", "first")
        self.write("\u00fc b.py", "a = 1\n\nb = 3\n")
        (self.folder / "gone.py").rename(self.folder / "came.py")
        self.write("pic", "\0\1\2")
        self.git("add", "-N", "came.py", "pic")

    def git(self, *words):
        self.call("git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words)

    def test_whatever_git_is_configured_to_do(self):
        plain, whole = _provenance.take_patch(self.folder)
        self.assertTrue(whole)
        self.assertIn(b'diff --git "a/\\303\\274 b.py" "b/\\303\\274 b.py"\n', plain)
        self.write("spy", f"#!/bin/sh\necho >> {self.folder}/spied\nexit 1\n")
        (self.folder / "spy").chmod(0o755)
        settings = {"diff.noprefix": "true", "diff.mnemonicPrefix": "true", "diff.external": f"{self.folder}/spy", "color.diff": "always",
                    "color.ui": "always", "core.quotePath": "false", "core.fsmonitor": f"{self.folder}/spy", "core.pager": f"{self.folder}/spy",
                    "diff.python.textconv": f"{self.folder}/spy", "diff.python.command": f"{self.folder}/spy", "diff.context": "0",
                    "diff.interHunkContext": "9", "diff.algorithm": "patience", "diff.renames": "copies", "diff.relative": "true",
                    "diff.suppressBlankEmpty": "true", "diff.orderFile": f"{self.folder}/order", "diff.submodule": "log",
                    "diff.indentHeuristic": "false", "apply.whitespace": "error-all", "core.attributesFile": f"{self.folder}/attributes"}
        self.write("order", "pic\n")
        self.write("attributes", "*.py diff=python -text\n* binary\n")
        self.write(".gitattributes", "*.py diff=python\n")
        self.write(".gitconfig", "")
        for name, value in settings.items():
            self.git("config", name, value)
            self.git("config", "--file", ".gitconfig", name, value)
        given = {"HOME": str(self.folder), "GIT_EXTERNAL_DIFF": f"{self.folder}/spy", "GIT_DIFF_OPTS": "-u0", "GIT_DIR": "/nowhere",
                 "GIT_CONFIG_PARAMETERS": "'diff.noprefix=true'", "GIT_PAGER": f"{self.folder}/spy"}
        with unittest.mock.patch.dict(os.environ, given):
            self.assertEqual(_provenance.take_patch(self.folder), (plain, True))
        self.assertFalse((self.folder / "spied").exists())

    def test_one_that_cannot_be_applied_is_said(self):
        status = subprocess.run(["git", "status", "--porcelain"], cwd=self.folder, capture_output=True, check=True).stdout
        backwards = (*_provenance._DIFF[:-1], "-R", "HEAD")
        for name, value, text in (("_DIFF", backwards, "git cannot apply its own patch of them to the commit"),
                                  ("_DIFF", ("diff", "--no-such-option"), "git cannot say what they are"),
                                  ("LARGEST_PATCH", 10, "bytes, above 10")):
            with unittest.mock.patch.object(_provenance, name, value), self.assertWarnsRegex(UserWarning, text):
                patch, whole = _provenance.take_patch(self.folder)
            self.assertFalse(whole)
            self.assertNotEqual(patch, b"")
        self.assertEqual(subprocess.run(["git", "status", "--porcelain"], cwd=self.folder, capture_output=True, check=True).stdout, status)
        self.write("train.py", "import isobit._recording._provenance\nisobit._recording._provenance.LARGEST_PATCH = 10\n" + SCRIPT.replace("END", "pass"))
        code, printed, told = self.run_script("train.py", **self.environment())
        self.assertEqual(code, 0, told)
        self.assertRegex(told, r"train.py:\d+: UserWarning: isobit.record: the uncommitted changes cannot be taken from the record: they are")
        script = _provenance.read_toml((self.folder / printed.splitlines()[0] / "experiment.toml").read_text())
        self.assertEqual((script["dirty"], script["patch_applies"]), (True, False))


if __name__ == "__main__":
    unittest.main()
