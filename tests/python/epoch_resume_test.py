"""run.epochs and run.batches: a program killed within an epoch resumes there, with the bits of an unbroken run."""

import hashlib
import json
import os
import pickle
import shutil
import signal
import unittest

import numpy  # noqa: F401  (the forks have it then)
import records
import torch
from programs import Programs, read_record

SCRIPT = """
import functools, json, os, random, signal, sys
import numpy, torch, isobit
from torch.utils.data import DataLoader, Dataset, RandomSampler, WeightedRandomSampler

WORKERS, CONTEXT, PERSISTENT, DRAWS, SAMPLER, ANEW, EPOCHS, SAVE, KILL = json.loads(os.environ["CASE"])

class Data(Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(53, 6), torch.randint(3, (53,))
        self.own = [random.Random(5), numpy.random.default_rng(6)]
        if "torch" in DRAWS:
            self.own.append(torch.Generator().manual_seed(7))

    def __len__(self):
        return 53

    def __getitem__(self, i):
        x = self.x[i]
        if os.environ.get("LOADED"):
            with open(os.environ["LOADED"], "a") as file:
                file.write(f"{i}\\n")
        if "process" in DRAWS:
            x = x + torch.rand(6) * (random.random() + float(numpy.random.rand()))
        if "own" in DRAWS:
            x = x * (self.own[0].random() + float(self.own[1].random()) + torch.rand(1, generator=(self.own + [None])[2]))
        return x, self.y[i]

def sampler(data, epoch):
    if SAMPLER == "own":
        return RandomSampler(data, generator=torch.Generator().manual_seed(4 + epoch))
    if SAMPLER == "replacement":
        return RandomSampler(data, replacement=True, num_samples=50)
    if SAMPLER == "weighted":
        return WeightedRandomSampler([1.0 + i % 3 for i in range(53)], 53)
    return None

def make(data, epoch=0):
    order = sampler(data, epoch)
    return DataLoader(data, batch_size=8, shuffle=order is None, sampler=order, num_workers=WORKERS,
                      multiprocessing_context=CONTEXT, persistent_workers=PERSISTENT)

def die(step):
    if step == KILL:
        os.kill(os.getpid(), signal.SIGKILL)

def main():
    with isobit.record("runs", every=4, resume=True) as run:
        isobit.seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.BatchNorm1d(9), torch.nn.Dropout(0.2), torch.nn.Linear(9, 3))
        optimizer = torch.optim.AdamW(model.parameters())
        data = Data()
        loader = make(data)
        saved = run.load()
        print("resumed" if saved else "new", run.steps)
        if saved:
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
        for epoch in run.epochs(EPOCHS):
            strength = random.random()
            run.log("train", strength=strength)
            with torch.no_grad():
                model.eval()(data.x[:2])
                model.train()
            if ANEW:
                loader = make(data, epoch)
            for x, y in run.batches(loader):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x) * (strength + random.random()), y).backward()
                optimizer.step()
                if SAVE and run.steps % SAVE == 0:
                    run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
                assert run.batch == (run.steps - 1) % 7 + 1
                die(run.steps)
            with torch.no_grad():
                run.log("test", accuracy=(model(data.x).argmax(1) == data.y).float().mean())
            if epoch == 2 and not (ANEW and SAMPLER):
                run.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
                die(-2)
    print(run.path)
    print(isobit.fingerprint(model))

if __name__ == "__main__":
    main()
"""


