"""What people do around training goes on working with the switch on."""

import copy
import io
import pickle
import unittest

import numpy
import torch
from cases import Case, small_model

import isobit


class Everyday(Case):
    def setUp(self):
        super().setUp()
        isobit.enable()

    def test_printing(self):
        for tensor in (torch.arange(5) / 3, torch.tensor([1e-8, 1e8, float("nan"), float("inf")]), torch.arange(3),
                       torch.rand(3) > 0.5, torch.zeros(0), torch.rand(2000, 3), torch.rand(3).double(),
                       torch.tensor(1.5)):
            self.assertIn("tensor(", repr(tensor))
            f"{tensor}"
        f"{torch.tensor(0.25):.3f}"
        repr(torch.nn.Parameter(torch.rand(3))), repr(small_model())
        repr(torch.rand(3, requires_grad=True) * 2)

    def test_indexing_and_masks(self):
        x = torch.arange(24).float().reshape(2, 3, 4)
        x[0, 1:, ::2], x[..., -1], x[:, None], x[x > 5], x[[0, 1], [1, 2]], x[torch.tensor([1, 0])]
        x[x > 20] = 0
        x[0, 0] = 7
        x[:, 1] += 1
        x[1, [0, 2]] = torch.zeros(2, 4)
        torch.where(x > 3, x, torch.zeros_like(x)), x.masked_fill(x < 0, 1), x.nonzero(), torch.stack([x, x]), torch.cat([x, x], 1)
        self.assertEqual(x[0, 0, 0].item(), 7)
        self.assertEqual([row.tolist() for row in torch.arange(4).view(2, 2)], [[0, 1], [2, 3]])

    def test_integers(self):
        i = torch.arange(10)
        (i * 3 + 1) // 2 % 5, i.sum(), i.float().mean(), i.bincount(), i.unique(), i.flip(0), i.cumsum(0), -i, i ** 2
        i & 3, i << 1, i == 3, (i > 3).sum().item(), i.max(), i.argmax(), i.sort(descending=True)
        torch.zeros(3, dtype=torch.long).scatter_add_(0, torch.tensor([0, 1, 1]), torch.ones(3, dtype=torch.long))
        torch.nn.functional.one_hot(i, 10), i.to(torch.uint8), i.view(2, 5).T

    def test_numpy(self):
        array = numpy.random.rand(3, 4).astype(numpy.float32)
        tensor = torch.from_numpy(array)
        self.assertTrue((tensor.numpy() == array).all())
        torch.tensor(array), torch.as_tensor(array), numpy.asarray(tensor), tensor.numpy().mean()
        torch.from_numpy((array * 255).astype(numpy.uint8)).float().div(255)
        torch.tensor(numpy.arange(3)), torch.tensor([1.0, 2.0]), torch.tensor([[1, 2], [3, 4]])

    def test_save_and_load(self):
        model = small_model()
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(2, 20)).sum().backward()
        optimizer.step()
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}, file)
        file.seek(0)
        loaded = torch.load(file)
        other = small_model()
        other.load_state_dict(loaded["model"])
        torch.optim.AdamW(other.parameters()).load_state_dict(loaded["optimizer"])
        torch.set_rng_state(loaded["rng"])
        self.assertEqual(isobit.fingerprint(other), isobit.fingerprint(model))
        self.assertEqual(isobit.fingerprint(copy.deepcopy(model)), isobit.fingerprint(pickle.loads(pickle.dumps(model))))

    def test_around_a_loop(self):
        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
        correct = total = 0
        losses = []
        for _ in range(3):
            model.train()
            x, y = torch.randn(8, 20), torch.randint(5, (8,))
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            model.eval()
            with torch.no_grad():
                prediction = model(x).argmax(dim=1)
                correct += (prediction == y).sum().item()
                total += y.size(0)
        f"{100 * correct / total:.1f} % {sum(losses) / len(losses):.4f}", torch.tensor(losses).mean()
        sum(p.numel() for p in model.parameters()), [p.grad.norm().item() for p in model.parameters()]
        with torch.inference_mode():
            model(torch.randn(2, 20))

    def test_averages_of_weights(self):
        model = small_model()
        for average in (torch.optim.swa_utils.AveragedModel(model), torch.optim.swa_utils.AveragedModel(
                model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))):
            average.update_parameters(model)
            average.update_parameters(model)
            average(torch.ones(2, 20))

    def test_schedules(self):
        optimizer = torch.optim.SGD(small_model().parameters(), lr=0.1)
        schedules = torch.optim.lr_scheduler
        for schedule in (schedules.OneCycleLR(optimizer, 1.0, 10), schedules.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
                         schedules.CosineAnnealingWarmRestarts(optimizer, 3), schedules.StepLR(optimizer, 2),
                         schedules.SequentialLR(optimizer, [schedules.ConstantLR(optimizer), schedules.ExponentialLR(optimizer, 0.9)],
                                                [2])):
            optimizer.step()
            schedule.step()
        schedules.ReduceLROnPlateau(optimizer).step(1.0)

    def test_initial_weights(self):
        for fill in (torch.nn.init.kaiming_normal_, torch.nn.init.kaiming_uniform_, torch.nn.init.xavier_normal_,
                     torch.nn.init.xavier_uniform_, torch.nn.init.eye_, torch.nn.init.ones_):
            fill(torch.empty(6, 6))

    def test_orthogonal_weights(self):
        for shape in ((40, 40), (70, 30), (9, 4, 3, 3), (1, 8)):
            torch.manual_seed(7)
            weight = torch.nn.init.orthogonal_(torch.empty(shape), gain=2.0).flatten(1).double() / 2
            torch.manual_seed(7)
            sample = torch.empty(weight.shape).normal_().double()
            isobit.disable()
            q, r = torch.linalg.qr(sample.T if shape[0] < weight.shape[1] else sample)
            expected = q * r.diag().sign()
            isobit.enable()
            if shape[0] < weight.shape[1]:
                expected = expected.T
            self.assertLess((weight - expected).abs().max().item(), 1e-7, shape)
        weight = torch.nn.init.trunc_normal_(torch.empty(60, 60), std=0.02)
        self.assertLess(abs(weight.std().item() - 0.02), 0.001)
        uniform = torch.rand(2000) * 2 - 1  # 2.11's way, and timm's
        self.assertLess((torch.erf(uniform.clone().erfinv_()) - uniform).abs().max().item(), 1e-6)

    def test_gradients_looked_at(self):
        model, x = small_model(), torch.rand(4, 20, requires_grad=True)
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (gradient.norm(2, dim=1) - 1).pow(2).mean().backward()  # a gradient penalty
        model[0].register_full_backward_hook(lambda module, inputs, outputs: None)
        with torch.autograd.set_detect_anomaly(True):
            model(x).sum().backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        torch.nn.utils.vector_to_parameters(torch.nn.utils.parameters_to_vector(model.parameters()) * 0.5, model.parameters())
        torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 4))(torch.ones(2, 4)).sum().backward()

    def test_scaler_that_is_off(self):
        model, scaler = small_model(), torch.amp.GradScaler("cpu", enabled=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with torch.autocast("cpu", enabled=False):
            scaler.scale(model(torch.ones(2, 20)).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    def test_measures(self):
        scores, labels = torch.randn(30, 3).softmax(1), torch.randint(3, (30,))
        torch.bincount(labels * 3 + scores.argmax(1), minlength=9).view(3, 3)  # a confusion matrix
        torch.nn.functional.cross_entropy(scores, labels, label_smoothing=0.1, weight=torch.ones(3))
        torch.testing.assert_close(scores, scores.clone())
        scores.isfinite().all(), scores.std(0), torch.nn.functional.one_hot(labels).float(), scores.sort(1, descending=True)
        torch.distributions.Normal(torch.zeros(3), torch.ones(3)).log_prob(torch.ones(3))
        torch.distributions.Normal(0.0, 1.0).rsample((3,))

    def test_profiler(self):
        with torch.profiler.profile() as profile:
            small_model()(torch.ones(2, 20))
        self.assertIn("addmm", profile.key_averages().table())

    def test_progress_bars(self):
        try:
            from tqdm import tqdm
        except ImportError:
            self.skipTest("tqdm is not installed")
        for _ in (bar := tqdm(range(3), file=io.StringIO())):
            bar.set_postfix(loss=torch.tensor(0.5).item())

    def test_seeds_and_generators(self):
        torch.manual_seed(4)
        state = torch.get_rng_state()
        first = torch.rand(5), torch.randn(5), torch.randint(10, (5,)), torch.randperm(5)
        torch.set_rng_state(state)
        again = torch.rand(5), torch.randn(5), torch.randint(10, (5,)), torch.randperm(5)
        for a, b in zip(first, again, strict=True):
            self.assertTrue(torch.equal(a, b))
        with torch.random.fork_rng():
            torch.rand(3)
        torch.initial_seed(), torch.seed()


class Fingerprints(Case):
    def test_contracts_vectors(self):
        self.assertEqual(isobit.fingerprint(torch.tensor([1.0, -0.0, float("nan")])),
                         isobit.contract_version + ":4ad55751513cbdb0c17f8af33fe68117")
        self.assertEqual(isobit.fingerprint(torch.tensor([[0, 1, -1], [2**40, -(2**63), 7]])),
                         isobit.contract_version + ":776404c46258f48a33a40ddd021a355d")

    def test_kinds_of_values(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        expected = isobit.fingerprint(model.state_dict())
        self.assertEqual(isobit.fingerprint(model), expected)
        self.assertEqual(isobit.fingerprint(dict(reversed(list(model.state_dict().items())))), expected)
        a, b = torch.rand(2, 3), torch.rand(4)
        self.assertEqual(isobit.fingerprint([a, b]), isobit.fingerprint({"0": a, "1": b}))
        self.assertNotEqual(isobit.fingerprint([a, b]), isobit.fingerprint([b, a]))
        self.assertEqual(isobit.fingerprint(a.T.contiguous().T), isobit.fingerprint(a))
        self.assertNotEqual(isobit.fingerprint(a.T), isobit.fingerprint(a))
        self.assertNotEqual(isobit.fingerprint(a > 0.5), isobit.fingerprint((a > 0.5).byte()))

    def test_refuses(self):
        for value in (torch.rand(3).cfloat(), 3, {"a": 3}, {1: torch.rand(3)}, torch.rand(3).to_sparse()):
            with self.assertRaises(TypeError):
                isobit.fingerprint(value)


if __name__ == "__main__":
    unittest.main()
