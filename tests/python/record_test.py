"""isobit.record and isobit verify: what is recorded, that the C++ program reads it, and that a difference is found."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import torch
from programs import NO_SANDBOX, Programs, read_record
from records import seal_anew

import isobit.__main__
from isobit._recording import _provenance

PROGRAM = os.environ.get("ISOBIT_PROGRAM", "")

SCRIPT = """
import random, sys
import torch, isobit
import parts

with isobit.record("runs", every=2) as run:
    isobit.seed(3)
    model = parts.model()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader(parts.data(), batch_size=8, shuffle=True, num_workers=parts.WORKERS)
    for run.epoch in (1, 2):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            run.log("test", accuracy=(model(x).argmax(1) == y).float().mean(), other=1e15)
    END
print(run.path)
print(isobit.fingerprint(model))
"""
PARTS = """
import torch
WORKERS = 0

def model():
    return torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Dropout(0.2), torch.nn.Tanh(), torch.nn.Linear(9, 3))

def data():
    return torch.utils.data.TensorDataset(torch.randn(32, 6), torch.randint(3, (32,)))
"""


class Folder(Programs):
    """With a script in it, its records and what judges them."""

    def setUp(self):
        super().setUp()
        self.write("train.py", SCRIPT.replace("END", "pass"))
        self.write("parts.py", PARTS)

    def environment(self, **more):
        return {"PYTHONPATH": str(pathlib.Path(isobit.__file__).parents[1]), "ISOBIT_PYTHON": sys.executable,
                "XDG_CACHE_HOME": str(self.folder / "cache"), **more}

    @staticmethod
    def trusting(words):
        """The same words, with --trust for isobit verify where no sandbox can be made."""
        words = list(words)
        if NO_SANDBOX and "verify" in words and "--trust" not in words:
            words.insert(words.index("verify") + 1, "--trust")
        return words

    def call(self, *words, expect=0, **environment):
        done = subprocess.run(self.trusting(words), cwd=self.folder, capture_output=True, text=True, check=False,
                              env={**os.environ, **self.environment(**environment)})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout

    def train(self, *arguments, expect=0, **environment):
        """What the script printed."""
        status, out, told = self.run_script("train.py", *arguments, **self.environment(**environment))
        self.assertEqual(status, expect, out + told)
        return out.splitlines()

    def isobit(self, *words, expect=0):
        """python -m isobit; what it runs again is a process of its own."""
        status, out, told = self.fork(lambda: isobit.__main__.main(self.trusting(words)), ["isobit"], self.environment())
        self.assertEqual(status, expect, out + told)
        return out

    def verify(self, *options, expect=0):
        return json.loads(self.isobit("verify", "last", "--json", *options, expect=expect))

    def seal(self, run):
        """As whoever alters a record would: so that it agrees with itself."""
        seal_anew(run)

    def run_of(self, lines):
        return read_record(self.folder / lines[0])

    def on_terminal(self, words, answer="n"):
        """Exit code and what a terminal saw."""
        terminal, end = os.openpty()
        process = subprocess.Popen(words, cwd=self.folder, stdin=end, stdout=subprocess.DEVNULL, stderr=end,
                                   env={**os.environ, **self.environment()})
        os.close(end)
        seen = b""
        while True:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                piece = b""
            if not piece:
                break
            seen += piece
            if seen.endswith(b"[y/N] "):
                os.write(terminal, answer.encode() + b"\n")
        os.close(terminal)
        return process.wait(), seen.decode()


# Seeds PyTorch alone, as most programs do, and saves.
UNSEEDED = """
import random, sys
import torch, isobit
import numpy

with isobit.record("runs", resume=True) as run:
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(32, 4), batch_size=8, shuffle=True)
    if saved := run.load():
        model.load_state_dict(saved)
    DRAW
    for epoch in run.epochs(2):
        for x in run.batches(loader):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            if run.steps % 2 == 0:
                run.save(model.state_dict())
            if run.steps == 6 and "stop" in sys.argv:
                import os
                os.kill(os.getpid(), 9)
