"""Every class of torch.distributions: samples, log_prob, gradients; the same bits of every implementation and thread count."""

import contextlib
import inspect
import unittest

import torch
from cases import Case
from torch import distributions as d

import isobit

N = 4000


def positive(*sizes):
    return torch.rand(*sizes) + 0.5


def covariance(n):
    a = torch.linspace(-1, 1, n * n).reshape(n, n).sin()
    return a @ a.mT + torch.eye(n)


# Name: a function of binary32 or binary64 parameters that makes the distribution; its parameters. Those whose samples follow
# the parameters (rsample) get their gradients compared with a formula's, below.
MADE = {
    "Bernoulli": (lambda p: d.Bernoulli(p), [torch.tensor([0.2, 0.5, 0.9])]),
    "Beta": (lambda a, b: d.Beta(a, b), [torch.tensor([0.7, 2.0, 30.0]), torch.tensor([1.5, 0.6, 20.0])]),
    "Binomial": (lambda p: d.Binomial(40, p), [torch.tensor([0.1, 0.5, 0.93])]),
    "Categorical": (lambda p: d.Categorical(p), [torch.tensor([0.1, 0.2, 0.3, 0.4])]),
    "Cauchy": (lambda m, s: d.Cauchy(m, s), [torch.tensor([0.5, -1.0]), torch.tensor([1.0, 2.0])]),
    "Chi2": (lambda k: d.Chi2(k), [torch.tensor([0.5, 3.0, 20.0])]),
    "ContinuousBernoulli": (lambda p: d.ContinuousBernoulli(p), [torch.tensor([0.2, 0.7])]),
    "Dirichlet": (lambda c: d.Dirichlet(c), [torch.tensor([[0.6, 2.0, 5.0], [3.0, 3.0, 1.0]])]),
    "Exponential": (lambda r: d.Exponential(r), [torch.tensor([0.5, 3.0])]),
    "FisherSnedecor": (lambda a, b: d.FisherSnedecor(a, b), [torch.tensor([5.0, 12.0]), torch.tensor([18.0, 30.0])]),
    "Gamma": (lambda a, r: d.Gamma(a, r), [torch.tensor([0.4, 2.0, 50.0]), torch.tensor([1.0, 0.5, 3.0])]),
    "GeneralizedPareto": (lambda m, s: d.GeneralizedPareto(m, s, torch.full_like(m, 0.1)), [torch.zeros(2), torch.tensor([1.0, 2.0])]),
    "Geometric": (lambda p: d.Geometric(p), [torch.tensor([0.2, 0.7])]),
    "Gumbel": (lambda m, s: d.Gumbel(m, s), [torch.tensor([0.5, -1.0]), torch.tensor([1.0, 2.0])]),
    "HalfCauchy": (lambda s: d.HalfCauchy(s), [torch.tensor([1.0, 2.0])]),
    "HalfNormal": (lambda s: d.HalfNormal(s), [torch.tensor([1.0, 2.0])]),
    "Independent": (lambda m, s: d.Independent(d.Normal(m, s), 1), [torch.zeros(2, 3), positive(2, 3)]),
    "InverseGamma": (lambda a, r: d.InverseGamma(a, r), [torch.tensor([5.0, 9.0]), torch.tensor([1.0, 2.0])]),
    "Kumaraswamy": (lambda a, b: d.Kumaraswamy(a, b), [torch.tensor([0.8, 2.0]), torch.tensor([1.5, 3.0])]),
    "LKJCholesky": (lambda c: d.LKJCholesky(3, c), [torch.tensor(1.5)]),
    "Laplace": (lambda m, s: d.Laplace(m, s), [torch.tensor([0.5, -1.0]), torch.tensor([1.0, 2.0])]),
    "LogNormal": (lambda m, s: d.LogNormal(m, s), [torch.tensor([0.2, -1.0]), torch.tensor([0.3, 0.5])]),
    "LogisticNormal": (lambda m, s: d.LogisticNormal(m, s), [torch.zeros(3), torch.ones(3)]),
    "LowRankMultivariateNormal": (lambda m, f, v: d.LowRankMultivariateNormal(m, f, v),
                                  [torch.zeros(4), torch.linspace(-1, 1, 8).reshape(4, 2), torch.full((4,), 0.7)]),
    "MixtureSameFamily": (lambda p, m: d.MixtureSameFamily(d.Categorical(p), d.Normal(m, torch.ones_like(m))),
                          [torch.tensor([0.3, 0.7]), torch.tensor([-1.0, 2.0])]),
    "Multinomial": (lambda p: d.Multinomial(30, p), [torch.tensor([0.2, 0.3, 0.5])]),
    "MultivariateNormal": (lambda m, c: d.MultivariateNormal(m, c), [torch.zeros(3), covariance(3)]),
    "NegativeBinomial": (lambda n, p: d.NegativeBinomial(n, p), [torch.tensor([3.0, 12.0]), torch.tensor([0.3, 0.6])]),
    "Normal": (lambda m, s: d.Normal(m, s), [torch.tensor([0.5, -1.0]), torch.tensor([1.0, 2.0])]),
    "OneHotCategorical": (lambda p: d.OneHotCategorical(p), [torch.tensor([0.1, 0.2, 0.7])]),
    "OneHotCategoricalStraightThrough": (lambda p: d.OneHotCategoricalStraightThrough(p), [torch.tensor([0.1, 0.2, 0.7])]),
    "Pareto": (lambda s, a: d.Pareto(s, a), [torch.tensor([1.0, 2.0]), torch.tensor([6.0, 9.0])]),
    "Poisson": (lambda r: d.Poisson(r), [torch.tensor([0.5, 8.0, 200.0])]),
    "RelaxedBernoulli": (lambda p: d.RelaxedBernoulli(torch.tensor(0.7, dtype=p.dtype), p), [torch.tensor([0.2, 0.6])]),
    "RelaxedOneHotCategorical": (lambda p: d.RelaxedOneHotCategorical(torch.tensor(0.7, dtype=p.dtype), p), [torch.tensor([0.2, 0.8])]),
    "StudentT": (lambda k, m: d.StudentT(k, m), [torch.tensor([7.0, 20.0]), torch.tensor([0.0, 1.0])]),
    "TransformedDistribution": (lambda m: d.TransformedDistribution(d.Normal(m, torch.ones_like(m)), [d.ExpTransform()]),
                                [torch.tensor([0.1, -0.5])]),
    "Uniform": (lambda a, b: d.Uniform(a, b), [torch.tensor([0.0, -2.0]), torch.tensor([1.0, 5.0])]),
    "VonMises": (lambda m, k: d.VonMises(m, k), [torch.tensor([0.0, 1.0]), torch.tensor([0.5, 6.0])]),
    "Weibull": (lambda s, k: d.Weibull(s, k), [torch.tensor([1.0, 2.0]), torch.tensor([1.5, 3.0])]),
    "Wishart": (lambda c: d.Wishart(torch.tensor(12.0, dtype=c.dtype), c), [covariance(3)]),
}
REFUSED: dict[str, str] = {}  # name: what its refusal says


