"""Records that agree with themselves and are not true: sealed anew, as anybody can, they come out different or marked.

What their parts say of each other is tests/archive/forged_record_test.cpp; Python programs' records are compared in
tests/cli/compare_records_test.cpp, here end to end.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from record_test import SCRIPT, Folder
from records import (
    RecordedRuns,
    altered_line,
    altered_text,
    experiment,
    lines_of,
    put_lines,
    put_state,
    put_state_without,
    read,
    seal_anew,
    state_of,
    without_key,
    without_line,
    write,
)


def more_metrics(run):
    lines = lines_of(run, "metrics.jsonl")
    put_lines(run, "metrics.jsonl", [{**lines[0], "step": 3}, *lines])


def other_accuracy(run):
    lines = lines_of(run, "metrics.jsonl")
    lines[-1]["values"]["accuracy"] = 0.999
    put_lines(run, "metrics.jsonl", lines)


def checkpoint_of(run):
    return sorted(os.path.join(run, "checkpoints", name) for name in os.listdir(f"{run}/checkpoints"))[-1]


def other_tensor(run):
    content = bytearray(read(checkpoint_of(run)))
    content[-20] ^= 1
    write(checkpoint_of(run), bytes(content))


def more_texts(run):
    """A key beside the state in a checkpoint's header, as other readers of safetensors show it."""
    content = read(checkpoint_of(run))
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + size])
    header["__metadata__"]["accuracy"] = "0.999"
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write(checkpoint_of(run), len(text).to_bytes(8, "little") + text + content[8 + size:])


def other_state(run):
    content = read(checkpoint_of(run))
    at = content.index(b"epoch_correct")
    colon = content.index(b":", at) + 1
    write(checkpoint_of(run), content[:colon] + bytes([content[colon] ^ 1]) + content[colon + 1:])


def without_last_step(run):
    put_lines(run, "steps.jsonl", lines_of(run, "steps.jsonl")[:-1])
    last = state_of(run)["steps"] - 1
    for log in ("metrics.jsonl", "timings.jsonl", "checkpoints.jsonl"):
        put_lines(run, log, [line for line in lines_of(run, log) if line["step"] <= last])
    for name in os.listdir(f"{run}/checkpoints"):
        if name == f"step-{last + 1}.safetensors":
            os.remove(f"{run}/checkpoints/{name}")
    put_state(run, steps=last)