print(run.path)
"""


class Record(Folder):
    def test_what_is_recorded(self):
        lines = self.call(sys.executable, "train.py", OMP_NUM_THREADS="1").splitlines()
        record = self.run_of(lines)
        steps = [json.loads(line) for line in record["steps.jsonl"].splitlines()]
        self.assertEqual([(step["step"], step["epoch"]) for step in steps], [(i, 1 + i // 5) for i in range(1, 9)])
        self.assertEqual(["weights" in step for step in steps], [False, True] * 4)
        self.assertEqual(len({step["batch"] for step in steps}), 8)
        self.assertEqual(len({step["loss"] for step in steps}), 8)
        state = json.loads(record["state.json"])
        self.assertEqual((state["state"], state["steps"], state["weights"]), ("finished", 8, lines[1]))
        self.assertEqual(set(json.loads(record["sources.json"])["files"]), {"train.py", "parts.py"})
        self.assertEqual(len(record["metrics.jsonl"].splitlines()), 2)
        evaluated = [json.loads(line) for line in record["evaluations.jsonl"].splitlines()]
        self.assertEqual([(line["step"], line["epoch"], line["tensors"]) for line in evaluated], [(4, 1, 1), (8, 2, 1)])
        self.assertNotEqual(evaluated[0]["batches"], evaluated[1]["batches"])
        again = self.run_of(self.call(sys.executable, "train.py", OMP_NUM_THREADS="3").splitlines())
        self.assertEqual(again["steps.jsonl"], record["steps.jsonl"])

    def test_workers_give_the_same_record(self):
        record = self.run_of(self.train())
        self.write("parts.py", PARTS.replace("WORKERS = 0", "WORKERS = 2"))
        self.assertEqual(self.run_of(self.train())["steps.jsonl"], record["steps.jsonl"])

    def test_cpp_program_reads_it(self):
        self.train()
        shown = json.loads(self.call(PROGRAM, "show", "last", "--json"))
        self.assertEqual((shown["state"], shown["steps"]), ("finished", 8))
        self.assertTrue(shown["record"].startswith("sound: "))
        self.assertEqual(shown["metrics"]["test"]["other"], 1e15)
        self.assertIn("identical: 8 steps", self.call(PROGRAM, "verify", "last", "--isa", "reference", "--threads", "2"))
        self.call(PROGRAM, "run", "--resume", "last", expect=2)
        self.call(PROGRAM, "show", "last")

    def test_verify_takes_another_instruction_set_of_its_speed(self):
        """Whatever was recorded; where there is none, the same one with other threads, and the verdict says so."""
        features = pathlib.Path("/proc/cpuinfo").read_text()
        if " avx2" not in features:
            self.skipTest("this CPU has no AVX2")
        both = {"avx512": "avx2", "avx2": "avx512", "reference": "avx512"}
        taken = both if " avx512vl" in features else {"avx2": "avx2 as recorded", "reference": "avx2"}
        for isa, other in taken.items():
            self.write("train.py", f"import isobit; isobit.enable('{isa}')\n" + SCRIPT.replace("END", "pass"))
            self.train()
            told = self.verify()["message"]
            if "lanes16" in told:  # a build that has it
                continue
            self.assertTrue(told.endswith((f" thread, {other})", f" threads, {other})")), told)

    def test_verify_says_how_long_it_may_take(self):
        run = self.folder / self.train(OMP_NUM_THREADS="2")[0]

        def told(*words):
            done = subprocess.run(self.trusting([PROGRAM, "verify", "last", *words]), cwd=self.folder, capture_output=True, text=True,
                                  check=True, env={**os.environ, **self.environment()})
            self.assertIn("identical: 8 steps", done.stdout)
            return done.stderr
        written = os.stat(run / "steps.jsonl").st_mtime
        os.utime(run / "experiment.toml", (written, written - 3600))
        slow, fast = (told("--threads", "1", "--isa", isa) for isa in ("reference", "auto"))
        self.assertRegex(slow, r"isobit: again with 1 thread, reference: up to about \d+:\d\d:\d\d \(recorded in 1:00:\d\d, on \d threads? with ")
        hours = [int(re.search(r"about (\d+):\d\d:", text)[1]) for text in (slow, fast)]
        self.assertGreater(hours[0], 2 * hours[1])
        os.utime(run / "experiment.toml", (written, written))  # a copy
        self.assertIn("times as long as it was recorded", told("--isa", "reference"))

    def test_a_part_is_sealed_and_judged_by_who_knows_it(self):
        self.write("train.py", SCRIPT.replace("END", """for value in (1, 2):
        run.part("made-up", {"format": "made-up-1", "values": [value, None, "\u00e4"]})
    for name, value in (("Made", {"format": "a"}), ("-a", {"format": "a"}), ("", {"format": "a"}), ("a" * 33, {"format": "a"}),
                        ("../a", {"format": "a"}), (1, {"format": "a"}), ("a", []), ("a", {}), ("a", {"format": 1}),
                        ("a", {"format": "a", "b": float("nan")}), ("a", {"format": "a", "b": model}),
                        ("a", {"format": "a", "b": (1,)}), ("a", {"format": "a", 1: 2}), ("a", {"format": "\\ud800"})):
        try:
            run.part(name, value)
            print("taken", name, value)
        except ValueError as error:
            assert str(error).startswith("run.part: ") and "  do     " in str(error), error"""))
        lines = self.train()
        self.assertEqual(len(lines), 2, lines)  # none was taken
        run = self.folder / lines[0]
        self.assertEqual(json.loads((run / "part-made-up.json").read_text()), {"format": "made-up-1", "values": [2, None, "\u00e4"]})
        self.assertIn("part-made-up.json", (run / "manifest.json").read_text())
        self.assertEqual([path.name for path in run.glob("part-*")], ["part-made-up.json"])
        self.assertIn("part-made-up.json", self.isobit("verify", "last", "--json", expect=2))

    def test_generators_that_the_program_left_alone_are_not_compared(self):
        def train(*words, expect=0):  # in processes of their own, which begin as chance has it
            return self.call(sys.executable, "train.py", *words, expect=expect)
        self.write("train.py", UNSEEDED.replace("DRAW", "pass"))
        whole = self.run_of(train().splitlines())
        self.assertIn("identical: 8 steps", self.verify()["message"])
        train("stop", expect=-signal.SIGKILL)
        self.assertEqual(self.run_of(train().splitlines())["steps.jsonl"], whole["steps.jsonl"])
        self.assertIn("identical: 8 steps", self.verify()["message"])
        for draw, named in (("random.random(); numpy.random.rand()", True), ("random.seed(3); numpy.random.seed(3)", False)):
            self.write("train.py", UNSEEDED.replace("DRAW", draw))
            train()
            told = self.verify(expect=int(named))["message"]
            self.assertEqual("checkpoint (archive/data.pkl)" in told and "drawn without a seed (isobit.seed seeds all)" in told, named, told)

    def test_what_a_checkpoint_keeps_of_generators(self):
        self.write("kept.py", """
