"""Records of stock PyTorch: a run is an ordinary loop, nobody takes it for what is certified, and Python records it, too."""

import glob
import gzip
import json
import os
import struct
import subprocess
import sys
import tarfile
import time
import unittest

import torch
from record_test import Folder
from records import PROGRAM, RecordedRuns, experiment, lines_of, put_lines, read, seal_anew, state_of, write

import isobit
from isobit._base import _sums

STOCK = f"stock-{torch.__version__.partition('+')[0]}"
OPTIMIZERS = {
    'name = "sgd"\nlr = 0.05\nmomentum = 0.9\nnesterov = true\nweight_decay = 0.01':
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    'name = "sgd"\nlr = 0.05\nmomentum = 0.9\ndampening = 0.25':
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, dampening=0.25),
    'name = "adam"\nlr = 0.003\nweight_decay = 0.01':
        lambda parameters: torch.optim.Adam(parameters, lr=0.003, weight_decay=0.01),
    'name = "adamw"\nlr = 0.003\nweight_decay = 0.1':
        lambda parameters: torch.optim.AdamW(parameters, lr=0.003, weight_decay=0.1),
}


def tensors_of(checkpoint):
    """By name, of a safetensors file of float32."""
    content = read(checkpoint)
    size = int.from_bytes(content[:8], "little")
    header, elements = json.loads(content[8:8 + size]), content[8 + size:]
    return {name: torch.frombuffer(bytearray(elements[slice(*entry["data_offsets"])]), dtype=torch.float32)
            .reshape(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def images_of(folder, kind):
    with gzip.open(f"{folder}/{kind}-images-idx3-ubyte.gz") as file:
        content = file.read()
    with gzip.open(f"{folder}/{kind}-labels-idx1-ubyte.gz") as file:
        labels = file.read()[8:]
    pixels = torch.frombuffer(bytearray(content[16:]), dtype=torch.uint8).reshape(len(labels), -1)
    return pixels.to(torch.float32) / 255, torch.tensor(list(labels))


class Command(RecordedRuns):
    images = (90, 30)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = {text: cls.train(text) for text in OPTIMIZERS}
        cls.stock = next(iter(cls.runs.values()))
        cls.certified = cls.train(next(iter(OPTIMIZERS)), "--set", "arithmetic.kind=isobit")

    @classmethod
    def text(cls, optimizer, **tables):
        return experiment(f"{cls.folder}/data", **({
            "top": {"name": "small", "seed": 3, "epochs": 2, "batch": 16}, "arithmetic": {"kind": "stock"}, "optimizer": optimizer,
            "model": {"name": "mlp", "hidden": [12]}, "evaluate": {"batch": 16, "predictions": True},
            "checkpoint": {"every": 1, "keep": 0}, "fingerprint": {"every": 1}} | tables))

    @classmethod
    def train(cls, optimizer, *options):
        return super().train(cls.text(optimizer), "--threads", "1", *options)

    def test_a_run_is_an_ordinary_loop(self):
        """Bit by bit, from the first step's weights on, with torch.optim's own optimizers."""
        images, labels = images_of(f"{self.folder}/data", "train")
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        self.addCleanup(torch.set_num_threads, before)
        for text, make in OPTIMIZERS.items():
            with self.subTest(text):
                run = self.runs[text]
                start = tensors_of(f"{run}/checkpoints/step-1.safetensors")
                model = torch.nn.Sequential(torch.nn.Linear(784, 12), torch.nn.ReLU(), torch.nn.Linear(12, 10))
                named = dict(zip(("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"), model.parameters(), strict=True))
                optimizer = make(model.parameters())
                for name, parameter in named.items():
                    parameter.data.copy_(start[f"weights.{name}"])
                    slots = {slot: start[f"optimizer.{name}.{slot}"].clone() for slot in
                             ("momentum_buffer", "exp_avg", "exp_avg_sq") if f"optimizer.{name}.{slot}" in start}
                    optimizer.state[parameter] = slots | ({} if "momentum_buffer" in slots else {"step": torch.tensor(1.0)})
                steps = lines_of(run, "steps.jsonl")
                for line in steps[1:]:
                    first = (line["step"] - 1) % 6 * 16
                    order = torch.tensor(_sums.order(3, line["epoch"], 90, True, first, min(16, 90 - first)))
                    optimizer.zero_grad()
                    loss = torch.nn.functional.cross_entropy(model(images[order]), labels[order])
                    loss.backward()
                    optimizer.step()
                    self.assertEqual(struct.pack(">f", loss.item()).hex(), line["loss"], line["step"])
                    weights = isobit.fingerprint(dict(named)).partition(":")[2]
                    self.assertEqual(weights, line["weights"], line["step"])
                self.assertEqual(len(steps), 12)
                self.assertEqual(state_of(run)["weights"], f"{STOCK}:{weights}")

    def test_predictions(self):
        images, labels = images_of(f"{self.folder}/data", "t10k")
        lines = lines_of(self.certified, "predictions.jsonl")
        accuracy = [line["values"]["accuracy"] for line in lines_of(self.certified, "metrics.jsonl") if line["set"] == "test"]
        for line, expected in zip(lines, accuracy, strict=True):
            said = torch.tensor(line["predictions"])
            self.assertEqual((said == labels).sum().item() / 30, expected)
            weights = tensors_of(f"{self.certified}/checkpoints/step-{line['step']}.safetensors")
            hidden = torch.relu(images @ weights["weights.fc1.weight"].T + weights["weights.fc1.bias"])
            outputs = hidden @ weights["weights.fc2.weight"].T + weights["weights.fc2.bias"]
            self.assertEqual(outputs.argmax(1).tolist(), said.tolist())
        run = self.forged(self.certified, lambda run: put_lines(run, "predictions.jsonl", [
            *lines[:-1], {**lines[-1], "predictions": [(lines[-1]["predictions"][0] + 1) % 10, *lines[-1]["predictions"][1:]]}]))
        done = self.call("verify", run)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("different at step 12: prediction of test sample 0", done.stdout)
        run = self.forged(self.certified, lambda run: put_lines(run, "predictions.jsonl", [
            {**line, "targets": "0" * 64} for line in lines]))
        self.assertIn("classes of the test set", self.call("verify", run).stdout)

    def test_workers_keep_the_predictions_of_one(self):
        write(f"{self.folder}/shared.toml", self.text(
            next(iter(OPTIMIZERS)), top={"name": "small", "seed": 3, "epochs": 2, "batch": 16, "grain": 5}, arithmetic={"kind": "isobit"},
            evaluate={"batch": 4, "predictions": True}))
        done = self.call("run", "shared.toml", "--runs", "shared", "--workers", "2", "--threads", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = glob.glob(f"{self.folder}/shared/2*")
        lines = lines_of(run, "predictions.jsonl")
        self.assertEqual([(line["step"], len(line["predictions"])) for line in lines], [(6, 30), (12, 30)])
        done = self.call("verify", run)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("identical: 12 steps", done.stdout)

    def test_nobody_takes_it_for_certified(self):
        listed = {entry["id"]: entry for entry in json.loads(self.call("log", "--json").stdout)}
        stock, certified = listed[os.path.basename(self.stock)], listed[os.path.basename(self.certified)]
        self.assertEqual((stock["arithmetic"], stock["contract"]), ("stock", STOCK))
        self.assertEqual((certified["arithmetic"], certified["contract"]), ("isobit", "isobit-0.1"))
        self.assertIn(f"  {STOCK}  ", self.call("log").stdout)
        self.assertIn(f"contract {STOCK}  (stock PyTorch: nothing is promised)", self.call("show", self.stock).stdout)
        environment = json.loads(read(f"{self.stock}/environment.json"))
        self.assertEqual((environment["contract"], environment["run"]["threads"]), (STOCK, "1"))
        self.assertIn("cpu_capability", environment["run"])
        self.assertNotIn("isa", environment["run"])
        # The repeat, whatever it gives, is no verdict of 0, and none in a verdict's words.
        done = self.call("verify", self.stock, "--json")
        verdict = json.loads(done.stdout)
        self.assertEqual((done.returncode, verdict["verdict"]) in ((3, "stock-equal"), (1, "stock-different")), True, verdict)
        self.assertIn("stock PyTorch, nothing promised", verdict["message"])
        self.assertNotIn("identical", verdict["message"])
        self.assertEqual(set(verdict["repeated_metrics"]), {"train", "test"})

    def test_what_differs_is_told_to_the_end(self):
        def other(run):
            lines = lines_of(run, "steps.jsonl")
            lines[6]["loss"] = "3f000000"
            put_lines(run, "steps.jsonl", lines)
            lines = lines_of(run, "metrics.jsonl")
            lines[-1]["values"]["accuracy"] = 0.999
            put_lines(run, "metrics.jsonl", lines)
        done = self.call("verify", self.forged(self.stock, other))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("nothing promised: the repeat differs from step 7 on: loss recorded 3f000000", done.stdout)
        self.assertIn("test recorded accuracy 0.9990", done.stdout)
        self.assertNotIn("identical", done.stdout)

    def test_forged_names(self):
        def as_isobit(run):
            text = read(f"{run}/state.json").decode().replace(STOCK, "isobit-0.1")
            write(f"{run}/state.json", text)

        def as_isobit_whole(run):
            as_isobit(run)
            text = read(f"{run}/experiment.toml").decode()
            write(f"{run}/experiment.toml", text.replace('[arithmetic]\nkind = "stock"\n\n', ""))

        def as_stock(run):
            write(f"{run}/state.json", read(f"{run}/state.json").decode().replace("isobit-0.1", STOCK))

        def as_stock_whole(run):
            as_stock(run)
            text = read(f"{run}/experiment.toml").decode()
            write(f"{run}/experiment.toml", text.replace("[data]\n", '[arithmetic]\nkind = "stock"\n\n[data]\n', 1))

        def in_other_words(run):
            as_isobit(run)
            text = read(f"{run}/experiment.toml").decode()
            write(f"{run}/experiment.toml", text.replace('[arithmetic]\nkind = "stock"', '[ arithmetic ]\nkind = "stock"'))

        def another_version(run):
            write(f"{run}/state.json", read(f"{run}/state.json").decode().replace(STOCK, "stock-1.0.0"))

        for what, run, alter, code, because in (
                ("stock for isobit, in name", self.stock, as_isobit, 2, "but the experiment asks for stock"),
                ("stock for isobit, all of it", self.stock, as_isobit_whole, 1, "different at step 1"),
                ("stock for isobit, in a spelling of its own", self.stock, in_other_words, 2, "not a line that isobit writes"),
                ("isobit for stock, in name", self.certified, as_stock, 2, "but the experiment asks for isobit"),
                ("isobit for stock, all of it", self.certified, as_stock_whole, 1, "nothing promised: the repeat differs"),
                ("another torch", self.stock, another_version, 2, "repeat it with the torch that recorded it")):
            with self.subTest(what):
                done = self.call("verify", self.forged(run, alter))
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(because, done.stdout + done.stderr)
                self.assertNotIn("identical", done.stdout)

    def test_what_stock_has_not(self):
        for words, because in (
                (("run", "small.toml", "--set", "grain=4"), "which stock PyTorch (arithmetic.kind) cannot do"),
                (("run", "small.toml", "--workers", "2"), "leave --workers out"),
                (("run", "small.toml", "--isa", "reference"), "use --capability"),
                (("verify", self.stock, "--workers", "2"), "repeated by one process"),
                (("verify", self.stock, "--isa", "reference"), "use --capability"),
                (("run", "small.toml", "--set", "data.target=silhouette", "--set", "model.name=unet", "--set", "model.classes=11"),
                 "no class per sample")):
            with self.subTest(words):
                before = set(glob.glob(f"{self.folder}/runs/*"))
                done = self.call(*words)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(because, done.stderr)
                self.assertEqual(set(glob.glob(f"{self.folder}/runs/*")), before)

    def test_the_capability_is_chosen_recorded_and_repeated(self):
        run = self.train(next(iter(OPTIMIZERS)), "--capability", "default")
        environment = json.loads(read(f"{run}/environment.json"))
        self.assertEqual((environment["run"]["cpu_capability"], environment["variables"]["ATEN_CPU_CAPABILITY"]), ("DEFAULT", "default"))
        self.assertNotEqual(lines_of(run, "steps.jsonl")[-1]["weights"], lines_of(self.stock, "steps.jsonl")[-1]["weights"])
        done = self.call("verify", run)  # as it was recorded, which nobody said here
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("(1 thread, DEFAULT)", done.stdout)
        done = self.call("verify", run, "--capability", "avx2")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("(1 thread, AVX2)", done.stdout)
        # isobit's bits do not depend on it.
        certified = self.train(next(iter(OPTIMIZERS)), "--set", "arithmetic.kind=isobit", "--capability", "default")
        self.assertEqual(read(f"{certified}/steps.jsonl").split(b'"seconds"')[0], read(f"{self.certified}/steps.jsonl").split(b'"seconds"')[0])
        self.assertEqual(state_of(certified)["weights"], state_of(self.certified)["weights"])

    @unittest.skipIf("avx512vl" in read("/proc/cpuinfo").decode(), "this CPU has AVX-512")
    def test_a_capability_that_the_cpu_lacks_is_refused_by_name(self):
        for words, variables in ((("--capability", "avx512"), {}), ((), {"ATEN_CPU_CAPABILITY": "avx512"})):
            done = self.call("run", "small.toml", *words, env={**os.environ, **variables})
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("this CPU lacks avx512", done.stderr)

    def test_a_trace_is_made_with_the_recorded_threads(self):
        """Other threads are another run: its trace would agree with the record in nothing but what was fingerprinted."""
        made = {}
        for name, words in (("recorded", ()), ("three", ("--threads", "3"))):
            self.call("trace", self.stock, "--steps", "2:1", "--out", f"{name}.trace", *words)
            made[name] = json.loads(read(f"{self.folder}/{name}.trace").split(b"\n")[0])["environment"]["run"]["threads"]
        self.assertEqual(made, {"recorded": "1", "three": "3"})

    def test_a_killed_run_goes_on_as_stock(self):
        write(f"{self.folder}/long.toml", self.text('name = "sgd"\nlr = 0.01', checkpoint={"every": 1, "keep": 2},
                                                    top={"name": "small", "seed": 3, "epochs": 400, "batch": 16}))
        process = subprocess.Popen([PROGRAM, "run", "long.toml", "--runs", "long", "--threads", "3"], cwd=self.folder,
                                   stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while not (found := glob.glob(f"{self.folder}/long/2*/checkpoints/*")) and time.monotonic() < deadline:
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        self.assertTrue(found)
        run = os.path.dirname(os.path.dirname(found[0]))
        (listed,) = json.loads(self.call("log", "--json", "--runs", "long").stdout)
        self.assertEqual((listed["state"], listed["arithmetic"]), ("interrupted", "stock"))
        state = read(f"{run}/state.json").decode()
        write(f"{run}/state.json", state.replace(STOCK, "isobit-0.1"))
        done = self.call("run", "--resume", run)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("was begun by isobit-0.1; a run cannot be resumed by stock", done.stderr)
        write(f"{run}/state.json", state)
        done = self.call("run", "--resume", run, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(read(f"{run}/environment-2.json"))["run"]["threads"], "3")  # as it began
        self.assertEqual(json.loads(done.stdout)["steps"], 2400)
        self.assertTrue(json.loads(done.stdout)["weights"].startswith(STOCK))
        self.assertEqual(len(lines_of(run, "predictions.jsonl")), 400)

    def test_a_file_of_it(self):
        file = f"{self.folder}/stock.tar"
        self.assertEqual(self.call("export", self.stock, "--out", file).returncode, 0)
        with tarfile.open(file) as tar:
            readme = next(member for member in tar if member.name.endswith("README.txt"))
            self.assertIn(b"It exits with 3 if every step", tar.extractfile(readme).read())
        done = self.call("verify", file, "--from", "3", "--to", "5", "--data", "data")
        self.assertIn(done.returncode, (1, 3), done.stderr)
        self.assertIn("nothing promised", done.stdout)


SCRIPT = """
import sys
import torch, isobit

with isobit.record("runs", every=2, arithmetic=sys.argv[1]) as run:
    torch.manual_seed(3)
    assert isobit.is_enabled() == (sys.argv[1] == "isobit")
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Dropout(0.2), torch.nn.Tanh(), torch.nn.Linear(9, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(32, 6), torch.randint(3, (32,))
    for _ in range(6):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        run.log("test", accuracy=(model(x).argmax(1) == y).float().mean())
print(run.path)
"""


class Script(Folder):
    def train_kind(self, kind):
        """In a process of its own: PyTorch's threads do not outlive a fork."""
        return self.folder / self.call(sys.executable, "stock.py", kind).splitlines()[-1]

    def setUp(self):
        super().setUp()
        self.write("stock.py", SCRIPT)

    def test_record_and_repeat(self):
        run = self.train_kind("stock")
        self.assertTrue(state_of(run)["weights"].startswith(f"{STOCK}:"))
        self.assertIn('arithmetic = "stock"', read(run / "experiment.toml").decode())
        environment = json.loads(read(run / "environment.json"))
        self.assertEqual((environment["contract"], environment["run"]["arithmetic"]), (STOCK, "stock"))
        steps = lines_of(run, "steps.jsonl")
        self.assertEqual(len(steps), 6)
        self.assertNotIn("7fc00000", [step["loss"] for step in steps])
        self.assertEqual(read(run / "outside.jsonl"), b"")
        verdict = json.loads(self.call(PROGRAM, "verify", "last", "--json", expect=3))
        self.assertEqual(verdict["verdict"], "stock-equal")
        self.assertIn("nothing promised", verdict["message"])

        text = read(run / "state.json").decode()
        write(run / "state.json", text.replace(STOCK, "isobit-0.1"))
        write(run / "experiment.toml", read(run / "experiment.toml").decode().replace('arithmetic = "stock"\n', ""))
        seal_anew(run)
        # The program says itself that it is stock's.
        verdict = json.loads(self.call(PROGRAM, "verify", "last", "--json", expect=1))
        self.assertEqual((verdict["verdict"], verdict["difference"]["what"]), ("different", "arithmetic"))

    def test_isobit_for_stock(self):
        run = self.train_kind("isobit")
        write(run / "state.json", read(run / "state.json").decode().replace("isobit-0.1", STOCK))
        write(run / "experiment.toml", read(run / "experiment.toml").decode() + 'arithmetic = "stock"\n')
        seal_anew(run)
        verdict = json.loads(self.call(PROGRAM, "verify", "last", "--json", expect=1))
        self.assertEqual((verdict["verdict"], verdict["difference"]["what"]), ("stock-different", "arithmetic"))

    def test_one_record_is_of_one_arithmetic(self):
        runs = str(self.folder / "runs")
        with self.assertRaisesRegex(ValueError, "unknown arithmetic 'float'"):
            isobit.record(runs, arithmetic="float")
        with isobit.enabled(), self.assertRaisesRegex(isobit.RecordError, "the switch is on"), \
                isobit.record(runs, arithmetic="stock"):
            pass
        with self.assertRaisesRegex(isobit.RecordError, "turns the switch on within the block"), \
                isobit.record(runs, arithmetic="stock"):
            isobit.enable()
        self.assertFalse(isobit.is_enabled())
        with self.assertRaisesRegex(isobit.RecordError, "sums grains exactly"), isobit.record(runs, arithmetic="stock") as run:
            next(iter(run.steps([1, 2, 3], batch=2, grain=1, seed=1)))
        self.assertFalse(isobit.is_enabled())
        with isobit.record(runs, arithmetic="stock") as run:
            self.assertFalse(isobit.is_enabled())
        with isobit.record(runs) as run:
            self.assertTrue(isobit.is_enabled())
        self.assertTrue(run._final.startswith("isobit-0.1:"))

    def test_it_is_resumed_by_what_began_it(self):
        runs = str(self.folder / "runs")
        with self.assertRaises(KeyError), isobit.record(runs, "named", arithmetic="stock") as run:
            raise KeyError
        interrupted = run.id
        with self.assertRaisesRegex(isobit.RecordError, 'has arithmetic="stock", not "isobit"'), \
                isobit.record(runs, "named", resume=interrupted):
            pass
        with self.assertRaisesRegex(isobit.RecordError, "arithmetic"), isobit.record(runs, "named", resume="strict"):
            pass
        with isobit.record(runs, "named", resume=True, arithmetic="stock") as run:
            self.assertEqual(run.id, interrupted)
        self.assertEqual(state_of(run.path)["contract"], STOCK)


if __name__ == "__main__":
    unittest.main()
