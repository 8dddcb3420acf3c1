"""isobit study as a user calls it. fake_run.cpp stands in for `isobit run`: no training here.

Usage: study_command_test.py ISOBIT FAKE_RUN"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

from commands import FAKE, ISOBIT, STUDY, Command

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
import records


class Study(Command):
    def test_a_study_from_file_to_verdict(self):
        self.write()
        results = json.loads(self.study("--json", "--jobs", "2").stdout)
        self.assertEqual(results["format"], "isobit-study-1")
        self.assertEqual(results["unit"], "seed")
        self.assertEqual(results, json.loads((self.folder / "studies/optimizers/results.json").read_text()))
        sgd, adam = results["summary"]
        # Runs that differ in threads alone are one value: 4 seeds, not 8 runs.
        self.assertEqual((sgd["factors"], sgd["n"], sgd["runs"]), ({"optimizer.name": "sgd"}, 4, 8))
        self.assertAlmostEqual(adam["mean"] - sgd["mean"], 0.05, 12)
        (comparison,) = results["comparisons"]
        self.assertEqual((comparison["a"], comparison["b"], comparison["n"]), ("sgd", "adam", 4))
        self.assertEqual(comparison["p_permutation"], 2 / 16)  # four pairs cannot say more
        self.assertTrue(any("4 pairs cannot give a p-value below 0.125" in w for w in results["warnings"]))
        self.assertTrue(results["findings"][0].startswith("threads: nothing moves"), results["findings"])
        shares = {c["factor"]: c["share"] for c in results["components"]}
        self.assertEqual(shares["threads"], 0)
        self.assertAlmostEqual(sum(shares.values()), 1, 12)
        # Each a normal record, of the id that the list says.
        cells = self.cells()
        self.assertEqual([c["index"] for c in cells], list(range(16)))
        listed = json.loads(self.call("log", "--json", "--runs", "studies/optimizers/runs").stdout)
        self.assertEqual({c["run"] for c in cells}, {r["id"] for r in listed})
        self.assertEqual({c["state"] for c in cells}, {"finished"})
        # The resolved study describes itself, and is the same study.
        again = self.call("study", "studies/optimizers/study.toml", "--program", FAKE, "--dry-run", "--json")
        self.assertEqual([c["factors"] for c in json.loads(again.stdout)["cells"]], [c["factors"] for c in cells])

    def test_results_do_not_depend_on_jobs_or_order(self):
        self.write()
        texts = [self.study("--json", "--jobs", jobs, "--out", f"out-{jobs}").stdout for jobs in ("1", "4")]
        self.assertEqual(texts[0], texts[1])

    def test_resuming_makes_no_run_twice_and_a_larger_study_keeps_what_it_has(self):
        self.write()
        self.study()
        self.assertEqual(len(self.begun()), 16)
        self.assertIn("holds a study already", self.study(code=2).stderr)
        self.study("--resume")
        self.assertEqual(len(self.begun()), 16)
        self.write(STUDY.replace("1..4", "1..6"))
        results = json.loads(self.study("--resume", "--json").stdout)
        self.assertEqual(len(self.begun()), 24)
        self.assertEqual(results["comparisons"][0]["n"], 6)
        self.assertEqual(results["comparisons"][0]["verdict"], "adam is better")
        self.assertEqual(results["comparisons"][0]["runs_needed"], 0)
        # Without its list, the records say how far it is; a run that was removed is made again.
        (self.folder / "studies/optimizers/cells.json").unlink()
        shutil.rmtree(self.folder / "studies/optimizers/runs" / self.begun_run(3))
        self.study("--resume")
        self.assertEqual(len(self.begun()), 25)

    def test_a_run_of_another_cell_under_its_id(self):
        """Each of two records is sound, and verify would say identical of both; under each other's ids they would make adam worse."""
        self.write()
        before = self.study("--json").stdout
        runs = self.folder / "studies/optimizers/runs"
        one, other = (next(runs / c["run"] for c in self.cells() if c["factors"] == {"optimizer.name": name, "seed": 2, "threads": 1})
                      for name in ("sgd", "adam"))

        def swap(first, second):
            aside = self.folder / "aside"
            renamed = [(run, run.name[:-8] + with_ending.name[-8:]) for run, with_ending in ((first, second), (second, first))]
            for run, name in renamed:
                records.put_state(run, id=name)
                records.seal_anew(run)
            first.rename(aside)
            second.rename(runs / renamed[1][1])
            aside.rename(runs / renamed[0][1])
            return [runs / name for _, name in renamed]

        one, other = swap(one, other)
        self.assertEqual(self.study("--gather", code=2).stdout, "")
        told = self.study("--gather", code=2).stderr
        self.assertIn("has the id of the run of cell", told)
        self.assertRegex(told, 'optimizer.name is "(adam|sgd)" in it, "(sgd|adam)" here')
        self.assertIn("has the id of the run", self.study("--resume", code=2).stderr)
        swap(one, other)
        self.assertEqual(self.study("--gather", "--json").stdout, before)
        # Another name than the run's is no sound record: it does not count, and that is said.
        renamed = runs / self.begun_run(5) / "experiment.toml"
        text, sealed = renamed.read_text(), {path: path.read_bytes() for path in renamed.parent.iterdir() if path.is_file()}
        renamed.write_text(text.replace('name = "fake"', 'name = "other"'))
        records.seal_anew(renamed.parent)
        told = self.study("--gather")
        self.assertIn("1 of 16 runs are still to be made", told.stdout + told.stderr)
        for path, content in sealed.items():
            path.write_bytes(content)
        # What no file names is one thing in all of them.
        momentum = {self.begun_run(4): lambda text: "optimizer.momentum = 0.9\n" + text,
                    self.begun_run(6): lambda text: "optimizer.momentum = 0.8\n" + text}
        self.refused_with(runs, momentum, "and no file names it")
        self.study("--gather")

    def refused_with(self, runs, alterations, because):
        """--gather, where the experiments of some records are altered, and the records sealed anew; they are restored."""
        kept = {run: {path.name: path.read_bytes() for path in (runs / run).iterdir() if path.is_file()} for run in alterations}
        for run, alter in alterations.items():
            (runs / run / "experiment.toml").write_text(alter(kept[run]["experiment.toml"].decode()))
            records.seal_anew(runs / run)
        self.assertIn(because, self.study("--gather", code=2).stderr)
        for run, files in kept.items():
            for name, content in files.items():
                (runs / run / name).write_bytes(content)

    def begun_run(self, index):
        runs = os.listdir(self.folder / "studies/optimizers/runs")
        return sorted(run for run in runs if not run.startswith("."))[index]

    def test_a_record_leaves_out_what_says_nothing(self):
        """As isobit run does with arithmetic.kind = "isobit", and with a momentum that Adam does not use."""
        self.write(STUDY + '\n[settings]\narithmetic.kind = "isobit"\noptimizer.momentum = 0.0\n')
        self.study()
        runs = self.begun()
        self.study("--resume")
        self.study("--gather")
        self.assertEqual(self.begun(), runs)
        # A key that is left out and was not to be the default makes it another run.
        adam = next(cell["run"] for cell in self.cells() if cell["factors"]["optimizer.name"] == "adam")
        self.refused_with(self.folder / "studies/optimizers/runs", {adam: lambda text: text.replace('optimizer.name = "adam"\n', "")},
                          'optimizer.name is missing in it, and "adam" here')

    def test_another_experiment_has_other_runs(self):
        self.write()
        self.study()
        (self.folder / "experiment.toml").write_text('name = "fake"\nepochs = 2\n')
        self.study("--resume")
        self.assertEqual(len(self.begun()), 32)

    def test_failures_are_noted_and_stop_nothing(self):
        self.write()
        done = self.study("--json", code=1, FAKE_ACTS="seed=2:fail;seed=3:diverge")
        results, cells = json.loads(done.stdout), self.cells()
        notes = {c["factors"]["seed"]: c["note"] for c in cells}
        self.assertEqual(notes[2], "somewhere: broken (mend it)")
        self.assertIn("diverged: ", notes[3])
        self.assertIn("the loss of step 1 is not finite", notes[3])
        self.assertIn("8 of 16 runs failed and are left out", results["warnings"][0])
        self.assertEqual(results["summary"][0]["n"], 2)
        # What was broken is tried again; what diverged would diverge again.
        self.study("--resume", code=1)
        self.assertEqual(len(self.begun()), 20)

    def test_a_killed_run_is_a_failed_cell(self):
        self.write()
        self.study(code=1, FAKE_ACTS="seed=2:kill")
        self.assertIn("was stopped by signal 9 (out of memory?", next(c["note"] for c in self.cells() if c["state"] == "failed"))
        self.study("--resume")  # the run is resumed

    def test_failures_of_one_algorithm_leave_its_pairs_out(self):
        self.write(STUDY.replace("1..4", "1..8"))
        words = 'optimizer.name="adam":diverge'
        results = json.loads(self.study("--json", code=1, FAKE_ACTS=words).stdout)
        self.assertEqual(results["comparisons"][0]["n"], 0)
        self.assertIn("no verdict", results["comparisons"][0]["verdict"])
        self.assertTrue(any("16 runs have no counterpart" in w for w in results["warnings"]), results["warnings"])

    def test_a_loss_that_is_no_number_has_no_value(self):
        self.write(STUDY.replace("test.accuracy", "test.loss"))
        done = self.study("--json", FAKE_ACTS="seed=2:nan")
        results = json.loads(done.stdout)
        self.assertTrue(any("4 of 16 runs have no finite test.loss" in w for w in results["warnings"]))
        self.assertEqual([c["value"] for c in self.cells() if c["factors"]["seed"] == 2], [None] * 4)
        self.assertEqual(results["summary"][0]["n"], 3)
        self.assertLess(results["comparisons"][0]["difference"], 0)  # adam's loss is lower, and that is better

    def test_what_the_experiment_refuses_lies_in_the_study(self):
        self.refused(STUDY.replace("seed =", "optimizer.nmae ="), "isobit: study.toml:10:11: unknown key 'optimizer.nmae' (did you mean 'optimizer.name'?)")
        self.refused(STUDY + "[settings]\noptimizer.nmae = 3\n", "isobit: study.toml:13:11: unknown key 'optimizer.nmae'")
        algorithms = '[algorithms.a]\nloss.name = "mse"\n[algorithms.b]\nloss.name = "l1"\noptimizer.nmae = 2\n'
        self.refused(STUDY.replace('compare = "optimizer.name"\n', "") + algorithms, "isobit: study.toml:15:11: unknown key 'optimizer.nmae'")

    def test_a_metric_that_no_run_measures(self):
        """Of an experiment it is known before the first run; of a script's records (study_script_test.py) afterwards."""
        for metric, told in (("test.acuracy", 'did you mean "test.accuracy"? '), ("val.f1", ""), ("test.mean_absolute_error", "")):
            self.refused(STUDY.replace("test.accuracy", metric), f"isobit: study.toml:5:10: 'metric' is \"{metric}\", which no run of experiment.toml "
                         f"measures ({told}measured: train.accuracy, train.loss, test.accuracy, test.loss)")
        (self.folder / "experiment.toml").write_text('name = "fake"\ndata.target = "value"\n')
        self.write(STUDY.replace("test.accuracy", "test.mean_absolute_error"))
        self.study("--dry-run")
        self.write(STUDY.replace("[factors]", '[settings]\ndata.target = "class"\n[factors]'))
        self.study("--dry-run")
        self.assertEqual(self.begun(), [])

    def test_one_run_per_setting_is_said_to_say_nothing(self):
        self.write(STUDY.replace('seed = "1..4"', "").replace("threads = [1, 2]", ""))
        done = self.study()
        self.assertIn("each setting has one value: its spread is unknown", done.stdout)
        self.assertIn("no verdict: there are fewer than two pairs", done.stdout)

    def test_stock_and_isobit_are_explained_apart(self):
        self.write(STUDY.replace('compare = "optimizer.name"', "").replace(
            'optimizer.name = ["sgd", "adam"]', 'arithmetic.kind = ["isobit", "stock"]'))
        results = json.loads(self.study("--json").stdout)
        self.assertIn("threads (isobit): nothing moves", results["findings"][0])
        self.assertIn("threads (stock): weights differ in 4 of 4 groups", results["findings"][1])
        share = {(c["within"]["arithmetic.kind"], c["factor"]): c["share"] for c in results["components"]}
        self.assertEqual(share["isobit", "threads"], 0)
        self.assertGreater(share["stock", "threads"], 0)

    def test_folds_are_the_experiments_split_and_their_overlap_counts(self):
        self.write(STUDY.replace('seed = "1..4"', "").replace("threads = [1, 2]", "") +
                   '[folds]\nkind = "repeated"\nfolds = 5\nrepeats = 3\ngroup = "subject"\n')
        plan = json.loads(self.study("--dry-run", "--json").stdout)["cells"]
        self.assertEqual(len(plan), 30)
        self.assertEqual({(c["factors"]["seed"], c["fold"]) for c in plan}, {(r, f) for r in (1, 2, 3) for f in range(5)})
        results = json.loads(self.study("--json").stdout)
        self.assertEqual(results["unit"], "seed and fold")
        self.assertEqual(results["comparisons"][0]["n"], 15)
        self.assertIsNotNone(results["comparisons"][0]["p_corrected_t"])
        self.assertTrue(any("training parts of folds overlap" in w for w in results["warnings"]))
        self.assertFalse(any("no group" in w for w in results["warnings"]))
        run = self.folder / "studies/optimizers/runs" / self.begun_run(0)
        self.assertIn('split.folds = 5\nsplit.group = "subject"\nsplit.rule = "random"\n', (run / "experiment.toml").read_text())

    def test_sampled_cells_are_drawn_again_the_same_and_grow(self):
        sampled = STUDY.replace("1..4", "1..50").replace("[factors]", 'design = "sampled"\nsamples = 6\n[factors]')
        plans = []
        for text in (sampled, sampled, sampled.replace("samples = 6", "samples = 9"), sampled.replace("[factors]", "seed = 1\n[factors]")):
            self.write(text)
            plans.append([json.dumps(c["factors"]) for c in json.loads(self.study("--dry-run", "--json").stdout)["cells"]])
        self.assertEqual(len(plans[0]), 12)  # each with both optimizers
        self.assertEqual(plans[0], plans[1])
        self.assertLess(set(plans[0]), set(plans[2]))
        self.assertNotEqual(plans[0], plans[3])

    def test_options_and_environment_reach_the_run(self):
        self.write(STUDY.replace("threads = [1, 2]", 'capability = ["default", "avx2"]').replace("1..4", "1..1"))
        self.study()
        self.assertEqual(sorted(tuple(line[2:4]) for line in self.begun()), [("avx2", "AVX2")] * 2 + [("default", "SSE4_2")] * 2)

    @unittest.skipIf("avx512vl" in pathlib.Path("/proc/cpuinfo").read_text(), "this CPU has AVX-512")
    def test_a_capability_that_the_cpu_lacks_is_refused_before_any_run(self):
        self.write(STUDY.replace("threads = [1, 2]", 'capability = ["default", "avx512"]'))
        self.assertIn("capability: this CPU lacks avx512", self.study(code=2).stderr)
        self.assertEqual(self.begun(), [])

    def test_interrupt_ends_the_runs_and_the_study_resumes(self):
        self.write()
        environment = {**self.environment, "FAKE_ACTS": "seed=3:wait"}
        process = subprocess.Popen([ISOBIT, "study", "study.toml", "--program", FAKE, "--jobs", "4"], cwd=self.folder,
                                   env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while sum(line[1] == "wait" for line in self.begun()) < 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        other = self.study("--resume", code=2)
        self.assertIn("another isobit study makes its runs there", other.stderr)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, out + err)
        self.assertIn("interrupted; resume with: isobit study study.toml --out studies/optimizers --resume", err)
        states = [c["state"] for c in self.cells()]
        self.assertIn("waiting", states)
        self.assertNotIn("running", states)
        self.study("--resume")
        self.assertEqual({c["state"] for c in self.cells()}, {"finished"})

    def test_a_kill_loses_nothing_that_was_finished(self):
        self.write()
        process = subprocess.Popen([ISOBIT, "study", "study.toml", "--program", FAKE, "--jobs", "1"], cwd=self.folder,
                                   env={**self.environment, "FAKE_ACTS": "seed=3:wait"}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not any(line[1] == "wait" for line in self.begun()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
        process.wait()
        before = len(self.begun())
        self.study("--resume")
        self.assertEqual(len(self.begun()), before + 16 - (before - 1))  # the one that ran is resumed, those before stay

    def test_wrong_studies_are_refused_with_a_place_and_a_remedy(self):
        self.refused(STUDY.replace("metric", "metrik"), "study.toml:5:1: unknown key 'metrik' (did you mean 'metric'?)")
        self.refused(STUDY.replace("[factors]", "[factor]"), "unknown key 'factor' (did you mean 'factors'?)")
        self.refused(STUDY.replace("test.accuracy", "accuracy"), "'metric' is no metric of a run")
        self.refused(STUDY.replace('"optimizer.name"', '"optimizer.lr"'), "'optimizer.lr' is no factor of the study")
        self.refused(STUDY.replace('compare = "optimizer.name"', 'compare = "seed"'), "'seed' stands for chance")
        self.refused(STUDY.replace("[1, 2]", "[1, 1]"), "has the level 1 twice")
        self.refused(STUDY.replace("[1, 2]", "[0]"), "'threads' has a level that cannot be")
        self.refused(STUDY.replace("[1, 2]", "[]"), "has no list of levels")
        self.refused(STUDY.replace("1..4", "4..1"), "is no range")
        self.refused(STUDY.replace("1..4", "0..9223372036854775807"), "is no range")
        self.refused(STUDY.replace("threads", "torch"), "other versions of PyTorch", "[environments]")
        self.refused(STUDY.replace("threads", "arithmetic").replace("1..4", "1..9999") + "lr = \"0..9999\"\n", "more than 100000 runs")
        self.refused(STUDY + "[folds]\nkind = 'leave-one-group-out'\nfolds = 4\n", "'group' is missing")
        self.refused(STUDY + "[folds]\nkind = 'repeated'\nrepeats = 2\n", "draw each repetition by a seed of its own")
        self.refused(STUDY + "[settings]\nthreads = 2\n", "'threads' is no key of an experiment")
        self.refused(STUDY.replace("optimizer.name =", "optimizer.nmae =").replace('"optimizer.name"', '"optimizer.nmae"'),
                     "unknown key 'optimizer.nmae' (did you mean 'optimizer.name'?)")
        self.refused("[study]\nname = 'a'\nexperiment = 'experiment.toml'\nmetric = 'a.b'\n", "is a study of one run")
        self.refused("a" + ".a" * 5000 + " = 1\n", "has a name of more than 64 parts")
        self.refused("[study\n", "study.toml:1:", "not TOML")
        self.refused(STUDY.replace("experiment.toml", "nothing.toml"), "nothing.toml")

    def test_a_damaged_list_of_cells_is_refused_and_can_be_deleted(self):
        self.write()
        self.study()
        (self.folder / "studies/optimizers/cells.json").write_text('{"format": "isobit-study-cells-1", "cells": [{"key": 7}]}')
        self.assertIn("delete it: the states are found again from the runs", self.study("--resume", code=2).stderr)
        (self.folder / "studies/optimizers/cells.json").unlink()
        self.study("--resume")
        self.assertEqual(len(self.begun()), 16)


class Submit(Command):
    """With stand-ins for Slurm's programs: what is submitted is a script that this machine can execute."""

    def test_the_script_makes_the_runs_that_the_study_looks_for(self):
        self.write()
        script = self.study("--submit", "--dry-run", "--at-once", "3", PATH="/nowhere").stdout  # no Slurm here
        self.assertIn("#SBATCH --array=0-15%3\n", script)
        self.assertIn("#SBATCH --cpus-per-task=2\n", script)
        self.assertFalse((self.folder / "studies").exists())
        # Each case of the script has the name and words of a cell.
        cells = json.loads(self.study("--dry-run", "--json").stdout)["cells"]
        for cell in cells:
            line = next(x for x in script.splitlines() if x.startswith(f"  {cell['index']}) "))
            self.assertIn(f"name=optimizers-{cell['key']};", line)
            self.assertIn(f"seed={cell['factors']['seed']} --threads {cell['factors']['threads']} ;;", line)
        # As a task would call it: the words of case 5, in a study folder that then gathers one run.
        words = subprocess.run(["bash", "-c", script[script.index("case"):script.index("esac") + 4] + '; printf "%s\\n" "$name" "$@"'],
                               env={"SLURM_ARRAY_TASK_ID": "5"}, capture_output=True, text=True, check=True).stdout.splitlines()
        (self.folder / "studies/optimizers").mkdir(parents=True)
        self.assertIn("holds no study", self.study("--gather", code=2).stderr)
        subprocess.run([FAKE, "run", "experiment.toml", "--runs", "studies/optimizers/runs", "--once", *words], cwd=self.folder,
                       env=self.environment, check=True, capture_output=True)
        (self.folder / "studies/optimizers/study.toml").write_text("")
        results = json.loads(self.study("--gather", "--json").stdout)
        self.assertIn("15 of 16 runs are still to be made", results["warnings"])
        self.assertEqual([c["state"] for c in self.cells()].index("finished"), 5)

    def test_workers_and_capability_reach_the_tasks(self):
        self.write(STUDY.replace("threads = [1, 2]", 'threads = [1, 2]\nworkers = [1, 3]\ncapability = ["avx512"]'))
        script = self.study("--submit", "--dry-run", PATH="/nowhere").stdout
        self.assertIn("--cpus-per-task=6", script)  # of the largest: 3 workers of 2 threads
        self.assertIn("--threads 2 --workers 3 --capability avx512", script)


SCRIPT_STUDY = """
[study]
name = "optimizers"
script = "train.py"
arguments = ["--epochs", "3"]
metric = "test.accuracy"

[algorithms.sgd]
optimizer = "sgd"
[algorithms.adam]
optimizer = "adam"
lr = 0.1

[factors]
seed = "1..2"
threads = [1, 2]

[environments]
one = "./one"
two = "./two"
"""

# In the place of a Python with PyTorch: takes the words that a script would get, and leaves the record that the study asks for.
PYTHON = """#!{python}
import json, os, subprocess, sys
if sys.argv[1] == "-c":
    sys.exit({check!r})
told, words = json.loads(os.environ["ISOBIT_STUDY"]), sys.argv[2:]
with open(os.environ["FAKE_LOG"] + ".words", "a") as log:
    print(json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], told["threads"], os.environ["OMP_NUM_THREADS"]]), file=log)
pairs = dict(zip(words[::2], words[1::2]))
if pairs["--seed"] == os.environ.get("FAKE_RAISES"):
    sys.exit("Traceback\\n  File x\\nValueError: seed " + pairs["--seed"])
if pairs["--seed"] == os.environ.get("FAKE_SILENT"):
    sys.exit(0)
os.environ["FAKE_ARGUMENTS"] = json.dumps(words)
sys.exit(subprocess.call([{fake!r}, "run", "x.toml", "--json", "--runs", told["runs"], "--ending", told["ending"], "--script", sys.argv[1],
                          "--set", "seed=" + pairs["--seed"], "--set", 'optimizer.name="' + pairs["--optimizer"] + '"']))
"""


class ScriptStudy(Command):
    def setUp(self):
        super().setUp()
        (self.folder / "train.py").write_text("import isobit\n")
        self.interpreter("one")
        self.interpreter("two")

    def interpreter(self, name, check=0):
        (self.folder / name).write_text(PYTHON.format(python=sys.executable, fake=FAKE, check=check))
        (self.folder / name).chmod(0o755)

    def words(self):
        return [json.loads(line) for line in (self.folder / "log.words").read_text().splitlines()]

    def test_every_run_is_a_record_made_by_its_interpreter_with_its_words(self):
        self.write(SCRIPT_STUDY)
        results = json.loads(self.study("--json").stdout)
        words = self.words()
        self.assertEqual(len(words), 16)
        self.assertEqual(sorted({w[0] for w in words}), ["one", "two"])
        script = str((self.folder / "train.py").resolve())
        self.assertIn(["two", [script, "--epochs", "3", "--optimizer", "adam", "--lr", "0.1", "--seed", "2"], 2, "2"], words)
        self.assertIn(["one", [script, "--epochs", "3", "--optimizer", "sgd", "--seed", "1"], 1, "1"], words)
        self.assertEqual([c["state"] for c in self.cells()], ["finished"] * 16)
        self.assertEqual(len({c["run"] for c in self.cells()}), 16)
        self.assertTrue(results["findings"][1].startswith("environment: nothing moves"), results["findings"])
        self.assertEqual(results["comparisons"][0]["n"], 2)
        self.assertTrue(any("let the script record with predictions=True" in w for w in results["warnings"]), results["warnings"])
        # How they drift, with remedies of programs.
        runs = [str(self.folder / "studies/optimizers/runs" / c["run"]) for c in self.cells()[:2]]
        notes = self.call("drift", *runs).stdout.partition("note: ")[2]
        self.assertIn("churn needs predictions of the same samples: let the program record with predictions=True, and call run.predictions\n", notes)
        self.assertIn("that weights are equal is told by their fingerprints", notes)
        self.assertNotIn("--set", notes)
        # None is made twice; the resolved study is the same; another script or interpreter makes other runs.
        self.study("--resume")
        (self.folder / "studies/optimizers/cells.json").unlink()
        self.study("--resume")
        self.assertEqual(len(self.words()), 16)
        again = self.call("study", "studies/optimizers/study.toml", "--dry-run", "--json")
        self.assertEqual([c["key"] for c in json.loads(again.stdout)["cells"]], [c["key"] for c in self.cells()])
        (self.folder / "train.py").write_text("import isobit, math\n")
        self.study("--resume")
        self.assertEqual(len(self.words()), 32)

    def test_what_a_script_imports_has_one_text(self):
        """A helper that changed while the study was interrupted, or that a record has made up: what is compared is not all that differs."""
        self.write(SCRIPT_STUDY)
        self.study()
        runs = self.folder / "studies/optimizers/runs"
        names = [cell["run"] for cell in self.cells()]
        kept = {}
        for name, text in ((names[0], "RATE = 1\n"), (names[5], "RATE = 1\n"), (names[9], "RATE = 2\n")):
            sources = json.loads((runs / name / "sources.json").read_text())
            sources["files"]["helper.py"] = text
            kept[name] = {path.name: path.read_bytes() for path in (runs / name).iterdir() if path.is_file()}
            (runs / name / "sources.json").write_text(json.dumps(sources) + "\n")
            records.seal_anew(runs / name)
        for words in ("--gather", "--resume"):
            self.assertIn(f"helper.py has another text in it than in {names[0]}", self.study(words, code=2).stderr)
        for name, content in kept[names[9]].items():
            (runs / names[9] / name).write_bytes(content)
        self.study("--gather")  # one that does not import it is no other program

    def test_a_report_holds_factors_against_arguments(self):
        self.write(SCRIPT_STUDY)
        self.study()
        study = self.folder / "studies/optimizers"
        self.call("report", str(study), "--out", "page.html")
        text = (study / "cells.json").read_text()
        (study / "cells.json").write_text(text.replace('"seed":1', '"seed":3').replace('"seed":2', '"seed":1').replace('"seed":3', '"seed":2'))
        self.assertIn("seed is 1 in it, 2 here", self.call("report", str(study), "--out", "forged.html", code=2).stderr)
        # One run in the place of several: threads stand in no record's experiment.
        first, *others = (cell for cell in json.loads(text)["cells"] if cell["factors"]["seed"] == 1 and cell["factors"]["algorithm"] == "sgd")
        (study / "cells.json").write_text(text.replace(others[0]["run"], first["run"]))
        self.assertIn("it is another cell's run, too", self.call("report", str(study), "--out", "forged.html", code=2).stderr)

    def test_failures_are_noted_with_the_program_s_last_words(self):
        self.write(SCRIPT_STUDY)
        self.study(code=1, FAKE_RAISES="1", FAKE_SILENT="2")
        notes = {c["factors"]["seed"]: c["note"] for c in self.cells()}
        self.assertEqual(notes[1], "ValueError: seed 1")
        self.assertIn("the program made no record", notes[2])
        self.study("--resume")
        self.assertEqual({c["state"] for c in self.cells()}, {"finished"})

    def test_what_cannot_be_is_refused_before_the_first_run(self):
        self.refused(SCRIPT_STUDY.replace("[study]", "[study]\nexperiment = 'experiment.toml'"), "'experiment' is given beside script")
        self.refused(SCRIPT_STUDY.replace("threads = [1, 2]", "isa = ['avx2']"), "'isa' is an option of isobit run")
        self.refused(SCRIPT_STUDY + "[folds]\nfolds = 3\n", "[folds] is for experiments")
        self.refused(SCRIPT_STUDY.replace('"--epochs", "3"', '"--epochs", 3'), "'arguments' is no list of words")
        self.refused(SCRIPT_STUDY.replace('"./two"', '"-c"'), "'two' is no environment")
        self.refused(STUDY + "[environments]\none = './one'\n", "[environments] is for scripts")
        self.refused(SCRIPT_STUDY.replace("train.py", "other.py"), "other.py: cannot be read: no such file")
        self.refused(SCRIPT_STUDY.replace("./two", "./three"), "environment two (./three)")
        self.interpreter("two", "Traceback\nModuleNotFoundError: No module named 'isobit'")
        self.refused(SCRIPT_STUDY, "environment two (./two): cannot make runs: ModuleNotFoundError: No module named 'isobit'")
        self.interpreter("two")
        self.write(SCRIPT_STUDY)
        self.assertIn("made on this machine", self.study("--submit", "--dry-run", code=2).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