import random, numpy
from isobit._base import _generators

def kept():
    return sorted(set(_generators.kept(_generators.states())) - {"torch"})

fresh, of_numpy = random.getstate(), numpy.random.get_state()
assert kept() == [], kept()
for seed in (0, 1, -7, 2**32, 3**500, "abc", b"seed" * 200, 0.25):
    random.seed(seed)
    assert kept() == ["python"], (seed, kept())
for draw in (random.random, lambda: random.gauss(0, 1), lambda: random.getrandbits(32 * 624), lambda: random.shuffle([1, 2])):
    random.seed()
    assert kept() == [], kept()
    draw()
    assert kept() == ["python"], kept()
random.setstate(fresh)
for draw in (numpy.random.rand, numpy.random.randn, lambda: numpy.random.bytes(4 * 624), lambda: numpy.random.seed(0)):
    draw()
    assert kept() == ["numpy"], kept()
    numpy.random.set_state(of_numpy)
    assert kept() == ([] if numpy.random.get_bit_generator().seed_seq is not None else ["numpy"]), kept()
print("ok")
""")
        self.assertEqual(self.call(sys.executable, "kept.py"), "ok\n")

    def test_killed_and_failed(self):
        self.write("train.py", SCRIPT.replace("END", f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"))
        self.train(expect=-signal.SIGKILL)
        (run,) = json.loads(self.call(PROGRAM, "log", "--json"))
        self.assertEqual((run["state"], run["steps"], run["weights"]), ("interrupted", 8, None))
        self.assertEqual(self.verify(expect=2)["verdict"], "cannot-judge")
        self.write("train.py", SCRIPT.replace("END", "raise ValueError('too bad')"))
        self.train(expect=1)
        run = json.loads(self.call(PROGRAM, "log", "--json"))[0]
        self.assertEqual((run["state"], run["steps"], run["note"]), ("failed", 8, "ValueError: too bad"))

    def test_running(self):
        self.write("train.py", SCRIPT.replace("END", "import subprocess; print(subprocess.run([sys.argv[1], 'log', '--json'], "
                                                     "capture_output=True, text=True).stdout, file=sys.stderr)"))
        status, out, told = self.run_script("train.py", PROGRAM)
        self.assertEqual(status, 0, out + told)
        self.assertEqual(json.loads(told[told.index("["):])[0]["state"], "running")

    def test_no_secrets_no_home(self):
        self.train("--api-key", "s3cret", "--token=s3cret", f"{self.folder}/data", "--wandb-password=s3cret", HOME=str(self.folder),
                   OMP_PLACES="/s3cret", SECRET="s3cret")
        (run,) = (path for path in (self.folder / "runs").iterdir() if path.name[0] == "2")
        for file in run.iterdir():
            text = file.read_text(encoding="utf-8")
            self.assertNotIn("s3cret", text, file)
            self.assertNotIn(str(self.folder), text, file)
        self.assertIn('"~/data"', (run / "experiment.toml").read_text())
        self.assertIn("arguments were left out", self.verify(expect=2)["message"])
        self.assertEqual(self.verify("--", "x")["verdict"], "identical")

    def test_one_at_a_time(self):
        with tempfile.TemporaryDirectory() as folder, isobit.record(folder):
            with self.assertRaises(RuntimeError), isobit.record(folder):
                pass
        with self.assertRaises(ValueError):
            isobit.record(every=0)

    def test_outside_its_block(self):
        patched = [(torch.nn.Module, "__call__"), (torch.utils.data.DataLoader, "__init__")]
        before = [getattr(kind, name) for kind, name in patched]
        with tempfile.TemporaryDirectory() as folder:
            run = isobit.record(folder)
            for _ in range(2):
                self.assertEqual([getattr(kind, name) for kind, name in patched], before)
                for call in (lambda: run.log(x=1), lambda: run.save({}), run.load, lambda: run.epochs(2), lambda: run.batches([])):
                    with self.assertRaisesRegex(RuntimeError, "in the block: with isobit.record"):
                        call()
                with run:
                    with self.assertRaisesRegex(ValueError, "x='much' is not a number"):
                        run.log(x="much")

    def test_where_it_cannot_be_written(self):
        """Messages name file and remedy; the run that could not continue is one that was interrupted."""
        body = ("import resource\n    resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))\n    for _ in range(30):\n"
                "        model(x).sum().backward(); optimizer.step()")
        self.write("train.py", SCRIPT.replace("END", body))
        done = subprocess.run([sys.executable, "train.py"], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertRegex(done.stderr.splitlines()[-1], r"OSError: \[Errno 27\] cannot be written: file too large \(raise the limit .*steps.jsonl'")
        (run,) = (path for path in (self.folder / "runs").iterdir() if path.name[0] == "2")
        self.assertTrue((run / "steps.jsonl").read_bytes().endswith(b"\n"))
        (self.folder / "file").write_text("")
        with self.assertRaisesRegex(NotADirectoryError, r"cannot be created: not a directory \(move the file or folder of that name away\)"):
            isobit.record(self.folder / "file" / "runs").__enter__()
        self.assertFalse(isobit.is_enabled())


class Verify(Folder):
    def git(self, *words):
        self.call("git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words)

    def test_commit_and_dirty_patch(self):
        self.git("init", "-q", ".")
        self.git("add", "train.py", "parts.py")
        self.git("commit", "-qm", "first")
        self.write("parts.py", PARTS.replace("Linear(6, 9)", "Linear(6, 12)").replace("Linear(9, 3)", "Linear(12, 3)"))
        record = self.run_of(self.train())
        self.assertIn(b"+    return torch.nn.Sequential(torch.nn.Linear(6, 12)", record["dirty.patch"])
        script = _provenance.read_toml(record["experiment.toml"].decode())
        self.assertEqual((len(script["commit"]), script["dirty"]), (40, True))
        self.git("checkout", "-q", "parts.py")
        self.write("train.py", "raise SystemExit('not the recorded one')")
        verdict = self.verify()
        self.assertEqual((verdict["verdict"], verdict["to"]), ("identical", 8))

    def test_difference_is_found(self):
        self.write("train.py", SCRIPT.replace("END", "pass").replace("for run.epoch", "random.seed()\n    optimizer.param_groups[0]"
                                                                   "['weight_decay'] = 100 * random.random()\n    for run.epoch"))
        self.train()
        verdict = self.verify(expect=1)
        self.assertEqual((verdict["verdict"], verdict["difference"]["what"]), ("different", "loss"))
        self.assertEqual(verdict["difference"]["step"], 2)

    def test_predictions_are_kept_and_compared(self):
        self.write("train.py", SCRIPT.replace("every=2", "every=2, predictions=True").replace("        with torch.no_grad():\n", """\
        with torch.no_grad():
            run.predictions("val", model(x).argmax(1), y)
            run.log("val", loss=0.5)