class Touches:
    """Unpickled, it makes a file."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


class Forked(Programs):
    def run_text(self, text, **environment):
        """(how it ended, what it printed; where it failed, its messages, too)"""
        self.write("train.py", text)
        status, printed, told = self.run_script("train.py", **environment)
        return status, printed + (told if status else "")

    def only(self):
        (path,) = (path for path in (self.folder / "runs").iterdir() if path.name[0] == "2")
        return path


class WithinEpochs(Forked):
    def case(self, *, workers=0, context=None, persistent=False, draws=("process", "own", "torch"), sampler="", anew=False, epochs=3, save=2,
             kill=0, **environment):
        case = json.dumps([workers, context, persistent, draws, sampler, anew, epochs, save, kill])
        return self.run_text(SCRIPT, CASE=case, **environment)

    def finished(self, result):
        status, printed = result
        self.assertEqual(status, 0, printed)
        path, weights = printed.splitlines()[-2:]
        record = read_record(self.folder / path)
        logs = {name: record[name] for name in ("steps.jsonl", "metrics.jsonl", "evaluations.jsonl")}
        (self.folder / "runs").rename(self.folder / f"runs-{len(list(self.folder.iterdir()))}")
        return logs, weights, printed.splitlines()[0]

    def killed(self, expect, **case):
        status, printed = self.case(**case)
        self.assertEqual(status, -signal.SIGKILL, printed)
        self.assertIn(expect, printed)

    def compare(self, **case):
        unbroken = self.finished(self.case(**case))
        self.assertEqual(unbroken[0]["steps.jsonl"].count(b"\n"), 21)
        self.killed("new 0", kill=5, **case)
        self.killed("resumed 4", kill=9, **case)
        self.killed("resumed 8", kill=17, **case)
        broken = self.finished(self.case(**case))
        self.assertEqual(broken[2], "resumed 16")
        self.assertEqual(broken[:2], unbroken[:2])

    def test_without_workers(self):
        self.compare()

    def test_forked_workers(self):
        self.compare(workers=2, context="fork")

    def test_spawned_workers(self):
        # Each takes a second to import torch: as few as show it. Stock PyTorch cannot send a torch.Generator to them.
        case = {"workers": 2, "persistent": True, "draws": ("process", "own"), "epochs": 2}
        unbroken = self.finished(self.case(context="fork", **case))
        self.killed("new 0", context="spawn", kill=5, **case)
        broken = self.finished(self.case(context="spawn", **case))
        self.assertEqual(broken[2], "resumed 4")
        self.assertEqual(broken[:2], unbroken[:2])

    def test_persistent_workers(self):
        self.compare(workers=3, context="fork", persistent=True)

    def test_samplers(self):
        for sampler, workers in (("own", 2), ("replacement", 2), ("weighted", 0)):
            with self.subTest(sampler=sampler):
                self.compare(sampler=sampler, workers=workers, context="fork" if workers else None)

    def test_loaders_made_anew_in_each_epoch(self):
        self.compare(workers=2, context="fork", persistent=True, anew=True)
        self.compare(sampler="own", anew=True)

    def test_at_the_end_of_an_epoch(self):
        # 7: the last batch of the epoch; evaluation and its metrics follow.
        persistent = {"workers": 3, "context": "fork", "persistent": True, "draws": ("process", "own")}
        for case in ({"save": 7}, {"save": 7, **persistent}, {"save": 7, **persistent, "anew": True}):
            unbroken = self.finished(self.case(**case))
            self.killed("new 0", **case, kill=7)
            self.killed("resumed 7", **case, kill=-2)  # saved between epochs
            broken = self.finished(self.case(**case))
            self.assertEqual(broken[2], "resumed 14")
            self.assertEqual(broken[:2], unbroken[:2])

    def test_a_checkpoint_is_no_code(self):
        """Workers send their states pickled. A checkpoint that came from elsewhere may hold such bytes, which are not read."""
        self.killed("new 0", workers=1, context="fork", kill=5)
        run = self.only()
        file = run / "checkpoints/step-4.pt"
        content = torch.load(file, weights_only=True)
        content["progress"]["loop"]["workers"] = {0: pickle.dumps(Touches(self.folder / "ran"))}
        torch.save(content, file)
        records.put_lines(run, "checkpoints.jsonl", [
            {**line, **dict(zip(("size", "sha256"), records.digest(run / line["file"]), strict=True))} if line["step"] == 4 else line
            for line in records.lines_of(run, "checkpoints.jsonl")])
        status, printed = self.case(workers=1, context="fork")
        self.assertFalse((self.folder / "ran").exists())
        self.assertEqual(status, 1, printed)
        self.assertIn("it holds no states of the loader's workers", printed)

    def test_what_was_loaded_is_not_loaded_again(self):
        self.killed("new 0", kill=5, save=5, LOADED="before.txt")
        self.finished(self.case(save=5, LOADED="after.txt"))
        before, after = ((self.folder / name).read_text().split() for name in ("before.txt", "after.txt"))
        self.assertEqual((len(before), len(after)), (40, 13 + 2 * 53))
        self.assertFalse(set(before) & set(after[:13]))


LOOP = """
import os, random, signal
import torch, isobit
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, Sampler, BatchSampler, SequentialSampler