HEAVY = {"Cauchy", "HalfCauchy", "FisherSnedecor", "InverseGamma", "StudentT", "Pareto", "GeneralizedPareto"}  # variances tell little


def made(name, dtype=torch.float32, gradients=False):
    function, parameters = MADE[name]
    given = [p.detach().to(dtype, copy=True).requires_grad_(gradients) for p in parameters]
    return function(*given), given


def drawn(name, count=N):
    torch.manual_seed(11)
    return made(name)[0].sample((count,))


def each(test):
    """The test, of a name, for every class that is not refused."""

    def run(self):
        for name in MADE:
            if name not in REFUSED:
                with self.subTest(name):
                    test(self, name)

    return run


class Distributions(Case):
    def test_every_class_is_here(self):
        classes = {name for name in d.__all__ if inspect.isclass(getattr(d, name)) and issubclass(getattr(d, name), d.Distribution)}
        self.assertEqual(classes - {"Distribution", "ExponentialFamily"}, set(MADE))

    @each
    def test_samples_are_the_same_everywhere(self, name):
        before = torch.get_num_threads()
        try:
            seen = set()
            for isa, threads in (("auto", 1), ("auto", 2), ("reference", 1)):
                torch.set_num_threads(threads)
                with isobit.enabled(isa=isa):
                    seen.add(isobit.fingerprint(drawn(name, 400)))
            self.assertEqual(len(seen), 1)
        finally:
            torch.set_num_threads(before)

    @each
    def test_samples_follow_the_distribution(self, name):
        with isobit.enabled():
            x = drawn(name).double()
        distribution, _ = made(name, torch.float64)
        self.assertEqual(x.shape, (N, *distribution.batch_shape, *distribution.event_shape))
        if name not in ("Wishart", "LKJCholesky", "TransformedDistribution", "LogisticNormal", "RelaxedOneHotCategorical"):
            self.assertTrue(distribution.support.check(x.float()).all())
        self.assertTrue(x.isfinite().all())
        try:
            mean, variance = distribution.mean, distribution.variance
        except NotImplementedError:
            return
        if not mean.isfinite().all() or name in ("Categorical", "VonMises"):
            return
        error = (x.mean(0) - mean).abs()
        self.assertTrue((error <= 6 * (variance / N).sqrt() + 1e-6).all(), (error, variance))
        if name not in HEAVY:
            self.assertTrue(((x.var(0) - variance).abs() <= 0.25 * variance + 1e-6).all(), (x.var(0), variance))

    @each
    def test_log_prob_and_its_gradients_are_near_float64(self, name):
        with isobit.enabled():
            x = drawn(name, 200)
            distribution, parameters = made(name, gradients=True)
            ours = distribution.log_prob(x)
            gradients = torch.autograd.grad(ours.sum(), parameters)
        torch.set_default_dtype(torch.float64)  # GeneralizedPareto makes numbers of its own
        try:
            distribution, parameters = made(name, torch.float64, gradients=True)
            distribution._validate_args = False  # what was rounded to binary32 may miss the support by an ulp
            wide = distribution.log_prob(x.double())
            expected = torch.autograd.grad(wide.sum(), parameters)
        finally:
            torch.set_default_dtype(torch.float32)
        for got, exact in zip([ours, *gradients], [wide, *expected], strict=True):
            self.assertLess((got - exact).abs().max().item(), 2e-4 * (1 + exact.abs().max().item()))

    @each
    def test_samples_move_with_their_parameters(self, name):
        """The mean of the samples' gradients is the gradient of the mean."""
        if not made(name)[0].has_rsample or name in HEAVY or name == "Wishart":  # stock cannot differentiate Wishart.rsample
            return
        results = []
        for isa in ("auto", "reference"):
            with isobit.enabled(isa=isa):
                torch.manual_seed(12)
                distribution, parameters = made(name, gradients=True)
                x = distribution.rsample((N,))
                results.append(torch.autograd.grad(x.mean(0).sum(), parameters, allow_unused=True))
        for a, b in zip(*results, strict=True):
            self.assertEqual(a is None, b is None)
            if a is not None:
                self.assertEqual(isobit.fingerprint(a), isobit.fingerprint(b))
                self.assertTrue(a.isfinite().all())
        distribution, parameters = made(name, torch.float64, gradients=True)
        try:
            exact = torch.autograd.grad(distribution.mean.sum(), parameters, allow_unused=True)
        except (NotImplementedError, RuntimeError):
            return
        for got, expected in zip(results[0], exact, strict=True):
            if got is not None and expected is not None:
                self.assertLess((got - expected).abs().max().item(), 0.1 * (1 + expected.abs().max().item()))

    def test_what_is_refused_says_so(self):
        for name, words in REFUSED.items():
            with self.subTest(name), isobit.enabled():
                self.assert_refuses(words, lambda name=name: drawn(name, 10))


