"""Products of the exact tier: every operator against integers, refusals, records of a name of their own."""

import ctypes
import glob
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import torch
from records import PROGRAM, RecordedRuns, experiment, read, state_of, write
from torch.nn import functional

import isobit
from isobit._base import _library

EXACT, ORDERED = "isobit-0.1-exact3", "isobit-0.1"


# ---- the contract's section 17 in int64


def integers(rows, slabs):
    """V of each row, and its exponent, which its slab's largest decides."""
    largest = slabs.abs().amax(1).double()
    fraction, exponent = torch.frexp(largest)  # in [1/2, 1)
    exponent = exponent + 1 + (fraction * 2**24 > 2 * 0x7F7F7F)
    exponent = torch.where(largest > 0, exponent, 0)
    return torch.round(torch.ldexp(rows.double(), 24 - exponent[:, None])).long(), exponent


def digits(v):
    third = (v + 128) % 256 - 128
    upper = (v - third) // 256
    second = (upper + 128) % 256 - 128
    return (upper - second) // 256, second, third


@isobit.disabled()
def oracle(a, b, a_slabs=None, b_slabs=None):
    """[m, k] and [n, k] -> [m, n]"""
    v, e = integers(a, a if a_slabs is None else a_slabs)
    w, f = integers(b, b if b_slabs is None else b_slabs)
    a1, a2, a3 = digits(v)
    b1, b2, b3 = (x.T for x in digits(w))
    total = 65536 * (a1 @ b1) + 256 * (a1 @ b2 + a2 @ b1) + a1 @ b3 + a2 @ b2 + a3 @ b1
    assert total.numel() == 0 or total.abs().max() < 2**53
    return torch.ldexp(total.double(), e[:, None] + f[None, :] - 32).float()


def oracle_convolution(x, weight, **options):
    slabs = x.flatten(1)
    windows = functional.unfold(x, weight.shape[2:], **options)  # moves values only
    out = [oracle(weight.flatten(1), one.T, None, slab.expand(one.shape[1], -1)) for one, slab in zip(windows, slabs, strict=True)]
    return torch.stack(out)


def random(*sizes, decades=0):
    x = torch.randn(sizes)
    return x * torch.pow(10.0, torch.randint(-decades, 1, sizes)) if decades else x