""").replace("END", "pass"))
        lines = self.train()
        log = self.folder / lines[0] / "predictions.jsonl"
        kept = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual([(line["step"], line["epoch"], line["set"], len(line["predictions"])) for line in kept],
                         [(4, 1, "val", 8), (8, 2, "val", 8)])
        self.assertEqual(self.verify()["verdict"], "identical")
        whole = kept[1]["predictions"][:]
        kept[1]["predictions"][3] = (whole[3] + 1) % 3
        log.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in kept))
        self.seal(self.folder / lines[0])
        difference = self.verify(expect=1)["difference"]
        self.assertEqual((difference["step"], difference["what"]), (8, "prediction of val sample 3"))
        self.assertEqual((difference["recorded"], difference["recomputed"]), (str(kept[1]["predictions"][3]), str(whole[3])))
        log.write_text(log.read_text().replace('"val"', '" val"'))
        self.seal(self.folder / lines[0])
        self.assertIn("its set has no name", self.verify(expect=2)["message"])

    def test_gradients_are_kept_and_compared(self):
        self.write("train.py", SCRIPT.replace("every=2", "every=2, gradients=3").replace("            optimizer.step()\n", """\
            optimizer.step()
            if run.steps == 6:
                expected = isobit.fingerprint({name: tensor.grad for name, tensor in model.named_parameters()})
