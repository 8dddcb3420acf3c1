"""run.steps: grains in any order give one result, what couples them is refused, and what fails leaves nothing behind."""

import json
import os
import pathlib
import random
import tempfile
import unittest
from collections import OrderedDict

import numpy
import torch
import torch.nn.functional as F
from cases import Case
from torch import nn

import isobit
from isobit._base._sums import ExactSum
from isobit._loops import _coupling

X, Y = torch.randn(53, 1, 6, 6, generator=torch.Generator().manual_seed(1)), torch.arange(53) % 3
DATA = X, Y
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Twice(nn.Module):
    """Its batch norm is called twice, and again in the backward of a checkpoint."""

    def __init__(self, checkpoint=False):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, momentum=0.3), nn.Linear(64, 3)
        self.checkpoint = checkpoint

    def part(self, x):
        return F.dropout(self.norm(F.relu(self.norm(self.conv(x)))), 0.3, self.training)

    def forward(self, x):
        if self.checkpoint:
            x = x.detach().requires_grad_()  # what the reentrant one needs
            return self.out(torch.utils.checkpoint.checkpoint(self.part, x, use_reentrant=self.checkpoint == "reentrant").flatten(1))
        return self.out(self.part(x).flatten(1))


def summed(model, x, y):
    return F.cross_entropy(model(x), y, reduction="sum")


