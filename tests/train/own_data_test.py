#!/usr/bin/env python3
"""The examples over own data (images, CSV, NumPy arrays, text): run, recorded, verified, killed and resumed; bad input.

Usage: own_data_test.py PROGRAM SOURCE_FOLDER [unittest arguments]. Standard library only.
"""
import glob
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
EXAMPLES = os.path.join(os.path.abspath(sys.argv.pop(1)), "examples", "own-data")

# What everyone gets, on any machine.
WEIGHTS = {
    "colours": "isobit-0.1:e2fc18c8cfabea671f24a0fe8709b584",
    "houses": "isobit-0.1:13470e190738eef23c0fd9db88fe261b",
    "tags": "isobit-0.1:b0f9cf84f53564ff0b9c4f29175209e7",
    "words": "isobit-0.1:9449d6d7c7d239b1607b0827604dee80",
}


class OwnData(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="isobit-test-")
        subprocess.run([sys.executable, f"{EXAMPLES}/make_data.py"], cwd=cls.scratch, check=True, stdout=subprocess.DEVNULL)
        cls.made = runpy.run_path(f"{EXAMPLES}/make_data.py")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch, ignore_errors=True)

    def setUp(self):
        self.work = tempfile.mkdtemp(dir=self.scratch)

    def isobit(self, *arguments, folder=None):
        # A cache of digests of its own.
        environment = {**os.environ, "XDG_CACHE_HOME": f"{self.scratch}/cache"}
        return subprocess.run([PROGRAM, *arguments], cwd=folder or self.scratch, capture_output=True, text=True, timeout=300,
                              check=False, env=environment)

    def run_example(self, name, *more):
        runs = f"{self.work}/{name}{len(os.listdir(self.work))}"
        done = self.isobit("run", f"{EXAMPLES}/{name}.toml", "--runs", runs, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done, glob.glob(f"{runs}/2*")[0]

    def test_each_gives_the_weights_that_everyone_gets_and_verifies(self):
        for name, weights in WEIGHTS.items():
            with self.subTest(name):
                done, run = self.run_example(name, "--threads", "2")
                self.assertEqual(done.stdout.splitlines()[-1], f"weights {weights}")
                verified = self.isobit("verify", run, "--threads", "1", "--isa", "avx2", "--grain-order", "shuffled")
                self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
                self.assertIn("identical", verified.stdout)
                shown = self.isobit("show", run)
                self.assertIn("mean_absolute_error" if name == "houses" else "accuracy", shown.stdout)

    def test_killed_and_resumed(self):
        for name, weights in WEIGHTS.items():
            with self.subTest(name):
                runs = f"{self.work}/{name}"
                arguments = [PROGRAM, "run", f"{EXAMPLES}/{name}.toml", "--runs", runs, "--set", "checkpoint.every=3"]
                process = subprocess.Popen(arguments, cwd=self.scratch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while process.poll() is None and not glob.glob(f"{runs}/2*/checkpoints/step-*"):
                    time.sleep(0.002)
                process.send_signal(signal.SIGKILL)
                process.communicate()
                run = glob.glob(f"{runs}/2*")[0]
                if process.returncode != 0:
                    done = self.isobit("run", "--resume", run, "--runs", runs, "--grain-order", "shuffled")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout.splitlines()[-1], f"weights {weights}")
                self.assertEqual(self.isobit("verify", run).returncode, 0)

    def test_the_split_is_printed_and_proven(self):
        done, run = self.run_example("houses", "--set", "epochs=1")
        self.assertRegex(done.stderr, r"fold 0 of 5 by group, random: \d+ samples of 32 groups train, \d+ of 8 test; no group and no sample in both")
        with open(f"{run}/data.json", encoding="utf-8") as file:
            self.assertEqual([part["name"] for part in json.load(file)["files"]], ["houses.csv"])
        others = {self.run_example("houses", "--set", "epochs=1", "--set", f"split.fold={fold}")[0].stdout for fold in range(5)}
        self.assertEqual(len(others), 5)

    def test_data_that_changed_is_found(self):
        folder = f"{self.work}/copy"
        shutil.copytree(f"{self.scratch}/own-data", folder)
        for name, file in (("colours", "colours/train/red/0007.png"), ("houses", "houses.csv"), ("tags", "tags.npz"), ("words", "words.txt")):
            path = "" if name != "colours" else "/colours"
            _, run = self.run_example(name, "--set", f"data.path={folder}{path}", "--set", "epochs=1")
            with open(f"{folder}/{file}", "rb") as old:
                before = old.read()
            times = os.stat(f"{folder}/{file}")
            with open(f"{folder}/{file}", "wb") as new:  # one bit, and the times as they were
                new.write(before[:-40] + bytes([before[-40] ^ 1]) + before[-39:])
            os.utime(f"{folder}/{file}", ns=(times.st_atime_ns, times.st_mtime_ns))
            verified = self.isobit("verify", run)
            self.assertEqual(verified.returncode, 2, name + verified.stdout + verified.stderr)
            self.assertIn("is not the file that was recorded", verified.stderr)
            with open(f"{folder}/{file}", "wb") as new:
                new.write(before)

    def refused(self, name, sets, *parts):
        runs = f"{self.work}/none"
        more = [word for each in sets for word in ("--set", each)]
        done = self.isobit("run", f"{EXAMPLES}/{name}.toml", "--runs", runs, *more)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual(glob.glob(f"{runs}/2*"), [])
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def copy(self, what):
        folder = f"{self.work}/data"
        shutil.copytree(f"{self.scratch}/own-data", folder, dirs_exist_ok=True)
        return f"{folder}/{what}"

    def test_fields_that_do_not_fit_the_network(self):
        self.refused("houses", ["model.name=lenet5", "model.hidden=[512, 256]"], "lenet5 takes images [channels, height, width]", "'inputs' has the shape [3]")
        self.refused("words", ["model.name=mlp"], "gpt2")
        self.refused("colours", ["model.name=unet"], "a class per pixel")
        self.refused("tags", ["model.classes=5"], "model.classes = 5", "float32 [4]")
        self.refused("colours", ["data.channel_mean=[0.5]"], "data.channel_mean", "3 channels")

    def test_labels_out_of_range_name_the_sample(self):
        self.refused("colours", ["model.classes=3"], "yellow/0000.png", "label 3 is out of range 0..2")
        file = self.copy("tags.npz")
        import zipfile
        values = [0.0] * 2400
        values[4 * 17 + 2] = 0.5
        with zipfile.ZipFile(file) as old:
            x = old.read("x.npy")
        with zipfile.ZipFile(file, "w") as new:
            new.writestr("x.npy", x)
            new.writestr("y.npy", self.made["npy"]((600, 4), values))
        self.refused("tags", [f"data.path={self.work}/data"], "17", "has the target 0.5", "labels are 0 or 1")

    def test_images_that_differ(self):
        folder = self.copy("colours")
        with open(f"{folder}/train/red/0003.png", "wb") as file:
            file.write(self.made["png"]([bytes(3 * 30)] * 32))
        self.refused("colours", [f"data.path={folder}"], "red/0003.png", "30", "32")
        os.remove(f"{folder}/train/red/0003.png")
        with open(f"{folder}/train/red/notes.txt", "w", encoding="utf-8") as file:
            file.write("no image")
        self.refused("colours", [f"data.path={folder}"], "notes.txt")
        os.remove(f"{folder}/train/red/notes.txt")
        for left in glob.glob(f"{folder}/test/red/*"):
            os.remove(left)
        self.refused("colours", [f"data.path={folder}"], "red")

    def test_tables_that_are_broken(self):
        file = self.copy("houses.csv")
        with open(file, encoding="utf-8") as old:
            lines = old.read().splitlines()
        for change, *parts in (
            (lambda line: line + ",7", "line 18"),
            (lambda line: line.replace(",", ";"), "line 18"),
            (lambda line: re.sub(r",\d+,", ",many,", line, count=1), "line 18", "many"),
            (lambda line: line.rsplit(",", 1)[0] + ",nan", "line 18", "price"),
        ):
            with open(file, "w", encoding="utf-8") as new:
                new.write("\n".join([*lines[:17], change(lines[17]), *lines[18:]]) + "\n")
            self.refused("houses", [f"data.path={self.work}/data"], "houses.csv", *parts)
        self.refused("houses", ['data.inputs=["rooms", "aera"]'], "aera", "area")

    def test_splits_that_cannot_be(self):
        self.refused("houses", ["split.folds=41"], "40")
        self.refused("houses", ["split.fold=5"], "split.fold")
        self.refused("houses", ["split.group=steet"], "steet", "street")
        self.refused("words", ["split.rule=stratified"], "stratified")
        file = self.copy("houses.csv")
        with open(file, encoding="utf-8") as old:
            lines = old.read().splitlines()
        with open(f"{self.work}/data/train.csv", "w", encoding="utf-8") as new:
            new.write("\n".join(lines[:200]) + "\n")
        with open(f"{self.work}/data/test.csv", "w", encoding="utf-8") as new:  # the street of line 200 is in both
            new.write("\n".join(lines[:1] + lines[200:]) + "\n")
        with open(f"{EXAMPLES}/houses.toml", encoding="utf-8") as example:
            text = re.sub(r"\[split\].*?\n\n", "[split]\ngroup = \"street\"\n\n", example.read(), flags=re.S)
        with open(f"{self.work}/files.toml", "w", encoding="utf-8") as new:
            new.write(text.replace('train = "houses.csv"', 'train = "train.csv"\ntest = "test.csv"').replace('"own-data"', f'"{self.work}/data"'))
        done = self.isobit("run", f"{self.work}/files.toml", "--runs", f"{self.work}/none")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("is of the group 'street", done.stderr)
        self.assertIn("of the training data", done.stderr)

    def test_weights_and_counts(self):
        # Weights that are all 1 in a column give another record than none, and the same loss to rounding; of 0, no step.
        file = self.copy("houses.csv")
        with open(file, encoding="utf-8") as old:
            lines = old.read().splitlines()
        for weight, code in (("1", 0), ("0", 2), ("-1", 2)):
            with open(file, "w", encoding="utf-8") as new:
                new.write("\n".join([lines[0] + ",w"] + [f"{line},{weight}" for line in lines[1:]]) + "\n")
            runs = f"{self.work}/w{weight}"
            done = self.isobit("run", f"{EXAMPLES}/houses.toml", "--runs", runs, "--set", f"data.path={self.work}/data", "--set",
                               "data.weight=w", "--set", "epochs=1", "--set", "grain=5")
            self.assertEqual(done.returncode, code, done.stderr)
            if weight == "1":
                self.assertEqual(self.isobit("verify", glob.glob(f"{runs}/2*")[0]).returncode, 0)
            else:
                self.assertIn("weigh 0 together" if weight == "0" else "is -1 (it is 0 or more)", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=0)
