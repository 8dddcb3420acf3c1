"""The check of operator samples on a device finds what it is for: device kernels made wrong on purpose fail it.

On the emulated device; ISOBIT_EMULATED names the library.
"""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "scripts"))
from op_samples import emulated

LIBRARY = os.environ["ISOBIT_EMULATED"]
emulated.install(LIBRARY)

import torch  # noqa: E402

import isobit  # noqa: E402
from op_samples import device, device_training, samples  # noqa: E402

DEVICE = "cuda:0"
NEXT = torch.tensor(1.0 + 2**-23)


class Made:
    """An entry of the database with a function of the test's own."""

    supports_autograd = True
    name = "made"

    def __init__(self, function, inplace_variant=None):
        self.function = function
        self.inplace_variant = inplace_variant

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def verdict(self, *given, most=1000, name="made"):
        sample = samples.Sample(self, 0, samples.copy((given[0], given[1:], {})), None, lambda result: result)
        return device.check(name, [sample], DEVICE, most, emulated.stock_arithmetic(LIBRARY))[0]


def only_on_device(change):
    return Made(lambda x: change(x.cos(), x) if x.is_cuda else x.cos())


def random_numbers(*shape, gradient=True):
    torch.manual_seed(1)
    return (torch.rand(shape) * 2 - 1).requires_grad_(gradient)