class Draws(Case):
    def test_one_number_of_the_generator_a_call(self):
        rate, shape = torch.full((50,), 3.0), torch.full((50,), 0.4)
        calls = [lambda: torch.poisson(rate), lambda: torch._standard_gamma(shape), lambda: torch._sample_dirichlet(shape),
                 lambda: torch.binomial(rate, shape)]
        with isobit.enabled():
            for call in calls:
                torch.manual_seed(5)
                call()
                after = torch.rand(3)
                torch.manual_seed(5)
                torch.rand(1)
                self.assertTrue(torch.equal(torch.rand(3), after))

    def test_elements_do_not_depend_on_each_other(self):
        shape = torch.tensor([0.3, 2.0, 7.0, 100.0])
        with isobit.enabled():
            torch.manual_seed(6)
            together = torch._standard_gamma(shape)
            torch.manual_seed(6)
            other = torch._standard_gamma(torch.tensor([5.0, 2.0, 1e-3, 100.0, 3.0]))
            self.assertEqual((together[1], together[3]), (other[1], other[3]))
            torch.manual_seed(6)
            scattered = torch._standard_gamma(shape.repeat(2, 1).t()[:, 0])
            self.assertTrue(torch.equal(scattered, together))

    def test_ends(self):
        nan = float("nan")
        with isobit.enabled():
            self.assertRaisesRegex(RuntimeError, "non-negative", lambda: torch.poisson(torch.tensor([-1.0])))
            self.assertRaisesRegex(RuntimeError, "non-negative", lambda: torch.poisson(torch.tensor([nan])))
            self.assertTrue(torch._standard_gamma(torch.tensor([nan, -1.0])).isnan().all())
            self.assertEqual(torch._standard_gamma(torch.empty(0, 3)).shape, (0, 3))
            self.assertEqual(torch._sample_dirichlet(torch.empty(2, 0)).shape, (2, 0))
            tiny = torch._sample_dirichlet(torch.full((100, 5), 1e-4))
            self.assertTrue(((tiny.sum(-1) - 1).abs() < 1e-5).all())
            self.assert_refuses("float32", lambda: torch.poisson(torch.ones(3, dtype=torch.float64)))
            self.assert_refuses("float32", lambda: torch._standard_gamma(torch.ones(3, dtype=torch.float64)))


