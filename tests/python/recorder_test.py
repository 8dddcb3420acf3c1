"""Records of trainers: names in the log, whose weights count, what a record shows of itself, callbacks of other libraries."""

import contextlib
import hashlib
import importlib.util
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from importlib.machinery import ModuleSpec

import torch
from cases import Case, small_model

import isobit


def step(*models):
    optimizer = torch.optim.SGD([parameter for model in models for parameter in model.parameters()], lr=0.1)
    sum(model(torch.ones(2, 20)).sum() for model in models).backward()
    optimizer.step()


class Folder(Case):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runs = pathlib.Path(folder.name) / "runs"

    def metrics(self, run):
        return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]

    def weights(self, run):
        return json.loads((run.path / "state.json").read_text())["weights"]


class Record(Folder):
    def test_names(self):
        with isobit.record(self.runs) as run:
            run.log("val/set 1", **{"top-5 accuracy (%)": 99, "loss[0]": torch.ones(1), "a": True})
            run.log(loss=0.5)
        self.assertEqual(self.metrics(run), [
            {"step": 0, "epoch": 1, "set": "val/set 1", "values": {"a": 1.0, "loss[0]": 1.0, "top-5 accuracy (%)": 99.0}},
            {"step": 0, "epoch": 1, "set": "train", "values": {"loss": 0.5}}])

    def test_predictions(self):
        with isobit.record(self.runs, predictions=True) as run:
            run.predictions("val", torch.tensor([2, 0]), [1, 0])
            run.predictions("val", [0], torch.tensor([3], dtype=torch.uint8))
            for classes, targets, because in (
                    (torch.ones(2), [1, 0], "float32"), ([[1]], [1], "shape"), ([], [], "0 classes|float32"), ([-1], [1], "lowest is -1"),
                    ([1, 2], [1], "2 classes for 1 targets"), ([True], [1], "bool")):
                with self.assertRaisesRegex(ValueError, because):
                    run.predictions("val", classes, targets)
            with self.assertRaisesRegex(ValueError, "cannot be a name"):
                run.predictions(" val", [1], [1])
        lines = [json.loads(line) for line in (run.path / "predictions.jsonl").read_text().splitlines()]
        digest = hashlib.sha256((1).to_bytes(8, "little") + bytes(8)).hexdigest()
        self.assertEqual(lines[0], {"step": 0, "epoch": 1, "set": "val", "predictions": [2, 0], "targets": digest})
        self.assertEqual((len(lines), lines[1]["predictions"]), (2, [0]))
        with isobit.record(self.runs) as run, self.assertRaisesRegex(isobit.RecordError, "predictions=True"):
            run.predictions("val", [1], [1])
        self.assertFalse((run.path / "predictions.jsonl").exists())

    def test_whose_weights(self):
        """The record has what isobit.fingerprint gives: of one model, of several by name; by number where nobody said."""
        one, other = small_model(), small_model()
        with isobit.record(self.runs) as run:
            step(one)
        self.assertEqual(self.weights(run), isobit.fingerprint(one))
        with isobit.record(self.runs) as run:
            step(one, other)
        self.assertEqual(self.weights(run), isobit.fingerprint({"0": one, "1": other}))
        with isobit.record(self.runs) as run:
            run.track(critic=other, generator=one)
            step(one, other)
        self.assertEqual(self.weights(run), isobit.fingerprint({"generator": one, "critic": other}))
        self.assertNotEqual(self.weights(run), isobit.fingerprint({"generator": other, "critic": one}))
        whole = torch.nn.ModuleDict({"a": one, "b": other})
        with isobit.record(self.runs, every=1) as run:  # its parts are called, itself never
            run.track(whole)
            step(one)
            step(other)
        self.assertEqual(self.weights(run), isobit.fingerprint(whole))
        lines = [json.loads(line) for line in (run.path / "steps.jsonl").read_text().splitlines()]
        self.assertEqual(f"{isobit.contract_version}:{lines[-1]['weights']}", isobit.fingerprint(whole))
        with isobit.record(self.runs) as run:
            run.track(only=one)
        self.assertEqual(self.weights(run), isobit.fingerprint({"only": one}))

    def test_track_wants_modules_and_to_be_first(self):
        model = small_model()
        with self.assertRaises(isobit.RecordError):
            isobit.record(self.runs).track(model)
        with isobit.record(self.runs) as run:
            for arguments, named in (((), {}), ((model,), {"more": model}), ((3,), {}), ((), {"a\n": model}), ((), {"a": None})):
                with self.subTest(arguments=arguments, named=named), self.assertRaises(ValueError):
                    run.track(*arguments, **named)
            step(model)
            with self.assertRaisesRegex(isobit.RecordError, "after step 1"):
                run.track(model)

    def test_resumed_with_names(self):
        def program(stop):
            isobit.seed(2)
            one, other = small_model(), small_model()
            optimizer = torch.optim.SGD([*one.parameters(), *other.parameters()], lr=0.1)
            with isobit.record(self.runs, "pair", resume=True) as run:
                run.track(one=one, other=other)
                if saved := run.load():
                    one.load_state_dict(saved["one"])
                    other.load_state_dict(saved["other"])
                for _ in run.epochs(3):
                    optimizer.zero_grad()
                    (one(torch.ones(2, 20)).sum() + other(torch.ones(2, 20)).sum()).backward()
                    optimizer.step()
                    run.save({"one": one.state_dict(), "other": other.state_dict()})
                    if run.steps == stop:
                        raise KeyboardInterrupt
            return run, isobit.fingerprint({"one": one, "other": other})

        whole, expected = program(None)
        with contextlib.suppress(KeyboardInterrupt):
            program(2)
        resumed, weights = program(None)
        self.assertEqual((weights, self.weights(resumed), self.weights(whole)), (expected,) * 3)

    def test_what_it_shows(self):
        run = isobit.record(self.runs / "<b>")
        self.assertRegex(repr(run), r"\A<isobit.record run none yet, state not begun, steps 0, epoch 1>\Z")
        with run:
            step(small_model())
            self.assertIn(f"run {run.id}, state running, steps 1", repr(run))
        self.assertIn("state finished", repr(run))
        self.assertIn(f"weights {self.weights(run)}", repr(run))
        shown = run._repr_html_()
        self.assertIn("&lt;b&gt;", shown)
        self.assertNotIn("<b>", shown)
        self.assertIn(self.weights(run), shown)
        with contextlib.suppress(ZeroDivisionError), isobit.record(self.runs) as run:
            raise ZeroDivisionError
        self.assertIn("state failed", repr(run))

    def test_without_the_libraries(self):
        for name in ("lightning", "transformers"):
            program = ("import sys, importlib.util as u\nfound = u.find_spec\n"
                       "u.find_spec = lambda n, *a: None if n in ('lightning', 'pytorch_lightning', 'transformers') else found(n, *a)\n"
                       f"import isobit\ntry:\n    isobit.{name}\nexcept ImportError as error:\n    print(error)\n"
                       "assert 'torch' not in sys.modules")
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
            self.assertIn(f"(pip install {name})", done.stdout, done.stderr)