class Operators(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)

    def equal(self, a, b):
        self.assertEqual(a.shape, b.shape)
        a, b = (x.detach().contiguous().view(torch.int32) for x in (a, b))
        self.assertTrue(torch.equal(a, b), f"{(a != b).sum()} of {a.numel()} elements differ")

    def test_matrix_products(self):
        a, b, bias, c = random(17, 300, decades=12), random(300, 23), random(23), random(17, 23)
        p = oracle(a, b.T)
        many, other = random(3, 4, 50), random(3, 50, 6)
        batches = torch.stack([oracle(x, y.T) for x, y in zip(many, other, strict=True)])
        added, scaled = bias + p, 0.5 * c + 3.0 * p
        for isa in ("reference", "avx2"):
            if isa == "avx2" and "AVX2" not in torch.backends.cpu.get_cpu_capability().replace("AVX512", "AVX2"):
                continue
            with isobit.enabled(isa, products="exact3"):
                self.equal(torch.mm(a, b), p)
                self.equal(a @ b, p)
                self.equal(torch.addmm(c, a, b, beta=0.5, alpha=3.0), scaled)
                self.equal(functional.linear(a, b.T.contiguous(), bias), added)
                self.equal(torch.bmm(many, other), batches)
                self.equal(torch.baddbmm(batches, many, other), batches + batches)
                self.equal(torch.einsum("bik,bkj->bij", many, other), batches)
                self.equal(torch.mv(a, b[:, 3]), p[:, 3])
                self.equal(torch.dot(a[2], b[:, 3]), p[2, 3])
                self.equal(torch.mm(a, b[:, :0]), p[:, :0])
                self.equal(torch.mm(a[:, :0], b[:0]), torch.zeros(17, 23))
                order = torch.randperm(300)
                self.equal(torch.mm(a[:, order], b[order]), p)
        with isobit.enabled():
            self.assertFalse(torch.equal(torch.mm(a[:, order], b[order]), torch.mm(a, b)))

    def test_convolutions_and_their_gradients(self):
        x, weight, bias = random(3, 4, 9, 8).requires_grad_(), random(6, 4, 3, 3).requires_grad_(), random(6)
        dy = random(3, 6, 9, 8, decades=6)
        y = oracle_convolution(x.detach(), weight.detach(), padding=1).view(3, 6, 9, 8) + bias[:, None, None]
        # A stride of 1 and a padding of 1: the input gradient is a convolution with the taps turned around.
        turned = weight.detach().flip(2, 3).transpose(0, 1).contiguous()
        dx = oracle_convolution(dy, turned, padding=1).view(3, 4, 9, 8)
        columns = functional.unfold(x.detach(), 3, padding=1).transpose(0, 1).flatten(1)
        slabs = x.detach().transpose(0, 1).flatten(1).repeat_interleave(9, 0)
        dw = oracle(dy.transpose(0, 1).flatten(1), columns, None, slabs).view(6, 4, 3, 3)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with isobit.enabled(products="exact3"):
                out = functional.conv2d(x, weight, bias, padding=1)
                self.equal(out, y)
                gradients = torch.autograd.grad(out, (x, weight), dy)
                self.equal(gradients[0], dx)
                self.equal(gradients[1], dw)
                line = functional.conv1d(x[:, :, 4].detach(), weight[:, :, 1].detach(), padding=1)
                self.equal(line, oracle_convolution(x[:, :, 4:5].detach(), weight[:, :, 1:2].detach(), padding=(0, 1)).view(3, 6, 8))
                self.equal(functional.conv_transpose2d(dy, weight.detach(), padding=1), dx)

    def test_attention_is_its_composition(self):
        q, k, v = (random(2, 3, 20, 8) for _ in range(3))
        with isobit.enabled(products="exact3"):
            blocked = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            composed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            self.equal(blocked, composed)
        with isobit.enabled():
            self.assertFalse(torch.equal(functional.scaled_dot_product_attention(q, k, v, is_causal=True), blocked))

    def test_what_is_not_finite(self):
        a, b = random(4, 9), random(9, 5)
        a[1, 2], b[3, 4] = float("inf"), float("nan")
        with isobit.enabled(products="exact3"):
            c = torch.mm(a, b)
        self.assertTrue(c[1].isnan().all() and c[:, 4].isnan().all())
        self.assertTrue(c[[0, 2, 3], :4].isfinite().all())

    def test_what_has_no_exact_products_is_refused_by_name(self):
        x = random(2, 3, 6)
        cases = {
            "aten::lstm": lambda: torch.nn.LSTM(6, 4)(x), "aten::gru": lambda: torch.nn.GRU(6, 4)(x),
            "aten::rnn_tanh": lambda: torch.nn.RNN(6, 4)(x),
            "aten::mm": lambda: torch.mm(x[0].double(), x[1].double().T),
            "aten::bmm": lambda: torch.bmm(x.double(), x.double().transpose(1, 2)),
            "aten::convolution": lambda: functional.conv3d(random(1, 1, 4, 4, 4), random(1, 1, 2, 2, 2)),
        }
        for products in ("exact3", "ordered"):
            for name, call in cases.items():
                with self.subTest(name, products=products), isobit.enabled(products=products):
                    if products == "ordered":
                        call()
                        continue
                    with self.assertRaises(isobit.RefusedError) as caught:
                        call()
                    self.assertIn(name, str(caught.exception))
                    self.assertIn(f'products = "exact3" lacks under {EXACT}', str(caught.exception))
                    self.assertIn('products = "ordered"', str(caught.exception))
        with isobit.enabled(products="exact3"):  # cells are loops over linear layers
            torch.nn.LSTMCell(6, 4)(x[0])

    def test_every_operator_of_section_3_is_one_of_them(self):
        """An operator whose rule names section 3 or cells computes exactly or is refused; a new one must be put into this list."""
        lines = ctypes.c_char_p()
        _library._operators(ctypes.byref(lines))
        found = {line.split("\t")[1] for line in lines.value.decode().splitlines()
                 if line.startswith("certified\t") and line.split("\t")[3].startswith(("3:", "11:"))}
        exact = {"mm", "addmm", "addmm_", "bmm", "baddbmm", "baddbmm_", "addbmm", "addbmm_", "mv", "addmv", "addmv_", "dot", "vdot", "addr",
                 "addr_", "_grouped_mm", "convolution", "_convolution", "convolution_backward", "matmul", "lstm_cell", "gru_cell", "rnn_tanh_cell",
                 "rnn_relu_cell"}
        refused = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
        self.assertEqual(found, {f"aten::{name}" for name in exact | refused})

    def test_the_switch(self):
        x = torch.ones(3)
        plain = isobit.fingerprint(x)
        with isobit.enabled(products="exact3"):
            self.assertEqual(isobit.fingerprint(x), plain.replace(ORDERED, EXACT))
            with self.assertRaisesRegex(RuntimeError, "on with products 'exact3' already"):
                isobit.enable(products="ordered")
            with isobit.enabled():  # what is in force
                self.assertEqual(_library.products(), "exact3")
            with isobit.disabled():
                self.assertEqual(_library.products(), "ordered")
            self.assertEqual(_library.products(), "exact3")
        self.assertFalse(isobit.is_enabled())
        with self.assertRaisesRegex(ValueError, "unknown products 'exact4'"):
            isobit.enable(products="exact4")
        with isobit.enabled(), self.assertRaisesRegex(RuntimeError, "on with products 'ordered' already"):
            isobit.enable(products="exact3")