HEX = "0123456789abcdef" * 2
# (what, how, exit code of verify, part of what it says)
NATIVE = [
    ("the accuracy at the end", other_accuracy, 1, "test accuracy"),
    ("a loss", altered_line("steps.jsonl", 4, loss="3f000000"), 1, "different at step 5: loss"),
    ("a batch", altered_line("steps.jsonl", 4, batch=HEX), 1, "different at step 5: batch"),
    ("an epoch", altered_line("steps.jsonl", 3, epoch=2), 1, "different at step 4: epoch"),
    ("weights on the way", altered_line("steps.jsonl", 5, weights=HEX), 1, "different at step 6: weights"),
    ("the optimizer's state", altered_line("steps.jsonl", 7, optimizer=HEX), 1, "different at step 8: optimizer"),
    ("gradients on the way", altered_line("steps.jsonl", 3, gradients=HEX), 1, "different at step 4: gradients"),
    ("no gradients where they are due", without_key("steps.jsonl", 3, "gradients"), 1, "different at step 4: gradients recorded none"),
    ("gradients where none are due", altered_line("steps.jsonl", 0, gradients=HEX), 1, "different at step 1: gradients"),
    ("no word of gradients", altered_text("experiment.toml", "gradients = 2\n", ""), 1, "different at step 2: gradients"),
    ("no weights where they are due", without_key("steps.jsonl", 5, "weights"), 1, "recorded none"),
    ("the final weights", lambda run: put_state(run, weights=f"isobit-0.1:{HEX}"), 1, "final weights"),
    ("the final weights' SHA-256", lambda run: put_state(run, weights_sha256=HEX * 2), 1, "SHA-256 of the final weights"),
    ("no SHA-256", lambda run: put_state_without(run, "weights_sha256"), 0, "the SHA-256 of the weights (there is none)"),
    ("the SHA-256 of a checkpoint's weights", altered_line("checkpoints.jsonl", -1, weights_sha256=HEX * 2), 1, "at the checkpoint"),
    ("that of a checkpoint that was deleted", altered_line("checkpoints.jsonl", 0, weights_sha256=HEX * 2), 1,
     "different at step 2: SHA-256 of the weights at the checkpoint"),
    ("none at a checkpoint", without_key("checkpoints.jsonl", 0, "weights_sha256"), 0, "at a checkpoint (there is none)"),
    ("a tensor of a checkpoint", other_tensor, 1, "checkpoint tensor"),
    ("the state of a checkpoint", other_state, 1, "checkpoint state"),
    ("a text in a checkpoint", more_texts, 1, "checkpoint recorded 2 texts"),
    ("the epoch of a measurement", altered_line("metrics.jsonl", -1, epoch=90), 2, "of another epoch than its step"),
    ("one measurement less", without_line("metrics.jsonl", 0), 1, "train metrics recorded none"),
    ("one measurement more", more_metrics, 1, "different at step 3: train metrics recorded present"),
    ("another learning rate", altered_text("experiment.toml", "lr = 0.05", "lr = 0.06"), 1, "different at step 2"),
    ("another seed", altered_text("experiment.toml", "seed = 3", "seed = 4"), 1, "different at step 1"),
    ("words in the experiment", altered_text("experiment.toml", "seed = 3", "seed = 3\n# accuracy 0.999"), 2, "not a line"),
    ("words in the experiment", altered_text("experiment.toml", "seed = 3", "seed = 3 # accuracy 0.999"), 2, "not a line"),
    ("another name", altered_text("experiment.toml", 'name = "small"', 'name = "large"'), 2, "has another name"),
    ("a step less", without_last_step, 2, "no line of the checkpoint after step 9"),
    ("other data", altered_text("data.json", '"size": ', '"size": 1'), 2, "not the file that was recorded"),
    ("other names of the data", altered_text("data.json", '"name": "train', '"name": "imagenet'), 2, "not the file"),
    ("another contract", lambda run: put_state(run, contract="isobit-0.2", weights=f"isobit-0.2:{HEX}"), 2, "isobit-0.2"),
    ("another machine", altered_text("environment.json", '"cores": ', '"cores": 9'), 0, "machine"),
    ("another day", lambda run: put_state(run, created="1999-01-01T00:00:00.000000Z"), 0, "date"),
    ("other times", altered_line("timings.jsonl", 0, seconds=9.5), 0, "times"),
    ("untouched", lambda run: None, 0, "identical: "),
]


