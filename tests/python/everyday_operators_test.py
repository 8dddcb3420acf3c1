"""Windows, powers and parts of factorisations that scripts call: values near float64's, one set of bits everywhere."""

import itertools
import unittest

import torch
from cases import Case

import isobit

torch.manual_seed(6)
X, SQUARE = torch.randn(3, 6, 5), torch.randn(5, 5)
CALLS = {
    "kaiser_window": lambda: [torch.kaiser_window(n, periodic, beta) for n in (0, 1, 2, 7, 64) for periodic in (False, True)
                              for beta in (0.0, 3.5, 12.0, 60.0)],
    "kaiser_window, by default": lambda: [torch.kaiser_window(9), torch.kaiser_window(9, False)],
    "kaiser_window in float64": lambda: [torch.kaiser_window(50, True, b, dtype=torch.float64) for b in (-2.0, 12.0, 80.0)],
    "ldexp": lambda: [X.clone().ldexp_(torch.tensor(3)), torch.ldexp(X, torch.tensor([1, -2, 0, 4, 9]), out=torch.empty(0))],
    "float_power": lambda: [torch.float_power(X.abs(), 1.7), torch.float_power(2, X), torch.float_power(X.abs(), X),
                            torch.float_power(torch.arange(5), 2)],
    "linalg_lu": lambda: [*torch.linalg.lu(X), *torch.linalg.lu(X.mT), *torch.linalg.lu(SQUARE, out=[torch.empty(0) for _ in range(3)])],
    "lu_unpack": lambda: [*torch.lu_unpack(*torch.linalg.lu_factor(X)), *torch.lu_unpack(*torch.linalg.lu_factor(X), unpack_pivots=False)],
    "triangular_solve": lambda: [*torch.triangular_solve(X[0, :5], SQUARE + 5 * torch.eye(5)),
                                 *torch.triangular_solve(X[0, :5], SQUARE + 5 * torch.eye(5), out=(torch.empty(0), torch.empty(0)))],
}


class Operators(Case):
    def test_same_bits_everywhere_near_stock(self):
        before = torch.get_num_threads()
        for name, call in CALLS.items():
            stock, found = call(), []
            for isa, threads in itertools.product(("reference", "auto"), (1, 2, 3)):
                torch.set_num_threads(threads)
                with isobit.enabled(isa=isa):
                    found.append(call())
            torch.set_num_threads(before)
            for results in found:
                for first, mine, theirs in zip(found[0], results, stock, strict=True):
                    self.assertTrue(torch.equal(first, mine), name)
                    self.assertEqual((mine.dtype, mine.shape), (theirs.dtype, theirs.shape), name)
                    torch.testing.assert_close(mine, theirs, rtol=1e-5 if mine.dtype == torch.float32 else 1e-12, atol=1e-6, msg=name)

    def test_parts_make_the_matrix_again(self):
        with isobit.enabled():
            for a in (X, X.mT, SQUARE):
                p, low, up = torch.linalg.lu(a)
                torch.testing.assert_close(p @ low @ up, a, rtol=1e-5, atol=1e-5)
                self.assertTrue(torch.equal(p.sum(-1), torch.ones(p.shape[:-1])))

    def test_gradients_of_parts(self):
        def gradient(dtype):
            a = SQUARE.to(dtype, copy=True).requires_grad_()
            _, low, up = torch.linalg.lu(a)
            (low.sum() + up.pow(2).sum()).backward()
            return a.grad

        with isobit.enabled():
            found = gradient(torch.float32)
        torch.testing.assert_close(found.double(), gradient(torch.float64), rtol=1e-3, atol=1e-3)

    def test_what_is_refused(self):
        with isobit.enabled():
            self.assert_refuses("float32 and float64 only", lambda: torch.kaiser_window(5, dtype=torch.bfloat16))
            self.assert_refuses("without pivoting", lambda: torch.linalg.lu(SQUARE, pivot=False))
            self.assertEqual(torch.kaiser_window(5, device="meta").shape, (5,))


if __name__ == "__main__":
    unittest.main()