class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.randn(24, 6))

class Lazy(Sampler):
    def __init__(self, data): self.data = data
    def __len__(self): return 24
    def __iter__(self):
        for _ in range(24):
            yield random.randrange(24)

def loss(batch):
    optimizer.zero_grad()
    model(batch[0] if isinstance(batch, (list, tuple)) else batch).square().mean().backward()

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

with isobit.record("runs", resume=True) as run:
    isobit.seed(1)
    data = TensorDataset(torch.randn(24, 6))
    model = torch.nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(data, 4, shuffle=True)
    state = {"model": model.state_dict()}
    if saved := run.load():
        model.load_state_dict(saved["model"])
    BODY
"""


class Refused(Forked):
    def told(self, body, expect=1, **environment):
        indented = "\n    ".join(body.strip().splitlines())
        if not environment or "NEW" in environment:
            shutil.rmtree(self.folder / "runs", ignore_errors=True)
        status, printed = self.run_text(LOOP.replace("BODY", indented), **environment)
        self.assertEqual(status, expect, printed)
        return printed

    def loop(self, loader, body="loss(batch)\noptimizer.step()"):
        return f"for epoch in run.epochs(2):\n    for batch in run.batches({loader}):\n" + "\n".join("        " + line for line in body.splitlines())

    def test_loaders(self):
        for loader, text in (("DataLoader(Stream(), 4)", "has an iterable dataset (Stream), whose own state cannot be known"),
                             ("[(torch.ones(1, 6),)]", "is not a torch.utils.data.DataLoader but a list"),
                             ("DataLoader(data, 4, sampler=Lazy(data))", "Lazy draws from the process' generators"),
                             ("DataLoader(data, 4, num_workers=2, in_order=False)", "in_order=False"),
                             ("DataLoader(data, batch_size=None, num_workers=2)", "workers and batch_size=None")):
            printed = self.told(self.loop(loader))
            self.assertIn(text, printed)
            self.assertIn("  do     ", printed)

    def test_what_comes_after_a_save(self):
        step = "loss(batch)\noptimizer.step()\n"
        for body, text in ((step + "run.save(state)\nrun.log('test', x=1)", "a run.log came after run.save, within the body of the loop"),
                           (step + "run.save(state)\nrandom.random()", "random numbers came after"),
                           (step + "run.save(state)\nloss(batch)\noptimizer.step()", "optimizer steps"),
                           ("loss(batch)\nrun.save(state)\noptimizer.step()", None),
                           (step + "loss(batch)\nrun.save(state)", "would lose the gradients"),
                           (step + "for other in run.batches(loader): run.save(state)", "within 2 loops")):
            printed = self.told(self.loop("loader", body))
            self.assertIn(text or "optimizer steps, batches came after run.save", printed)
        self.assertIn("a run.log came after run.save, within epoch 1",
                      self.told(self.loop("loader") + "\n    run.save(state)\n    run.log('test', x=1)"))
        self.assertIn("came before its loop", self.told(self.loop("loader").replace("    for batch", "    run.save(state)\n    for batch")))
        self.told(self.loop("loader", step + "optimizer.zero_grad()\nrun.save(state)"), expect=0, NEW="1")

    def test_where_loaders_are_made(self):
        step, head = "loss(batch)\noptimizer.step()", "for epoch in run.epochs(2):\n    "
        loop = "for batch in run.batches(loader):\n        loss(batch)\n        optimizer.step()\n    "
        twice = "DataLoader(data, 4, generator=torch.Generator().manual_seed(1))"
        drawing = "DataLoader(data, 4, shuffle=True, generator=torch.Generator())"
        persistent = "DataLoader(data, 4, shuffle=True, num_workers=1, persistent_workers=True)"
        for loader in (drawing, persistent):
            for body, text in (
                    (f"{head}loader = loader if epoch == 2 else {loader}\n    {loop}", "was made in epoch 1 and is used beyond it"),
                    (self.loop("loader", f"{step}\nother = other if run.batch > 1 else {loader}\nfor b in run.batches(other): pass"),
                     "was made in the body of a loop over run.batches and is used beyond it"),
                    (f"loader = {loader}\nfor epoch in range(2):\n    {loop}run.save(state)", "does not say what its epochs are")):
                self.assertIn(text, self.told(body))
        anew = f"{head}loader = {drawing}\n    {loop}"
        self.assertIn("was made in epoch 1 and holds generators that were drawn from", self.told(f"{anew}run.save(state)"))
        inner = f"loss(batch)\noptimizer.step()\nfor b in run.batches({drawing}): pass\nrun.save(state)"
        self.assertIn("was made in the body of a loop", self.told(self.loop("loader", inner)))
        self.assertIn("within loop 2 over run.batches of epoch 1", self.told(f"{head}{loop}for batch in run.batches(loader): run.save(state)"))
        for body in (anew.replace("step()", "step()\n        run.save(state)"), f"{head}loader = {persistent}\n    {loop}run.save(state)",
                     f"{head}other = {persistent}\n    {loop}".replace("loss", "list(run.batches(other))\n        loss"),
                     f"loader = {drawing}\nfor run.epoch in (1, 2):\n    {loop}run.save(state)",
                     f"other = {twice}\n{head}loader = other\n    {loop}run.save(state)"):
            self.told(body, expect=0, NEW="1")

    def test_what_goes_on_elsewhere(self):
        save = "\nif 'KILL' in os.environ and run.steps == 8: run.save(state); kill()"
        body = self.loop("loader", "loss(batch)\noptimizer.step()" + save)
        killed = -signal.SIGKILL
        for name, (before, after), text in (
                ("A", ("for epoch in run.epochs(2)", "for run.epoch in range(1, 3)"), "resumes after batch 2 of epoch 2, but run.epoch is 1"),
                ("B", ("run.batches(loader)", "loader"), "a step came before that loop"),
                ("C", ("run.batches(loader)", "run.batches(DataLoader(data, 3))"), "this is one over 24 samples, batch_size=3"),
                ("D", ("shuffle=True", ("sampler=torch.utils.data.RandomSampler(data, generator=torch.Generator().manual_seed("
                                        "0 if 'D' in os.environ else 1))")), None),
                ("E", ("run.load()", "'E' not in os.environ and run.load()"), "did not call run.load() before run.epochs()")):
            text_now = LOOP.replace("BODY", "\n    ".join(body.splitlines()))
            both = text_now.replace(before, f"{after}") if name in "DE" else None
            for path in (self.folder / "runs").glob("*") if (self.folder / "runs").exists() else ():
                if path.name[0] == "2":
                    path.rename(self.folder / f"old-{path.name}")
            status, printed = self.run_text(both or text_now, KILL="1")
            self.assertEqual(status, killed, printed)
            if both is None:  # as if the script had said so from the beginning
                changed = text_now.replace(before, after)
                sources = self.only() / "sources.json"
                state = self.only() / "state.json"
                content = json.loads(sources.read_text())
                content["files"]["train.py"] = changed
                sources.write_text(json.dumps(content))
                told = json.loads(state.read_text())
                told["inputs"]["sources.json"] = {
                    "size": sources.stat().st_size, "sha256": hashlib.sha256(sources.read_bytes()).hexdigest()}
                state.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")  # its one spelling
            status, printed = self.run_text(both or changed, **{name: "1"})
            if text is None:
                self.assertEqual(status, 0, printed)  # the generator's own state is in the checkpoint, whatever its seed
            else:
                self.assertEqual(status, 1, printed)
                self.assertIn(text, printed)

    def test_a_shrunken_data_set(self):
        body = self.loop("DataLoader(data, batch_sampler=BatchSampler(SequentialSampler(range(int(os.environ['COUNT']))), 4, False))",
                         "loss(batch)\noptimizer.step()\nif os.environ['COUNT'] == '24' and run.steps == 5: run.save(state); kill()")
        self.told(body, expect=-signal.SIGKILL, COUNT="24")
        self.assertIn("gave another order than before", self.told(body, COUNT="12"))


if __name__ == "__main__":
    unittest.main()