def stand_in(name, **content):
    module = types.ModuleType(name)
    module.__spec__, module.__path__ = ModuleSpec(name, None), []
    vars(module).update(content)
    return module


class Callbacks(Folder):
    """With stand-ins for the libraries, which need not be there: what their trainers call, in their order."""

    def recorder(self, name, run, **modules):
        before = {key: sys.modules.get(key) for key in [*modules, f"isobit.{name}"]}
        sys.modules.pop(f"isobit.{name}", None)
        sys.modules.update(modules)
        try:
            return importlib.import_module(f"isobit.{name}").Recorder(run)
        finally:
            for key, module in before.items():
                sys.modules.pop(key, None)
                if module is not None:
                    sys.modules[key] = module

    def test_transformers(self):
        modules = {"transformers": stand_in("transformers"),
                   "transformers.trainer_callback": stand_in("transformers.trainer_callback", TrainerCallback=object)}
        model = small_model()
        with isobit.record(self.runs) as run:
            recorder = self.recorder("transformers", run, **modules)
            state = types.SimpleNamespace(epoch=0)
            recorder.on_train_begin(None, state, None, model=model)
            recorder.on_epoch_begin(None, state, None)
            step(model[0])
            recorder.on_log(None, state, None, logs={"loss": 0.5, "grad_norm": torch.ones(()).item(), "learning_rate": 1e-3, "epoch": 0.5})
            state.epoch = 1.0
            recorder.on_epoch_begin(None, state, None)
            recorder.on_log(None, state, None, logs={"eval_loss": 0.25, "eval_runtime": 3.1, "eval_samples_per_second": 8.0, "epoch": 1.0})
            recorder.on_log(None, state, None, logs={"train_runtime": 9.0, "train_loss": 0.4, "total_flos": 7, "epoch": 2.0})
            recorder.on_log(None, state, None, logs={"eval_runtime": 9.0})
            recorder.on_log(None, state, None)
        self.assertEqual([(line["step"], line["epoch"], line["set"], line["values"]) for line in self.metrics(run)], [
            (1, 1, "train", {"grad_norm": 1.0, "learning_rate": 1e-3, "loss": 0.5}), (1, 2, "eval", {"eval_loss": 0.25}),
            (1, 2, "train", {"total_flos": 7.0, "train_loss": 0.4})])
        self.assertEqual(self.weights(run), isobit.fingerprint(model))

    def test_lightning(self):
        modules = {"lightning": stand_in("lightning"), "lightning.pytorch": stand_in("lightning.pytorch", Callback=object)}
        model = small_model()
        optimizers = [torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.5}, {"params": model[3].parameters(), "lr": 0.25}])]
        trainer = types.SimpleNamespace(callback_metrics={}, sanity_checking=True, current_epoch=0, optimizers=optimizers)
        with isobit.record(self.runs) as run:
            recorder = self.recorder("lightning", run, **modules)
            recorder.on_fit_start(trainer, model)
            recorder.on_validation_start(trainer, model)
            trainer.callback_metrics["val_loss"] = torch.tensor(9.0)
            recorder.on_validation_end(trainer, model)  # the sanity check: not of the training
            trainer.callback_metrics.clear()
            trainer.sanity_checking = False
            for trainer.current_epoch in (0, 1):
                recorder.on_train_epoch_start(trainer, model)
                recorder.on_before_optimizer_step(trainer, model, optimizers[0])
                trainer.callback_metrics["loss_step"] = torch.tensor(0.5)
                recorder.on_validation_start(trainer, model)
                trainer.callback_metrics["val_loss"] = torch.tensor(0.25)
                recorder.on_validation_end(trainer, model)
                trainer.callback_metrics["loss"] = torch.tensor(0.75)
                recorder.on_train_epoch_end(trainer, model)
            trainer.callback_metrics = {"test_loss": torch.tensor(1.0)}
            recorder.on_test_end(trainer, model)
        train = {"loss": 0.75, "loss_step": 0.5, "lr/group0": 0.5, "lr/group1": 0.25}
        self.assertEqual([(line["epoch"], line["set"], line["values"]) for line in self.metrics(run)], [
            (1, "val", {"val_loss": 0.25}), (1, "train", train), (2, "val", {"val_loss": 0.25}), (2, "train", train),
            (2, "test", {"test_loss": 1.0})])
        self.assertEqual(self.weights(run), isobit.fingerprint(model))

    @unittest.skipIf(importlib.util.find_spec("transformers") is None or importlib.util.find_spec("accelerate") is None,
                     "transformers and accelerate are not installed")
    def test_transformers_own_trainer(self):
        import transformers

        import isobit.transformers

        torch.manual_seed(1)
        model = transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, max_position_embeddings=4))
        rows = [{"input_ids": torch.tensor([1, 2, 3, i % 8]), "labels": torch.tensor(i % 2)} for i in range(16)]
        options = transformers.TrainingArguments(
            str(self.runs / "out"), num_train_epochs=2, per_device_train_batch_size=4, logging_steps=2, eval_strategy="epoch",
            save_strategy="no", use_cpu=True, report_to=[], disable_tqdm=True)
        with contextlib.redirect_stdout(io.StringIO()), isobit.record(self.runs) as run:
            transformers.Trainer(model, options, train_dataset=rows, eval_dataset=rows[:4],
                                 callbacks=[isobit.transformers.Recorder(run)]).train()
        lines = self.metrics(run)
        self.assertEqual([(line["step"], line["epoch"], line["set"]) for line in lines],
                         [(2, 1, "train"), (4, 1, "train"), (4, 1, "eval"), (6, 2, "train"), (8, 2, "train"), (8, 2, "eval"), (8, 2, "train")])
        self.assertLessEqual({"loss", "grad_norm", "learning_rate"}, set(lines[0]["values"]))
        self.assertFalse([name for line in lines for name in line["values"] if "second" in name or "runtime" in name])
        self.assertEqual(self.weights(run), isobit.fingerprint(model))


if __name__ == "__main__":
    unittest.main()
