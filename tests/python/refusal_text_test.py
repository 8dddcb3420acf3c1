"""What a refusal says: the user's line and words, no module where there is none, and remedies that are not refused."""

import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest

import torch
import torch.nn.functional as F
from cases import Case

import isobit
from isobit._base import _library


def refusal_of(call):
    try:
        call()
    except isobit.RefusedError as error:
        return error
    raise AssertionError("nothing was refused")


def line_of(text):
    return 1 + next(i for i, line in enumerate(pathlib.Path(__file__).read_text().splitlines()) if text in line)


class Texts(Case):
    def setUp(self):
        super().setUp()
        isobit.enable()

    def assert_at(self, error, mark, called):
        lines = str(error).splitlines()
        expected = f"  at     {os.path.relpath(__file__)}:{line_of(mark)}" + (f", {called}" if called else "")
        if expected.startswith("  at     .."):
            expected = expected.replace(os.path.relpath(__file__), __file__)
        self.assertEqual(lines[1], expected, lines)

    def test_the_line_and_what_stands_there(self):
        x = torch.ones(4, 4)
        self.assert_at(refusal_of(lambda: torch.special.bessel_j0(x)), "lambda: torch.special.bessel_j0(x)), ", "torch.special.bessel_j0")
        self.assert_at(refusal_of(lambda: x.round_(decimals=1)), "x.round_", "Tensor.round_")
        self.assert_at(refusal_of(lambda: torch.special.bessel_j1(x)), "special.bessel_j1(x)", "torch.special.bessel_j1")
        self.assert_at(refusal_of(lambda: torch.stft(x, 4, return_complex=True)), "torch.stft(x", "torch.stft")
        self.assert_at(refusal_of(lambda: F.embedding(torch.zeros(1, dtype=torch.long), x, max_norm=1.0)), "max_norm=1.0)), ",
                       "torch.nn.functional.embedding")

    def test_a_backward_names_its_line_alone(self):
        class Refused(torch.autograd.Function):
            @staticmethod
            def forward(_context, x):
                return x * 2

            @staticmethod
            def backward(_context, gradient):
                return torch.ops.aten.special_bessel_j0(gradient)  # refused here

        loss = Refused.apply(torch.ones(2, requires_grad=True)).sum()
        error = refusal_of(lambda: loss.backward())
        self.assert_at(error, "# refused" + " here", "")
        self.assertIn("\n  in     backward of RefusedBackward\n", str(error))

    def test_no_module_no_line_about_it(self):
        text = str(refusal_of(lambda: torch.special.bessel_j0(torch.ones(2))))
        self.assertNotIn("\n  in ", text)
        self.assertNotIn("outside any module", text)

    def test_texts_are_made_once(self):
        """A copy, a pickle, and an exception made of the text say the same."""
        error = refusal_of(lambda: torch.special.bessel_j0(torch.ones(2)))
        text = str(error)
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), text)
        self.assertEqual(str(isobit.RefusedError(text)), text)
        self.assertEqual(str(error), text)
        self.assertEqual(str(isobit.RefusedError("isobit: aten::x is not certified under isobit-0.1\n  do     y")).count("\n"), 1)
        self.assertEqual(str(isobit.RefusedError("unrelated")), "unrelated")

    def test_windows_and_their_replacement(self):
        text = str(refusal_of(lambda: torch.ops.aten.kaiser_window.out(8, out=torch.empty(8))))
        self.assertIn("\n  for    windows of spectra\n  do     take torch.signal.windows", text)
        isobit.disable()
        stock = torch.kaiser_window(8, dtype=torch.float64)
        isobit.enable()
        self.assertTrue(torch.allclose(torch.signal.windows.kaiser(8, beta=12.0, sym=False).to(torch.float64), stock, atol=1e-6))

    def test_nested_tensors_are_told_to_pad(self):
        isobit.disable()
        rows = [torch.ones(2, 3), torch.ones(4, 3)]
        strided, jagged = torch.nested.nested_tensor(rows), torch.nested.nested_tensor(rows, layout=torch.jagged)
        isobit.enable()
        for call in (lambda: strided * 2, lambda: torch.nested.to_padded_tensor(jagged, 0.0)):
            with self.subTest(call):
                text = str(refusal_of(call))
                self.assertIn("pad the rows to one length (torch.nn.utils.rnn.pad_sequence) and pass a mask", text)
        text = str(refusal_of(lambda: torch.nested.nested_tensor(rows)))
        self.assertIn("pad_sequence", text)

    def test_every_search_that_is_advised_finds_something(self):
        """Of a refused operator of each family: the search in its text lists operators that may run."""
        entries = _library.operators()
        may_run = [f"{name}.{overload}" if overload else name for kind, name, overload, _ in entries if kind != "refused"]
        texts = {}
        for name in ("matrix_exp", "histogram", "angle", "geqrf", "logit_", "pinverse", "cholesky_inverse", "lobpcg", "svd"):
            function = getattr(torch, name)
            try:
                function(torch.eye(3))
            except isobit.RefusedError as error:
                texts[name] = str(error)
            except (RuntimeError, TypeError):
                continue
        self.assertGreater(len(texts), 5)
        for name, text in texts.items():
            if " --search " in text:
                word = text.partition(" --search ")[2].partition(")")[0]
                self.assertTrue([full for full in may_run if word in full], (name, word))
            else:
                self.assertIn("\n  do     ", text)


class Scripts(unittest.TestCase):
    """In processes of their own: what a person sees."""

    def run_script(self, text, *, folder=None):
        with tempfile.TemporaryDirectory() as other:
            script = pathlib.Path(folder or other) / "train.py"
            script.write_text(textwrap.dedent(text))
            environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(isobit.__file__).parents[1])}
            return subprocess.run([sys.executable, "train.py"], cwd=script.parent, capture_output=True, text=True, check=False,
                                  env=environment)

    def test_uncaught(self):
        done = self.run_script("""
            import torch, isobit
            isobit.enable()
            values = torch.linalg.svd(torch.eye(3))
        """)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.endswith(
            f"isobit.RefusedError: isobit: aten::linalg_svd is not certified under {isobit.contract_version}\n"
            "  at     train.py:4, torch.linalg.svd\n"
            "  for    eigenvalues and singular values\n"
            "  do     iterate torch.linalg.qr, which is certified, or run this part outside isobit "
            "(with isobit.disabled():)\n"), done.stderr)

    def test_an_all_reduce_names_distributed_training(self):
        if not torch.distributed.is_available():
            self.skipTest("this PyTorch has no torch.distributed")
        done = self.run_script("""
            import torch, torch.distributed as dist, isobit
            from torch.testing._internal.distributed.fake_pg import FakeStore
            isobit.enable()
            dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
            dist.all_reduce(torch.ones(3))
        """)
        self.assertEqual(done.returncode, 1)
        self.assertIn("c10d::allreduce_ is certified for integers, or for a group of one rank", done.stderr)
        self.assertIn("  at     train.py:6\n", done.stderr)
        self.assertIn("DistributedDataParallel", done.stderr)
        self.assertIn("isobit.distributed.exact(ddp)", done.stderr)
        self.assertIn("python -m isobit launch", done.stderr)


if __name__ == "__main__":
    unittest.main()