""").replace("END", "pass") + "print(expected)\n")
        lines = self.train()
        log = self.folder / lines[0] / "steps.jsonl"
        steps = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual([step["step"] for step in steps if "gradients" in step], [3, 6])
        self.assertEqual(list(steps[5]), ["step", "epoch", "loss", "batch", "gradients", "weights", "optimizer"])
        self.assertEqual("isobit-0.1:" + steps[5]["gradients"], lines[-1])
        self.assertNotEqual(steps[2]["gradients"], steps[5]["gradients"])
        self.assertEqual(self.verify()["verdict"], "identical")
        for alter, what in ((lambda step: step.update(gradients="0" * 32), "0" * 32), (lambda step: step.pop("gradients"), "nothing")):
            altered = [dict(step) for step in steps]
            alter(altered[2])
            log.write_text("".join(json.dumps(step, separators=(",", ":")) + "\n" for step in altered))
            self.seal(self.folder / lines[0])
            difference = self.verify(expect=1)["difference"]
            self.assertEqual((difference["step"], difference["what"], difference["recorded"]), (3, "gradients", what))
        with self.assertRaisesRegex(ValueError, "how many steps lie between fingerprints of gradients"):
            isobit.record(gradients=-1)

    def test_other_evaluated_batch_is_found(self):
        self.write("train.py", SCRIPT.replace("END", "with torch.no_grad():\n        model(torch.full((2, 6), float(len(sys.argv))))"))
        self.train()
        verdict = self.verify("--", "more", expect=1)
        self.assertEqual((verdict["difference"]["step"], verdict["difference"]["what"]), (8, "evaluated batches"))

    def test_wrong_options(self):
        for words in (("--isa", "avx3"), ("--threads", "0"), ("--threads", "two")):
            self.isobit("verify", "last", *words, expect=2)

    def test_damage_is_found(self):
        lines = self.train()
        for path in (self.folder / lines[0]).iterdir():
            before = path.read_bytes()
            if before:
                path.write_bytes(before[:-2] + bytes([before[-2] ^ 1]) + before[-1:])
                with self.assertRaisesRegex(AssertionError, "damaged"):
                    self.run_of(lines)
                self.assertEqual(self.verify(expect=2)["verdict"], "cannot-judge")
                path.write_bytes(before)
        added = self.folder / lines[0] / "added.txt"
        added.write_text("")
        self.assertIn("added.txt", self.verify(expect=2)["message"])
        added.unlink()
        self.run_of(lines)

    def test_an_interpreter_that_cannot_judge(self):
        self.train()
        self.write("python", "#!/bin/sh\necho No module named isobit >&2\nexit 1\n")
        (self.folder / "python").chmod(0o755)
        for python, text in ((str(self.folder / "python"), "it ended with exit code 1: No module named isobit"), ("/bin/true", "has another isobit, or none"),
                             ("/no/python", "cannot be started: No such file")):
            verdict = json.loads(self.call(PROGRAM, "verify", "last", "--json", expect=2, ISOBIT_PYTHON=python))
            self.assertEqual(verdict["verdict"], "cannot-judge")
            self.assertIn(text, verdict["message"])
        self.write("python", "#!/bin/sh\nkill -9 $$\n")
        verdict = json.loads(self.call(PROGRAM, "verify", "last", "--json", expect=2, ISOBIT_PYTHON=str(self.folder / "python")))
        self.assertIn("was stopped by signal 9", verdict["message"])

    def test_a_record_that_makes_no_sense(self):
        """Sealed well, written badly."""
        (run,) = (self.folder / self.train()[0],)
        for name, content in (("sources.json", "[]"), ("sources.json", '{"format": "isobit-sources-1", "files": {"train.py": "", "../../x": ""}}'),
                              ("sources.json", '{"format": "isobit-sources-1", "files": {"train.py": 1}}'),
                              ("experiment.toml", "[script]\n"), ("experiment.toml", "[script]\nfile = \n")):
            before = (run / name).read_text()
            (run / name).write_text(content)
            self.seal(run)
            verdict = json.loads(self.call(PROGRAM, "verify", "last", "--json", expect=2))
            self.assertEqual(verdict["verdict"], "cannot-judge", verdict)
            (run / name).write_text(before)
        self.seal(run)
        self.verify()
        self.assertFalse((self.folder.parent / "x").exists())

    def test_repository(self):
        self.write("train.py", SCRIPT.replace("END", "assert open('data.txt').read() == 'data'"))
        self.write("data.txt", "data")
        self.train()
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        (self.folder / "data.txt").rename(elsewhere / "data.txt")
        self.assertIn("data.txt", self.verify(expect=2)["message"])
        self.assertEqual(self.verify("--repository", "elsewhere")["verdict"], "identical")

    def test_data_beside_the_script(self):
        self.write("train.py", SCRIPT.replace("END", "assert open('data.txt').read() == 'data'\n    open('made.txt', 'w')"))
        self.write("data.txt", "data")
        self.train()
        (self.folder / "made.txt").unlink()
        self.verify()
        self.assertFalse((self.folder / "made.txt").exists(), "the copy's files stay in the copy")


if __name__ == "__main__":
    unittest.main()