class Grains(Case):
    def setUp(self):
        super().setUp()
        temporary = tempfile.TemporaryDirectory(prefix="isobit-test-", dir=MEMORY)
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def train(self, make=Twice, loss=summed, order=None, samples=DATA, clip=None, **settings):
        """What a training leaves: fingerprint, lines, losses, buffers."""
        settings = {"batch": 16, "grain": 5, "epochs": 2, **settings}
        with isobit.record(self.folder, every=1) as run:
            isobit.seed(7)
            model = make()
            optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
            losses = []
            for step in run.steps(samples, **settings):
                for batch in step.grains(order and order(step.grain_count)):
                    step.backward(loss(model, *batch))
                if clip:
                    nn.utils.clip_grad_norm_(step.gradients(), clip)
                step.finish(optimizer)
                losses.append(step.loss)
            drawn = [*torch.rand(3).tolist(), random.random(), float(numpy.random.rand())]
        lines = [json.loads(line) for line in (run.path / "steps.jsonl").read_text().splitlines()]
        return isobit.fingerprint(model), lines, losses, dict(model.state_dict()), drawn

    def assert_same(self, a, b):
        self.assertEqual((a[0], a[1], a[2], a[4]), (b[0], b[1], b[2], b[4]))

    # ---- one result

    def test_any_order_of_grains_gives_the_same_bits(self):
        expected = self.train()
        for order in (lambda n: range(n)[::-1], lambda n: random.Random(3).sample(range(n), n)):
            self.assert_same(self.train(order=order), expected)
        self.assertEqual(len(expected[1]), 8)
        self.assertEqual(len({line["batch"] for line in expected[1]}), 8)
        self.assertNotEqual(self.train(grain=8)[0], expected[0], "a grain is a part of the result")

    def test_statistics_are_applied_in_grain_order_and_counted(self):
        state = self.train(epochs=1)[3]
        self.assertEqual(int(state["norm.num_batches_tracked"]), 2 * (3 * 4 + 1))  # 16 = 5 + 5 + 5 + 1, the last step 5
        for checkpoint in (True, "reentrant"):
            again = self.train(lambda checkpoint=checkpoint: Twice(checkpoint), epochs=1)[3]
            self.assertEqual(int(again["norm.num_batches_tracked"]), 4 * (3 * 4 + 1), "again in the backward")
            self.assertTrue(torch.equal(again["conv.weight"], state["conv.weight"]))

    def test_statistics_are_those_of_the_contract(self):
        with isobit.record(self.folder) as run:
            isobit.seed(7)
            norm = nn.BatchNorm1d(3, momentum=0.3)
            optimizer = torch.optim.SGD(norm.parameters(), 0.1)
            x = torch.randn(10, 3)
            mean, variance = norm.running_mean.clone(), norm.running_var.clone()
            for step in run.steps((x,), batch=10, grain=4, shuffle=False):
                for (part,) in step.grains([2, 0, 1]):
                    step.backward(norm(part).square().sum())
                self.assertTrue(torch.equal(norm.running_mean, mean), "not before the step is finished")
                step.finish(optimizer)
            for part in (x[:4], x[4:8], x[8:]):
                fresh = nn.BatchNorm1d(3, momentum=1.0)
                fresh.running_var.zero_()
                fresh(part)
                mean = mean * 0.7 + fresh.running_mean * 0.3
                variance = variance * 0.7 + fresh.running_var * 0.3
        self.assertTrue(torch.equal(norm.running_mean, mean) and torch.equal(norm.running_var, variance))

    def test_one_grain_is_an_ordinary_loop(self):
        for loss, mean in ((summed, False), (lambda model, x, y: F.cross_entropy(model(x), y, label_smoothing=0.1), True)):
            make = lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
            with isobit.record(self.folder) as run:
                isobit.seed(7)
                model = make()
                optimizer = torch.optim.AdamW(model.parameters())
                for step in run.steps(DATA, batch=20, shuffle=False):
                    for x, y in step.grains():
                        step.backward(loss(model, x, y), mean=mean)
                    step.finish(optimizer)
            isobit.seed(7)
            with isobit.enabled():
                isobit.seed(7)
                plain = make()
                optimizer = torch.optim.AdamW(plain.parameters())
                for first in (0, 20, 40):
                    x, y = X[first:first + 20], Y[first:first + 20]
                    optimizer.zero_grad()
                    (loss(plain, x, y) if mean else F.cross_entropy(plain(x), y)).backward()
                    optimizer.step()
                self.assertEqual(isobit.fingerprint(model), isobit.fingerprint(plain))

    def test_weights_are_what_the_loss_is_divided_by(self):
        counts = [1 + i % 4 for i in range(53)]
        make = lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
        asked = []

        def count(i):
            asked.append(i)
            return counts[i]

        settings = {"batch": 53, "epochs": 1, "shuffle": False}
        loss = lambda model, x, y: F.cross_entropy(model(x), y, reduction="sum")
        results = [self.train(make, loss, weights=weights, grain=11, **settings) for weights in (counts, torch.tensor(counts), count)]
        self.assertEqual(len({result[0] for result in results}), 1)
        self.assertEqual(asked, list(range(53)))
        with isobit.enabled():
            isobit.seed(7)
            total = loss(make(), X, Y)
            self.assertAlmostEqual(results[0][2][0], total.item() / sum(counts), places=5)
        for bad in ([1.0] * 52, [-1.0] * 53, [0.0] * 53, [float("nan")] * 53):
            with self.assertRaises(ValueError):
                self.train(make, loss, weights=bad, **settings)

    def test_a_datasets_random_numbers_follow_from_the_sample(self):
        class Augmented(torch.utils.data.Dataset):
            def __len__(self):
                return 53

            def __getitem__(self, i):
                return X[i] + torch.rand(1) + random.random() + float(numpy.random.rand()), Y[i]

        expected = self.train(samples=Augmented())
        self.assert_same(self.train(samples=Augmented(), order=lambda n: range(n)[::-1]), expected)
        self.assertNotEqual(expected[0], self.train()[0])
        plain = torch.utils.data.Subset(torch.utils.data.TensorDataset(*DATA), range(53))
        self.assert_same(self.train(samples=plain), self.train())
        self.assert_same(self.train(samples=torch.utils.data.TensorDataset(*DATA)), self.train())
        collate = lambda parts: (torch.stack([x for x, _ in parts]), torch.tensor([int(y) for _, y in parts]))
        self.assert_same(self.train(samples=list(zip(X, Y, strict=True)), collate_fn=collate), self.train())

    def test_clipping_sees_the_sum_of_the_grains(self):
        self.assert_same(self.train(clip=1e9), self.train())
        self.assertNotEqual(self.train(clip=0.1)[0], self.train()[0])
        self.assert_same(self.train(clip=0.1, order=lambda n: range(n)[::-1]), self.train(clip=0.1))

    def test_torchscript(self):
        class Norm(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.out = nn.BatchNorm1d(36), nn.Linear(36, 3)

            def forward(self, x):
                later = torch.jit.fork(self.norm, x.flatten(1))
                return self.out(torch.jit.wait(later))

        make = lambda: torch.jit.script(Norm())
        expected = self.train(make, grain=6)
        self.assert_same(self.train(make, grain=6, order=lambda n: range(n)[::-1]), expected)
        self.assertEqual(int(expected[3]["norm.num_batches_tracked"]), 2 * (3 * 3 + 1))
        self.assertFalse(torch.equal(expected[3]["norm.running_mean"], torch.zeros(36)))

    def test_parameters_that_some_grains_or_none_reach(self):
        class Sometimes(nn.Module):
            def __init__(self):
                super().__init__()
                self.always, self.sometimes, self.never = (nn.Linear(36, 3) for _ in range(3))

            def forward(self, x):
                x = x.flatten(1)
                return self.always(x) + (self.sometimes(x) if bool(x[0, 0] > 0) else 0)

        torch.manual_seed(0)
        with isobit.record(self.folder) as run:
            model = Sometimes()
            before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for step in run.steps(DATA, batch=53, grain=4, seed=2):
                for x, y in step.grains():
                    step.backward(summed(model, x, y))
                step.gradients()
                self.assertIsNone(model.never.weight.grad)
                self.assertTrue(model.sometimes.weight.grad.any())
                step.finish(optimizer)
            self.assertTrue(all(parameter.grad is None for parameter in model.parameters()))
            self.assertTrue(torch.equal(model.never.weight, before["never.weight"]))
            self.assertFalse(torch.equal(model.sometimes.weight, before["sometimes.weight"]))

    def test_exact_sums_merge_in_any_order(self):
        parts = [torch.randn(100, generator=torch.Generator().manual_seed(i)) * 2.0**(20 * (i % 4) - 40) for i in range(8)]
        results = []
        for cut, order in ((0, range(8)), (3, range(8)), (5, range(7, -1, -1))):
            sums = [ExactSum(parts[0]), ExactSum(parts[0])]
            for place, i in enumerate(order):
                self.assertTrue(sums[place < cut].add(parts[i]))
            sums[0].merge(sums[1])
            results.append(torch.empty(100))
            self.assertTrue(sums[0].result(results[-1]))
        exact = torch.stack(parts).double().sum(0)
        self.assertTrue(all(torch.equal(result, results[0]) for result in results))
        self.assertTrue(torch.allclose(results[0].double(), exact, rtol=1e-7, atol=0))
        self.assertFalse(sums[0].add(torch.full((100,), float("nan"))))
        with self.assertRaises(TypeError):
            sums[0].add(torch.zeros(99))

    # ---- what is refused

    def refused(self, make=Twice, loss=summed, **settings):
        with self.assertRaises(isobit.RefusedError) as caught:
            self.train(make, loss, **settings)
        self.assertFalse(isobit.is_enabled())
        return str(caught.exception)

    def test_losses_that_couple_the_samples(self):
        logits = torch.randn(4, 3, requires_grad=True)
        y, p = torch.tensor([0, 1, 2, 0]), torch.rand(4, 3)
        sums = {
            "cross entropy": F.cross_entropy(logits, y, reduction="sum"),
            "smoothed": F.cross_entropy(logits, y, reduction="sum", label_smoothing=0.1),
            "of two": F.mse_loss(logits, p, reduction="sum") * 0.5 + 2 * F.cross_entropy(logits, y, reduction="sum") - 1,
            "per sample": ((logits - p)**2).mean(1).sum(),
            "losses": F.cross_entropy(logits, y, reduction="none").sum(),
            "weighted": (F.cross_entropy(logits, y, reduction="none") * torch.rand(4)).sum() / 3,
            "dot": F.cross_entropy(logits, y, reduction="none") @ torch.rand(4),
            "stacked": torch.stack([row.square().sum() for row in logits]).sum().reshape(1),
            "one by one": sum(row.square().mean() for row in logits),
        }
        coupled = {
            "MeanBackward0": [F.mse_loss(logits, p, reduction="none").mean(), logits.mean() * 3, 1 + logits.square().mean()],
            "NllLossBackward0": [F.cross_entropy(logits, y), F.cross_entropy(logits, y) + logits.sum()],
            "MseLossBackward0": [F.mse_loss(logits, p), -F.mse_loss(logits, p).unsqueeze(0)],
            "BinaryCrossEntropyBackward0": [F.binary_cross_entropy(logits.sigmoid(), p)],
            "StdBackward0": [logits.std()],
            "LogBackward0": [logits.exp().sum().log()],
            "MaxBackward1": [logits.max()],
            "MulBackward0": [logits.sum() * logits.sum()],
            "DivBackward0": [logits.sum() / logits.square().sum(), F.kl_div(logits, p, reduction="batchmean")],
        }
        sums.pop("one by one")  # a mean of a sample's own is not known from one over samples where it is taken row by row
        for name, loss in sums.items():
            with self.subTest(name):
                _coupling.require_sum(loss, 4, alone=False)
        for name, losses in coupled.items():
            for loss in losses:
                with self.subTest(name), self.assertRaises(isobit.RefusedError) as caught:
                    _coupling.require_sum(loss, 4, alone=False)
                self.assertIn(f"backward of {name} couples", str(caught.exception))
                self.assertEqual(caught.exception.operator, name)
        _coupling.require_sum(F.cross_entropy(logits[:1], y[:1]), 1, alone=False)  # one sample: nothing to couple

    def test_a_mean_is_refused_where_it_stands(self):
        text = self.refused(loss=lambda model, x, y: F.cross_entropy(model(x), y))
        self.assertIn("NllLossBackward0", text)
        self.assertIn("reduction='sum'", text)
        self.assertIn("grain=batch", text)
        text = self.refused(loss=lambda model, x, y: F.cross_entropy(model(x), y), grain=16)
        self.assertIn("mean=True", text)

    def test_a_whole_batchs_loss_takes_one_grain(self):
        def run(grain):
            with isobit.record(self.folder) as run:
                isobit.seed(7)
                model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                for step in run.steps(DATA, batch=16, grain=grain):
                    for x, _y in step.grains():
                        step.backward(model(x).std(), mean=True)
                    step.finish(optimizer)

        run(16)
        with self.assertRaises(isobit.RefusedError) as caught:
            run(8)
        self.assertIn("StdBackward0 as the mean of a step of 2 grains", str(caught.exception))

    def test_modules_whose_grains_depend_on_each_other(self):
        class Average(nn.Module):
            def __init__(self):
                super().__init__()
                self.out = nn.Linear(36, 3)
                self.register_buffer("average", torch.zeros(3))

            def forward(self, x):
                y = self.out(x.flatten(1))
                self.average.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
                return y

        self.assertIn("buffer average is written", self.refused(Average))
        self.train(Average, grain=16)
        spectral = lambda: nn.Sequential(nn.Flatten(), nn.utils.parametrizations.spectral_norm(nn.Linear(36, 3)))
        self.assertIn("_u is written", self.refused(spectral))
        instance = lambda: nn.Sequential(nn.InstanceNorm2d(1, track_running_stats=True), nn.Flatten(), nn.Linear(36, 3))
        text = self.refused(instance)
        self.assertIn("aten::instance_norm", text)
        self.assertIn("track_running_stats=False", text)
        self.train(instance, grain=16)

    def test_a_cumulative_average_counts_calls_so_the_order_matters(self):
        make = lambda: nn.Sequential(nn.BatchNorm2d(1, momentum=None), nn.Flatten(), nn.Linear(36, 3))
        first, second = self.train(make), self.train(make)
        self.assert_same(first, second)
        self.assertIn("momentum=None", self.refused(make, order=lambda n: range(n)[::-1]))

    def test_what_is_not_finite_changes_nothing(self):
        for where, value, grain in (("gradient", float("inf"), 5), ("gradient", float("inf"), 16), ("sum", 3e38, 5)):
            with self.subTest(where, grain=grain), isobit.record(self.folder) as run:
                isobit.seed(7)
                model = Twice()
                optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
                before, message = {}, ""
                try:
                    for step in run.steps(DATA, batch=16, grain=grain):
                        if step.number == 2:
                            before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
                        for index, (x, y) in enumerate(step.grains()):
                            loss = summed(model, x, y)
                            if step.number == 2 and (where == "sum" or index == step.grain_count - 1):
                                loss = loss + ((model.out.bias - model.out.bias.detach()) * value * step.weight).sum()
                            step.backward(loss)
                        step.finish(optimizer)
                except RuntimeError as error:
                    message = str(error)
                self.assertIn("the gradient of out.bias is not finite in step 2", message)
                if where == "gradient":
                    self.assertIn(f"grain {step.grain_count - 1} (loss ", message)
                else:
                    self.assertIn("exceeds float32's range", message)
                self.assertEqual(isobit.fingerprint(model), isobit.fingerprint(OrderedDict(before)))
                self.assertTrue(all(parameter.grad is None for parameter in model.parameters()))
                self.assertEqual(run.steps, 1)
                model(X)
                self.assertFalse(torch.equal(model.norm.running_mean, before["norm.running_mean"]), "the scope has ended")

    def misuse(self, kind, text, body, **settings):
        with self.subTest(text), isobit.record(self.folder) as run:
            isobit.seed(7)
            model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            with self.assertRaises(kind) as caught:
                for step in run.steps(DATA, **{"batch": 16, "grain": 8, **settings}):
                    body(run, step, model, optimizer)
            self.assertIn(text, str(caught.exception))

    def test_calls_that_do_not_follow_each_other(self):
        def whole(step, model):
            for x, y in step.grains():
                step.backward(summed(model, x, y))

        def no_backward(_run, step, model, _optimizer):
            for x, _y in step.grains():
                model(x)

        def two_backwards(_run, step, model, _optimizer):
            for x, y in step.grains():
                step.backward(summed(model, x, y))
                step.backward(summed(model, x, y))

        def plain_backward(_run, step, model, optimizer):
            for x, y in step.grains():
                step.backward(summed(model, x, y))
            summed(model, x, y).backward()
            step.finish(optimizer)

        def foreign(_run, step, model, optimizer):
            other = nn.Parameter(torch.ones(3))
            optimizer.add_param_group({"params": [other]})
            other.grad = torch.ones(3)
            whole(step, model)
            step.finish(optimizer)

        def left(_run, step, model, optimizer):
            for x, y in step.grains():
                step.backward(summed(model, x, y))
                break
            step.finish(optimizer)

        self.misuse(isobit.RecordError, "ended without step.backward", no_backward)
        self.misuse(isobit.RecordError, "step.backward is called once", two_backwards)
        self.misuse(isobit.RecordError, "1.weight has a gradient from elsewhere", lambda run, step, model, optimizer: (
            summed(model, X, Y).backward(), whole(step, model)))
        def plain_tensor(_run, step, model, optimizer):
            scale = torch.ones(3, requires_grad=True)
            optimizer.add_param_group({"params": [scale]})
            for x, y in step.grains():
                step.backward(F.cross_entropy(model(x) * scale, y, reduction="sum"))
            step.finish(optimizer)

        self.misuse(isobit.RecordError, "has a gradient that no grain gave", plain_tensor)
        self.misuse(isobit.RecordError, "has a gradient that no grain gave", foreign)
        self.misuse(isobit.RecordError, "has a gradient from elsewhere", plain_backward)
        self.misuse(isobit.RecordError, "2 of them were not computed", left)
        self.misuse(isobit.RecordError, "was not finished", lambda run, step, model, optimizer: whole(step, model))
        self.misuse(isobit.RecordError, "step.grains was called before", lambda run, step, model, optimizer: (
            whole(step, model), whole(step, model)))
        self.misuse(ValueError, "order is [0, 0]", lambda run, step, model, optimizer: step.grains([0, 0]))
        self.misuse(isobit.RecordError, "run.save within step 1", lambda run, step, model, optimizer: run.save({}))
        self.misuse(isobit.RecordError, "within another loop", lambda run, step, model, optimizer: list(run.steps(DATA, batch=3)))
        self.misuse(ValueError, "a float32 tensor of one element", lambda run, step, model, optimizer: [
            step.backward(model(x)) for x, _ in step.grains()])
        self.misuse(ValueError, "grain is 0", lambda *_: None, grain=0)

    def test_a_seed_is_needed(self):
        isobit._switching._switch.last_seed = None
        with isobit.record(self.folder) as run, self.assertRaisesRegex(isobit.RecordError, "run.steps has no seed"):
            run.steps(DATA, batch=4)

    def test_the_number_of_steps_stays_a_number(self):
        with isobit.record(self.folder) as run:
            self.assertEqual(run.steps, 0)
            isobit.seed(1)
            model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            loop = run.steps(DATA, batch=16, steps=3)
            self.assertEqual(len(loop), 3)
            for step in loop:
                for x, y in step.grains():
                    step.backward(summed(model, x, y))
                step.finish(optimizer)
                run.save({"steps": run.steps})
            self.assertEqual((run.steps % 2, f"{run.steps}", json.dumps(run.steps)), (1, "3", "3"))


if __name__ == "__main__":
    unittest.main()