class SpecialFunctions(Case):
    def test_values_and_gradients_are_near_float64(self):
        x, y = torch.linspace(0.05, 0.95, 301), torch.linspace(0.1, 9, 301)
        functions = {
            "erfinv": lambda t: torch.erfinv(t * 2 - 1), "ndtri": torch.special.ndtri, "ndtr": torch.special.ndtr,
            "log_ndtr": torch.special.log_ndtr, "erfcx": torch.special.erfcx, "entr": torch.special.entr,
            "digamma": torch.digamma, "psi": torch.special.psi, "gammaln": torch.special.gammaln, "lgamma": torch.lgamma,
            "polygamma": lambda t: torch.polygamma(1, t), "polygamma 3": lambda t: torch.special.polygamma(3, t),
            "i0": torch.i0, "i0e": torch.special.i0e, "i1": torch.special.i1, "i1e": torch.special.i1e,
            "mvlgamma": lambda t: torch.mvlgamma(t + 2, 3), "multigammaln": lambda t: torch.special.multigammaln(t + 2, 2),
            "xlog1py": lambda t: torch.special.xlog1py(t, t), "gammainc": lambda t: torch.special.gammainc(y.to(t), t),
            "gammaincc": lambda t: torch.special.gammaincc(y.to(t), t * 3), "zeta": lambda t: torch.special.zeta(1 + y.to(t), t),
            "zeta of a number": lambda t: torch.special.zeta(3.0, t),
        }
        for name, function in functions.items():
            with self.subTest(name):
                results = []
                for dtype in (torch.float32, torch.float64):
                    given = x.to(dtype, copy=True).requires_grad_()
                    switch = isobit.enabled() if dtype == torch.float32 else contextlib.nullcontext()
                    with switch:
                        value = function(given)
                        (gradient,) = torch.autograd.grad(value.sum(), given)
                    results.append((value.detach(), gradient))
                for got, exact in zip(*results, strict=True):
                    self.assertLess(((got - exact).abs() / (exact.abs() + 1e-2)).max().item(), 2e-5)

    def test_signbit_and_frexp(self):
        x = torch.tensor([1.0, -1.0, 0.0, -0.0, float("inf"), -float("inf"), 1e-45, -3e-39, 3e38, -0.75])
        value, nan = x.clone(), torch.tensor([float("nan"), -float("nan")])
        sign, (mantissa, exponent) = torch.signbit(x), torch.frexp(x)
        with isobit.enabled():
            self.assertTrue(torch.equal(torch.signbit(x), sign))
            self.assertEqual(torch.signbit(nan).tolist(), [False, False])
            self.assertEqual(torch.signbit(torch.tensor([-3, 0, 4])).tolist(), [True, False, False])
            out = torch.empty(10, dtype=torch.bool)
            torch.signbit(x, out=out)
            self.assertTrue(torch.equal(out, sign))
            ours = torch.frexp(x)
            self.assertTrue(torch.frexp(nan).mantissa.isnan().all())
            self.assertEqual(torch.frexp(nan).exponent.tolist(), [0, 0])
        self.assertTrue(torch.equal(ours.mantissa, mantissa))
        finite = value.isfinite()
        self.assertTrue(torch.equal(ours.exponent[finite], exponent[finite]))
        self.assertEqual(ours.exponent.dtype, torch.int32)

    def test_polygamma_of_every_order(self):
        x = torch.tensor([0.5, 3.0, -0.5])
        with isobit.enabled():
            self.assertTrue(torch.equal(torch.polygamma(0, x), torch.digamma(x)))
            self.assertTrue(torch.equal(x.clone().polygamma_(4), torch.polygamma(4, x)))
            self.assertRaisesRegex(RuntimeError, "negative", lambda: torch.polygamma(-1, x))


if __name__ == "__main__":
    unittest.main()