class Native(RecordedRuns):
    images = (90, 30)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.train(experiment(f"{cls.folder}/data", fingerprint={"every": 3, "gradients": 2}))

    def forged(self, alter):
        return super().forged(self.run_folder, alter)

    def test_forgeries(self):
        for what, alter, code, because in NATIVE:
            with self.subTest(what):
                done = self.call("verify", self.forged(alter))
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(because, done.stdout + done.stderr)

    def test_a_range_names_the_checkpoint_that_it_takes_as_it_is(self):
        run = self.forged(lambda run: None)
        verdict = json.loads(self.call("verify", run, "--from", "10", "--json").stdout)
        self.assertEqual((verdict["verdict"], verdict["whole"], verdict["start"]), ("identical", False, 8))
        self.assertIn("the checkpoint of step 8", verdict["not_recomputed"])
        self.assertIn("all other steps than 10..10", verdict["not_recomputed"])
        self.assertIn("from the recorded checkpoint of step 8", self.call("verify", run, "--from", "10").stdout)

    def test_what_is_claimed_is_marked(self):
        run = self.forged(lambda run: put_state(run, created="1999-01-01T00:00:00.000000Z"))
        self.assertIn("1999-01-01T00:00:00.000000Z  (claimed)", self.call("show", run).stdout)
        shown = json.loads(self.call("show", run, "--json").stdout)
        self.assertEqual(shown["claimed"], ["id", "created", "environment"])
        (listed,) = json.loads(self.call("log", "--json", "--runs", os.path.dirname(run)).stdout)
        self.assertEqual(listed["claimed"], ["id", "created"])

    def test_nothing_prints_what_a_terminal_obeys(self):
        forge = b'\\u001b[2K\\ridentical: forged \\u202e'
        for name, old in (("environment.json", b'"cpu": "'), ("experiment.toml", b'path = "'), ("timings.jsonl", b'"phase":"')):
            run = self.forged(lambda run, name=name, old=old: write(
                f"{run}/{name}", read(f"{run}/{name}").replace(old, old + forge, 1)))
            for words in (("show", run), ("show", run, "--json"), ("log", "--runs", os.path.dirname(run)), ("verify", run),
                          ("verify", run, "--json"), ("export", run, "--out", f"{self.folder}/x.tar")):
                done = self.call(*words)
                for character in "\x1b\r\u202e":
                    self.assertNotIn(character, done.stdout + done.stderr, (name, words))

    def test_a_raw_escape_in_a_text(self):
        run = self.forged(lambda run: write(f"{run}/experiment.toml", read(f"{run}/experiment.toml") + b"\n# \x1b[2K\r\xe2\x80\xae\n"))
        for words in (("show", run), ("show", run, "--json"), ("verify", run)):
            done = self.call(*words)
            for character in "\x1b\r\u202e":
                self.assertNotIn(character, done.stdout + done.stderr, words)
        self.assertIn("\\x1b[2K\\r\\u202e", self.call("show", run).stdout)


    def commands(self, run, out):
        """What shows or ships a record besides log, show and verify."""
        sound = os.path.join(self.folder, self.run_folder)
        return (("diff", run, sound, "--records-only", "--all"), ("diff", sound, run, "--records-only", "--json"),
                ("drift", sound, run), ("drift", run, sound, "--json"), ("show", run, "--tables"),
                ("report", run, "--out", f"{out}/page.html", "--json"), ("report", run, sound, "--out", f"{out}/two.html"),
                ("export", run, "--to", "csv", f"{out}/csv"), ("export", run, "--to", "mlflow", f"{out}/mlflow"),
                ("export", run, "--to", "ro-crate", f"{out}/crate"),
                ("calibrate", "--add", run, "--as", "b", "--runs", os.path.dirname(run)),
                ("calibrate", "--list", "--runs", os.path.dirname(run)))

    def test_texts_in_what_else_shows_a_record(self):
        """Reports, differences, drift, baselines, exports for other tools: no character that a terminal obeys, no markup."""
        evil = "\\u001b[2K\\ridentical: forged \\u202e<script>alert(1)</script>&"
        cases = {"environment": ("environment.json", '"cpu": "'), "library": ("environment.json", '"libc": "'), "path": ("experiment.toml", 'path = "'),
                 "data": ("data.json", '"name": "'), "created": ("state.json", '"created": "')}
        for what, (name, old) in cases.items():
            run = self.forged(altered_text(name, old, old + evil))
            out = tempfile.mkdtemp(dir=self.folder)
            for words in self.commands(run, out):
                done = self.call(*words)
                self.assertIn(done.returncode, (0, 1, 2), (what, words, done.stderr))
                for character in "\x1b\r\u202e":
                    self.assertNotIn(character, done.stdout + done.stderr, (what, words))
            self.assertTrue(os.path.exists(f"{out}/csv/data.csv"), what)
            for folder, _, names in os.walk(out):
                for content in (read(os.path.join(folder, each)) for each in names if not each.endswith(".tar")):
                    self.assertFalse(b"\x1b" in content or "\u202e".encode() in content, (what, names))
                    self.assertFalse(content.startswith(b"<!doctype") and b"<script>alert" in content, (what, names))

    def test_what_is_altered_in_a_log_stops_what_else_shows_it(self):
        """What no run writes, sealed anew: damaged for every command, and in a page no number of it."""
        forgeries = [altered_line("metrics.jsonl", 0, set="../x"),
                     altered_line("metrics.jsonl", -1, step=11),
                     altered_line("metrics.jsonl", 0, step=0), altered_line("steps.jsonl", 4, loss="1e300"),
                     altered_line("checkpoints.jsonl", 0, file="../../x"), altered_line("checkpoints.jsonl", 0, step=11),
                     lambda run: write(f"{run}/checkpoints/step-3.safetensors", read(checkpoint_of(run)))]
        for number, alter in enumerate(forgeries):
            run = self.forged(alter)
            out = tempfile.mkdtemp(dir=self.folder)
            for words in self.commands(run, out):
                done = self.call(*words)
                if words[0] == "report" and words[2] == "--out":
                    self.assertEqual(done.returncode, 0, (number, words))
                    shown = read(f"{out}/page.html").decode().split('id="report">', 1)[1].split("</script>", 1)[0]
                    self.assertIn('"state":"damaged"', shown, number)
                    self.assertNotIn("0.999", shown, number)
                elif words[:2] != ("calibrate", "--list"):
                    self.assertEqual(done.returncode, 2, (number, words, done.stdout))
            self.assertEqual([name for name in os.listdir(out) if name != "page.html"], [], number)

    def test_a_measurement_under_another_name(self):
        """No file outside of what is written, and another result."""
        run = self.forged(altered_line("metrics.jsonl", 0, values={"..": 0.5, "../../../x": 0.999}))
        out = tempfile.mkdtemp(dir=self.folder)
        before = sorted(os.listdir(self.folder))
        for words in self.commands(run, out):
            done = self.call(*words)
            self.assertEqual(done.returncode, 1 if words[0] == "diff" else 0, (words, done.stdout, done.stderr))
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assertEqual(sorted(os.listdir(out)), ["crate", "csv", "mlflow", "page.html", "two.html"])
        self.assertEqual(self.call("verify", run).returncode, 1)

    def test_a_link_in_a_record_that_is_not_sealed(self):
        """A page of it goes to others: it shows nothing of what lies beside the record."""
        secret = f"{self.folder}/secret.toml"
        write(secret, "key = 's3cret'\n[s3cret]\ns3cret = 1\n")
        for name in ("experiment.toml", "environment.json", "data.json", "metrics.jsonl", "steps.jsonl", "state.json"):
            run = self.forged(lambda run: None)
            os.remove(f"{run}/manifest.json")
            put_state(run, state="running")
            os.remove(f"{run}/{name}")
            os.symlink(secret, f"{run}/{name}")
            out = tempfile.mkdtemp(dir=self.folder)
            for words in (("show", run), ("show", run, "--json"), ("log", "--runs", os.path.dirname(run)), *self.commands(run, out)):
                done = self.call(*words)
                self.assertIn(done.returncode, (0, 1, 2), (name, words, done.stderr))
                self.assertNotIn("s3cret", done.stdout + done.stderr, (name, words))
            self.assertNotIn(b"s3cret", read(f"{out}/page.html") if os.path.exists(f"{out}/page.html") else b"", name)

    def test_signatures(self):
        keys = tempfile.mkdtemp(dir=self.folder)
        for name in ("alice", "mallory"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", f"{keys}/{name}"], check=True)
        public = {name: read(f"{keys}/{name}.pub").decode().rsplit(" ", 1)[0] for name in ("alice", "mallory")}
        signers, file = f"{keys}/signers", f"{keys}/run.tar"
        write(signers, f"alice@lab {public['alice']}\n")
        done = self.call("export", self.run_folder, "--out", file, "--sign", f"{keys}/alice", "--json")
        self.assertEqual(json.loads(done.stdout)["signature"], f"{file}.sig", done.stderr)

        def judged(*options):
            done = self.call("verify", file, "--data", "data", "--json", *options)
            return done.returncode, json.loads(done.stdout)

        code, verdict = judged("--signers", signers)
        self.assertEqual((code, verdict["verdict"]), (0, "identical"))
        self.assertTrue(verdict["signer"].startswith("alice@lab (ED25519 SHA256:"), verdict["signer"])
        self.assertIn("signed by alice@lab", verdict["message"])
        self.assertIsNone(judged()[1]["signer"])
        good, signature = read(file), read(f"{file}.sig")

        def expect_refused(because, **files):
            write(file, files.get("file", good))
            write(f"{file}.sig", files.get("signature", signature))
            write(signers, files.get("signers", f"alice@lab {public['alice']}\n"))
            code, verdict = judged("--signers", signers)
            self.assertEqual((code, verdict["verdict"], verdict["signer"]), (2, "cannot-judge", None))
            self.assertIn(because, verdict["message"])

        expect_refused("is not alice@lab's signature", file=good + bytes(1024))
        expect_refused("is by nobody in", signers=f"alice@lab {public['mallory']}\n")
        for none in (b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n", signature[:200] + b"\n", signature + signature,
                     signature.replace(b"U1NI", b"U1NJ"), b""):
            expect_refused("is no signature of OpenSSH's", signature=none)
        write(signers, f"alice@lab,al@home {public['alice']}\n")
        write(f"{file}.sig", signature)
        self.assertTrue(judged("--signers", signers)[1]["signer"].startswith("alice@lab (ED25519 SHA256:"))
        write(f"{keys}/other", good)
        subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", f"{keys}/alice", "-n", "git", f"{keys}/other"], check=True,
                       capture_output=True)
        expect_refused("is a signature for 'git'", signature=read(f"{keys}/other.sig"))  # she signed it for something else
        # The signed file comes into the place of another one while that is judged.
        write(file, b"another")
        write(f"{file}.good", good)
        write(f"{file}.sig", signature)
        write(f"{keys}/ssh-keygen", f"#!/bin/sh\ncp {file}.good {file}\nexec {shutil.which('ssh-keygen')} \"$@\"\n")
        os.chmod(f"{keys}/ssh-keygen", 0o755)
        done = self.call("verify", file, "--data", "data", "--signers", signers, env={**os.environ, "PATH": f"{keys}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("is not alice@lab's signature", done.stderr)
        # One in the working folder is not the user's, whatever PATH says.
        write(file, b"another")
        os.rename(f"{keys}/ssh-keygen", os.path.join(self.folder, "ssh-keygen"))
        write(os.path.join(self.folder, "ssh-keygen"), "#!/bin/sh\necho 'Good \"export@isobit\" signature for alice@lab with ED25519 key SHA256:none'\n")
        done = self.call("verify", file, "--data", "data", "--signers", signers, env={**os.environ, "PATH": f".:{os.environ['PATH']}"})
        self.assertIn("is not alice@lab's signature", done.stderr)
        os.rename(os.path.join(self.folder, "ssh-keygen"), f"{keys}/ssh-keygen")
        write(file, good)
        # And the other way: what was unpacked is what was signed.
        write(f"{keys}/ssh-keygen", f"#!/bin/sh\necho another > {file}\nexec {shutil.which('ssh-keygen')} \"$@\"\n")
        done = self.call("verify", file, "--data", "data", "--signers", signers, env={**os.environ, "PATH": f"{keys}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stderr)
        os.remove(f"{file}.sig")
        self.assertEqual(judged("--signers", signers)[0], 2)
        self.assertEqual(self.call("export", self.run_folder, "--out", f"{keys}/x.tar", "--sign", f"{keys}/none").returncode, 2)
        self.assertFalse(os.path.exists(f"{keys}/x.tar"))
        self.assertEqual(self.call("verify", self.run_folder, "--signers", signers).returncode, 2)


class Program(Folder):
    def test_what_ran_outside_is_part_of_the_verdict(self):
        self.write("train.py", SCRIPT.replace("END", "pass").replace(
            "            optimizer.step()\n",
            "            if run.steps == 5:\n                with isobit.disabled():\n                    optimizer.step()\n"
            "            else:\n                optimizer.step()\n"))
        self.train()
        verdict = self.verify()
        self.assertEqual(verdict["verdict"], "identical", verdict)
        (stretch,) = verdict["outside"]
        self.assertEqual((stretch["after"], stretch["until"], stretch["call"]), (5, 6, "disabled"))
        self.assertTrue(stretch["place"].startswith("__main__:"), stretch)
        self.assertIn("identical, but steps 6..6 ran outside isobit (__main__:", verdict["message"])
        run = next(path for path in (self.folder / "runs").iterdir() if not path.name.startswith("."))
        write(run / "outside.jsonl", "")
        seal_anew(run)
        verdict = self.verify(expect=1)
        self.assertEqual(verdict["difference"]["what"], "stretches outside isobit")

    def test_a_record_without_steps_proves_nothing(self):
        self.write("train.py", "import isobit\nwith isobit.record('runs') as run:\n    run.log('test', accuracy=0.999)\n")
        self.train()
        verdict = self.verify(expect=2)
        self.assertEqual(verdict["verdict"], "cannot-judge")
        self.assertIn("no step", verdict["message"])

    def test_the_switch_left_off_or_on(self):
        for line, call, stretch in (("isobit.disable()", "disable", (8, 8)), ("isobit.enable()", "enable", (8, 8))):
            self.write("train.py", SCRIPT.replace("END", line))
            self.train()
            (run,) = [path for path in (self.folder / "runs").iterdir() if not path.name.startswith(".")]
            (outside,) = lines_of(run, "outside.jsonl")
            self.assertEqual((outside["after"], outside["until"], outside["call"]), (*stretch, call))
            shutil.rmtree(run)

    def test_a_bare_disable_in_the_middle(self):
        self.write("train.py", SCRIPT.replace("END", "pass").replace(
            "            optimizer.step()\n",
            "            if run.steps == 5:\n                isobit.disable()\n            optimizer.step()\n"
            "            if run.steps == 6:\n                isobit.enable()\n"))
        self.train()
        (run,) = [path for path in (self.folder / "runs").iterdir() if not path.name.startswith(".")]
        (outside,) = lines_of(run, "outside.jsonl")
        self.assertEqual((outside["after"], outside["until"], outside["call"]), (5, 6, "disable"))


if __name__ == "__main__":
    unittest.main()