PRODUCTS = '[arithmetic]\nproducts = "exact3"\n\n'


class Records(RecordedRuns):
    images = (64, 16)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.exact, cls.ordered = cls.train(cls.text(8, products="exact3")), cls.train(cls.text(8))

    @classmethod
    def text(cls, steps, **arithmetic):
        return experiment(f"{cls.folder}/data", top={"name": "small", "seed": 3, "steps": steps, "batch": 16}, arithmetic=arithmetic,
                          model={"name": "lenet5"}, checkpoint={"every": 5}, fingerprint={"every": 1})

    def test_recorded_and_verified_elsewhere(self):
        self.assertTrue(state_of(self.exact)["weights"].startswith(EXACT + ":"))
        self.assertNotEqual(state_of(self.exact)["weights"].partition(":")[2], state_of(self.ordered)["weights"].partition(":")[2])
        self.assertEqual(json.loads(read(f"{self.exact}/environment.json"))["contract"], EXACT)
        self.assertNotIn("products", read(f"{self.ordered}/experiment.toml").decode())
        for words in (["--isa", "reference", "--threads", "2"], ["--threads", "1"], ["--workers", "2"]):
            done = self.call("verify", self.exact, *words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("identical: 8 steps", done.stdout)
        listed = {entry["id"]: entry["contract"] for entry in json.loads(self.call("log", "--json").stdout)}
        self.assertEqual((listed[os.path.basename(self.exact)], listed[os.path.basename(self.ordered)]), (EXACT, ORDERED))
        self.assertIn(f"  {EXACT}  ", self.call("log").stdout)
        self.assertIn(f"contract {EXACT}", self.call("show", self.exact).stdout)

    def test_grains_and_workers(self):
        runs = [self.train(self.text(3, products="exact3"), "--set", "grain=4", *more) for more in ([], ["--workers", "2", "--threads", "1"])]
        self.assertEqual(*(state_of(run)["weights"] for run in runs))
        done = self.call("verify", runs[1])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_killed_and_resumed(self):
        whole = self.train(self.text(60, products="exact3"), "--runs", "whole")
        process = subprocess.Popen([PROGRAM, "run", "small.toml", "--runs", "killed"], cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while time.monotonic() < end and not glob.glob(f"{self.folder}/killed/2*/checkpoints/step-*"):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        (killed,) = glob.glob(f"{self.folder}/killed/2*")
        self.assertEqual(state_of(killed)["contract"], EXACT)
        self.assertFalse(os.path.exists(f"{killed}/manifest.json"))
        done = self.call("run", "--resume", os.path.basename(killed), "--runs", "killed", "--threads", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("resumes after step", done.stderr)
        self.assertEqual(state_of(killed)["weights"], state_of(whole)["weights"])

    def test_forged_tiers(self):
        def renamed(run, old, new):
            write(f"{run}/state.json", read(f"{run}/state.json").decode().replace(f'"{old}', f'"{new}'))

        def as_ordered(run):
            renamed(run, EXACT, ORDERED)

        def as_exact(run):
            renamed(run, ORDERED, EXACT)

        def rewritten(run, old, new):
            text = read(f"{run}/experiment.toml").decode()
            assert old in text, text
            write(f"{run}/experiment.toml", text.replace(old, new, 1))

        def as_ordered_whole(run):
            as_ordered(run)
            rewritten(run, PRODUCTS, "")

        def as_exact_whole(run):
            as_exact(run)
            rewritten(run, "[data]\n", PRODUCTS + "[data]\n")

        def another_tier(run):
            renamed(run, EXACT, "isobit-0.1-exact4")

        for what, run, alter, code, because in (
                ("exact for ordered, in name", self.exact, as_ordered, 2, 'asks for products "exact3"'),
                ("exact for ordered, all of it", self.exact, as_ordered_whole, 1, "different at step 1"),
                ("ordered for exact, in name", self.ordered, as_exact, 2, 'asks for products "ordered"'),
                ("ordered for exact, all of it", self.ordered, as_exact_whole, 1, "different at step 1"),
                ("a tier that there is not", self.exact, another_tier, 2, "damaged")):
            with self.subTest(what):
                done = self.call("verify", self.forged(run, alter))
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(because, done.stdout + done.stderr)

    def test_what_makes_no_sense(self):
        write(f"{self.folder}/ordered.toml", self.text(8))
        for words, because in ((["arithmetic.products=exact2"], '"ordered" or "exact3"'),
                               (["arithmetic.products=exact3", "arithmetic.kind=stock"], "products of its own")):
            done = self.call("run", "ordered.toml", "--dry-run", *(word for one in words for word in ("--set", one)))
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(because, done.stderr)

    def test_a_python_program(self):
        script = f"{self.folder}/program.py"
        write(script, f"""
import sys, torch, isobit
isobit.enable(products="exact3")
isobit.seed(4)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.Flatten(), torch.nn.Linear(108, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with isobit.record(r"{self.folder}/python", every=1) as run:
    for step in range(4):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(torch.randn(6, 1, 8, 8)), torch.arange(6) % 5).backward()
        optimizer.step()
print(isobit.fingerprint(model))
""")
        mixed = f"{self.folder}/mixed.py"
        write(mixed, f"""
import isobit
isobit.enable()
try:
    with isobit.record(r"{self.folder}/mixed"):
        with isobit.disabled():
            isobit.enable(products="exact3")
except isobit.RecordError as error:
    print(error)
""")
        done = subprocess.run([sys.executable, script], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = glob.glob(f"{self.folder}/python/2*")
        weights = state_of(run)["weights"]
        self.assertTrue(weights.startswith(EXACT + ":"))
        self.assertEqual(done.stdout.splitlines()[0], weights)
        self.assertIn('products = "exact3"', read(f"{run}/experiment.toml").decode())
        done = self.call("verify", run, "--trust")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = subprocess.run([sys.executable, mixed], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertIn("computes with products 'exact3', the record is of isobit-0.1", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()