class Verdicts(unittest.TestCase):
    def assert_fails(self, text, made, *given):
        verdict = made.verdict(*(given or [random_numbers(5, 4)]))
        self.assertEqual(verdict.kind, "fail", verdict)
        self.assertIn(text, verdict.reason)

    def test_right(self):
        verdict = Made(lambda x: x.cos(), lambda x: x.cos_()).verdict(random_numbers(5, 4))
        self.assertEqual((verdict.kind, set(verdict.notes)), ("pass", {"gradients", "in place"}), verdict.reason)

    def test_a_wrong_kernel(self):
        x = random_numbers(5, 4, gradient=False)
        self.assert_fails("bits (CPU against device): result 0", only_on_device(lambda _y, x: x.sin()), x)

    def test_a_kernel_of_another_library(self):
        library = torch.library.Library("aten", "IMPL")
        self.addCleanup(library._destroy)
        with isobit.enabled(), self.assertRaisesRegex(isobit.RefusedError, "aten::cos with a kernel of another library"):
            library.impl("cos", lambda x: x.sin(), "CUDA")
        library.impl("cos", lambda x: x.sin(), "CUDA")  # before the switch: behind it a certified operator is ours again
        with isobit.enabled():
            self.assertTrue(torch.equal(torch.ones(3, device=DEVICE).cos().cpu(), torch.ones(3).cos()))
        library.impl("sin", lambda x: x, "AutogradCUDA")
        with isobit.enabled(), self.assertRaisesRegex(isobit.RefusedError, "aten::sin is computed by another library"):
            torch.ones(3, device=DEVICE).sin()

    def test_one_bit(self):
        self.assert_fails("1 of 20 elements", only_on_device(lambda y, x: y.index_put((torch.tensor(2), torch.tensor(1)),
                                                                                     y[2, 1] * NEXT)))

    def test_gradient_bits(self):
        class Turned(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x * 1

            @staticmethod
            def backward(context, gradient):
                return gradient * NEXT

        self.assert_fails("gradient, result 0", only_on_device(lambda y, x: Turned.apply(y)))

    def test_in_place(self):
        made = Made(lambda x: x.cos(), lambda x: x.sin_() if x.is_cuda else x.cos_())
        self.assert_fails("in place: bits", made)

    def test_stocks_arithmetic(self):
        def by_stock(y, x):
            isobit.disable()  # the check's own
            y = y * 1
            isobit.enable()
            return y

        self.assert_fails("stock's arithmetic: aten::mul.Tensor", only_on_device(by_stock),
                          random_numbers(5, 4, gradient=False))

    def test_places(self):
        self.assert_fails("result 0 lies on cpu", only_on_device(lambda y, x: y.cpu()))

    def test_draws(self):
        right = Made(lambda x: torch.nn.functional.dropout(x, 0.5)).verdict(random_numbers(5, 40))
        self.assertEqual(right.kind, "pass", right.reason)
        self.assert_fails("only one of CPU and device draws", only_on_device(lambda y, x: y + 0 * torch.rand(1, device=DEVICE)))

    def test_errors_and_refusals(self):
        def trips(y, x):
            raise ValueError("another error")

        self.assert_fails("another error", only_on_device(trips))
        self.assertEqual(only_on_device(lambda y, x: torch.special.bessel_j0(y)).verdict(random_numbers(3)).kind, "refused")
        self.assertEqual(Made(torch.special.bessel_j0).verdict(random_numbers(3)).kind, "cpu")
        self.assertEqual(Made(torch.cos).verdict(random_numbers(30), most=50).kind, "large")

    def test_modules(self):
        self.assertEqual(device_training.reason_of([torch.ones(2)], [torch.ones(2)]), "")
        self.assertIn("FAILS", device_training.reason_of([torch.ones(2)], [torch.ones(2) * NEXT]))
        self.assertIn("FAILS", device_training.reason_of([torch.ones(2)], "an error"))
        rows = device_training.report(DEVICE, {"Linear", "RMSNorm", "SGD"})
        self.assertEqual({row["verdict"] for kind in ("modules", "optimizers") for row in rows[kind]}, {"works"}, rows)


# Ways that PyTorch takes for CUDA tensors only: the fake device says that it has cuDNN and CUDA's kernels.
class Routes(unittest.TestCase):
    def assert_alike(self, function, *tensors):
        with isobit.enabled():
            results = []
            for place in ("cpu", DEVICE):
                torch.manual_seed(3)
                inputs = [tensor.detach().to(place).requires_grad_(tensor.requires_grad) for tensor in tensors]
                found = function(*inputs)
                if found.requires_grad:
                    found.square().sum().backward()
                results.append([found.detach().cpu(), *[x.grad.cpu() for x in inputs if x.grad is not None]])
        self.assertEqual(len(results[0]), len(results[1]))
        for a, b in zip(*results, strict=True):
            self.assertTrue(torch.equal(a, b), (a, b))

    def test_cudnn_stays_away(self):
        self.assertTrue(torch.backends.cudnn.enabled)
        with isobit.enabled():
            self.assertFalse(torch.backends.cudnn.enabled)
            self.assertFalse(torch.cudnn_is_acceptable(torch.ones(3, device=DEVICE)))
        self.assertTrue(torch.backends.cudnn.enabled)
        self.assertTrue(torch.cudnn_is_acceptable(torch.ones(3, device=DEVICE)))  # the fake device does say so

    def test_cudnn_asked_for(self):  # as scripts do
        def sample(x):
            torch._C._set_cudnn_enabled(True)  # what torch.backends.cudnn.enabled = True does
            self.assertFalse(torch._use_cudnn_rnn_flatten_weight())
            return torch.nn.functional.grid_sample(x, x.detach()[:, :, :, :2].tanh(), align_corners=True)

        with isobit.enabled():
            try:
                sample(random_numbers(1, 3, 3, 4, gradient=False).to(DEVICE))
            except RuntimeError as refusal:  # as long as that has no kernel for devices
                self.assertIn("grid_sampler_2d", str(refusal))
            torch._C._set_cudnn_enabled(False)

    def test_recurrent_layers(self):
        for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
            def run(x, kind=kind):
                layer = kind(4, 5, 2, dropout=0.2, bidirectional=True).to(x.device)
                layer.flatten_parameters()
                return layer(x)[0]

            self.assert_alike(run, random_numbers(3, 2, 4))

    def test_normalizations(self):
        def batch_norm(x):
            return torch.nn.functional.batch_norm(x, None, None, training=True)

        def rms_norm(x):
            return torch.nn.functional.rms_norm(x, [4], x.detach()[0] + 2)

        for function in (batch_norm, rms_norm):
            self.assert_alike(function, random_numbers(5, 4))
        empty = torch.empty(0, 3, requires_grad=True)
        self.assert_alike(lambda x: torch.nn.functional.batch_norm(x, None, None, torch.ones(3, device=x.device)), empty)

    def test_writes_by_index(self):
        def write(x):
            y = x * 1
            y[y > 0.2] = y[y > 0.2] * 2
            y[torch.tensor([0, 2, 0], device=x.device)] = x[:3]  # the last write stays
            y[:, [1, 3]] = x[:, :2]
            return y.index_copy(1, torch.tensor([0, 2, 0], device=x.device), x[:, 1:])

        self.assert_alike(write, random_numbers(6, 4))

    def test_averaged_models(self):
        def average(x):
            model = torch.nn.Linear(4, 3).to(x.device)
            averaged = torch.optim.swa_utils.AveragedModel(model)
            for factor in (0.3, 0.7, 1.9):
                with torch.no_grad():
                    model.weight.mul_(factor)
                averaged.update_parameters(model)
            return averaged.module.weight.detach()

        self.assert_alike(average, random_numbers(1))

    def test_attention_without_gradients(self):
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()

        def encode(x):
            with torch.no_grad():
                return layer.to(x.device)(x)

        self.assert_alike(encode, random_numbers(2, 5, 8, gradient=False))

    def test_clipped_gradients(self):
        def clip(x):
            parameters = [torch.nn.Parameter(x.detach() * k) for k in (1, 2, 3)]
            for parameter in parameters:
                parameter.grad = parameter.detach() * 3
            norm = torch.nn.utils.clip_grad_norm_(parameters, 0.5)
            return torch.cat([norm.reshape(1), *[p.grad.reshape(-1) for p in parameters]])

        self.assert_alike(clip, random_numbers(5, 4, gradient=False))

    def test_deterministic_algorithms(self):
        """Then PyTorch takes these apart for CUDA tensors, into operators that round otherwise."""
        functional = torch.nn.functional
        self.addCleanup(torch.use_deterministic_algorithms, False)
        torch.use_deterministic_algorithms(True)
        images, volumes = random_numbers(2, 3, 5, 7), random_numbers(1, 2, 4, 5, 3)
        self.assert_alike(lambda x: functional.interpolate(x, size=(11, 4), mode="bilinear"), images)
        self.assert_alike(lambda x: functional.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True), images)
        self.assert_alike(lambda x: functional.interpolate(x, size=(5, 9, 4), mode="trilinear"), volumes)
        self.assert_alike(lambda x: functional.pad(x, (1, 2, 3, 0), mode="replicate"), images)
        self.assert_alike(lambda x: functional.max_pool3d(x, 2, return_indices=True)[0], volumes)

    def test_printing_and_pinning(self):
        with isobit.enabled():
            x = torch.tensor([0.5, -3.25, 100.0], device=DEVICE)
            self.assertEqual(str(x), str(x.cpu()).replace(")", f", device='{DEVICE}')"))
            self.assertEqual(x.cpu().pin_memory().to(DEVICE, non_blocking=True).sum().item(), 97.25)


if __name__ == "__main__":
    unittest.main()
