"""Second derivatives of convolutions: gradient penalties, Hessians (PyTorch's composition, of certified convolutions)."""

import copy
import unittest

import torch
import torch.nn.functional as F
from cases import Case
from torch import nn
from torch.autograd import grad

import isobit

LAYERS = {
    "plain": (lambda: nn.Conv2d(2, 4, 3), (2, 2, 8, 8)),
    "strided and padded": (lambda: nn.Conv2d(2, 4, 3, stride=2, padding=1), (2, 2, 9, 8)),
    "groups": (lambda: nn.Conv2d(4, 6, 3, groups=2, padding=1), (2, 4, 7, 7)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4), (2, 4, 7, 7)),
    "dilated": (lambda: nn.Conv2d(2, 3, 3, dilation=2), (1, 2, 9, 9)),
    "1 x 1, no bias": (lambda: nn.Conv2d(3, 5, 1, bias=False), (2, 3, 5, 5)),
    "padded by reflection": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (2, 2, 6, 6)),
    "one dimension": (lambda: nn.Conv1d(2, 4, 3, padding=1), (2, 2, 9)),
    "three dimensions": (lambda: nn.Conv3d(1, 2, 3), (1, 1, 5, 5, 5)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), (2, 3, 4, 4)),
    "transposed, one dimension, groups": (lambda: nn.ConvTranspose1d(4, 2, 4, stride=2, groups=2), (2, 4, 5)),
    "no batch": (lambda: nn.Conv2d(2, 3, 3), (2, 6, 6)),
    "channels last": (lambda: nn.Conv2d(2, 4, 3).to(memory_format=torch.channels_last), (2, 2, 8, 8)),
}


def second_derivatives(layer, x, dtype=torch.float32):
    """Of a loss of the output and of its gradient; to input and weights."""
    layer, x = copy.deepcopy(layer).to(dtype), x.to(dtype).detach().requires_grad_()
    y = layer(x)
    first, = grad((y * y * y).sum(), x, create_graph=True)
    return grad(first.square().sum() + y.sin().sum(), [x, *layer.parameters()])


class SecondDerivatives(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())

    def test_the_same_bits_near_binary64(self):
        for name, (make, shape) in LAYERS.items():
            torch.manual_seed(1)
            layer, x = make(), torch.randn(shape)
            exact = second_derivatives(layer, x, torch.float64)
            stock = second_derivatives(layer, x)
            found = []
            for isa, threads in (("reference", 1), ("auto", 1), ("avx2", 3), ("auto", 2)):
                torch.set_num_threads(threads)
                with isobit.enabled(isa=isa):
                    found.append(second_derivatives(layer, x))
            with self.subTest(name):
                for other in found[1:]:
                    self.assertTrue(all(torch.equal(a, b) for a, b in zip(other, found[0], strict=True)))
                for ours, theirs, wanted in zip(found[0], stock, exact, strict=True):
                    bound = max(8 * (theirs - wanted).norm().item(), 1e-6 * wanted.norm().item())
                    self.assertLess((ours - wanted).norm().item(), bound)

    def test_a_gradient_penalty(self):
        """A critic's steps: the same weights by other kernels and threads."""
        def train():
            torch.manual_seed(3)
            critic = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1),
                                   nn.InstanceNorm2d(16, affine=True), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(16 * 9, 1))
            optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
            for _ in range(4):
                real, made = torch.randn(6, 1, 12, 12), torch.rand(6, 1, 12, 12)
                share = torch.rand(6, 1, 1, 1)
                between = (share * real + (1 - share) * made).requires_grad_()
                slope, = grad(critic(between).sum(), between, create_graph=True)
                loss = critic(made).mean() - critic(real).mean() + 10 * (slope.flatten(1).norm(2, 1) - 1).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return isobit.fingerprint(critic)

        seen = set()
        for isa, threads in (("auto", 1), ("avx2", 2), ("auto", 3)):
            torch.set_num_threads(threads)
            with isobit.enabled(isa=isa):
                seen.add(train())
        self.assertEqual(len(seen), 1)

    def test_hessians(self):
        torch.manual_seed(2)
        weight, x = torch.randn(2, 1, 2, 2), torch.randn(1, 1, 4, 4)
        with isobit.enabled():
            found = torch.autograd.functional.hessian(lambda w: F.conv2d(x, w).tanh().sum(), weight)
            other = torch.func.hessian(lambda w: F.conv2d(x, w).tanh().sum())(weight)
        self.assertLess((found - found.permute(4, 5, 6, 7, 0, 1, 2, 3)).abs().max().item(), 1e-5)
        self.assertLess((found - other).abs().max().item(), 1e-5)


if __name__ == "__main__":
    unittest.main()
