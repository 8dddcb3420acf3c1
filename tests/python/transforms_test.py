"""functorch's transforms under the switch: they call certified operators, so their bits are the contract's."""

import unittest

import torch
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

import isobit

torch.manual_seed(3)
X, TARGET = torch.randn(7, 6), torch.randint(0, 4, (7,))
MODEL = torch.nn.Sequential(torch.nn.Linear(6, 33), torch.nn.Tanh(), torch.nn.LayerNorm(33), torch.nn.Linear(33, 4))
WEIGHTS = {name: parameter.detach() for name, parameter in MODEL.named_parameters()}


def loss(weights, x, target):
    return torch.nn.functional.cross_entropy(functional_call(MODEL, weights, (x.unsqueeze(0),)), target.unsqueeze(0))


def ensemble():
    models = [torch.nn.Linear(6, 5) for _ in range(3)]
    for number, model in enumerate(models):
        torch.nn.init.constant_(model.weight, 0.1 * (number + 1))
        torch.nn.init.zeros_(model.bias)
    weights, buffers = stack_module_state(models)
    return vmap(lambda w, b, x: functional_call(models[0], (w, b), (x,)), in_dims=(0, 0, None))(weights, buffers, X)


NETWORK = torch.nn.Sequential(torch.nn.Linear(6, 33), torch.nn.LayerNorm(33), torch.nn.GELU(), torch.nn.Linear(33, 4))
ATTENTION = torch.nn.MultiheadAttention(6, 2, batch_first=True).eval()
RECURRENT = {kind: getattr(torch.nn, kind)(6, 5) for kind in ("GRU", "RNN")}
CONVOLUTION = torch.nn.Conv1d(7, 3, 3)
LABELS = torch.arange(7) % 6


def reductions(x):
    return x.std(0), x.logsumexp(1), x.norm(), x.cumsum(0), x.prod(0), x.sort(0)[0]


# Reverse and forward mode, batching: gradients per sample, ensembles, Jacobians, Hessian-vector products.
CERTIFIED = {
    "vmap": lambda: vmap(lambda x: torch.softmax(x, 0) @ x)(X),
    "nested vmap": lambda: vmap(vmap(lambda a: torch.exp(a) * 3))(X),
    "gradient": lambda: grad(lambda x: (torch.sigmoid(x) * x).sum())(X),
    "gradients per sample": lambda: vmap(grad(loss), in_dims=(None, 0, 0))(WEIGHTS, X, TARGET),
    "value and gradients": lambda: vmap(grad_and_value(loss), in_dims=(None, 0, 0))(WEIGHTS, X, TARGET),
    "Jacobian": lambda: jacrev(lambda x: MODEL(x))(X[0]),
    "vector-Jacobian product": lambda: vjp(lambda x: MODEL(x), X)[1](torch.ones(7, 4)),
    "Hessian by reverse mode": lambda: jacrev(grad(lambda x: (torch.tanh(x) ** 2).sum()))(X[0]),
    "ensemble": ensemble,
    "gradient through a recurrent layer": lambda: grad(lambda x: RECURRENT["GRU"](x)[0].sum())(X),
    "jvp": lambda: jvp(torch.tanh, (X,), (X,)),
    "jvp of a network": lambda: jvp(NETWORK, (X,), (X,)),
    "jvp of a convolution": lambda: jvp(CONVOLUTION, (X,), (X,)),
    "jvp of a loss": lambda: jvp(lambda x: torch.nn.functional.cross_entropy(x, LABELS), (X,), (X,)),
    "jvp of attention": lambda: jvp(lambda x: ATTENTION(x, x, x)[0], (X.unsqueeze(0),), (X.unsqueeze(0),)),
    "jvp of recurrent layers": lambda: [jvp(lambda x, kind=kind: RECURRENT[kind](x)[0], (X,), (X,)) for kind in ("RNN", "GRU")],
    "jvp of reductions": lambda: jvp(reductions, (X,), (X,)),
    "jacfwd": lambda: jacfwd(torch.tanh)(X[0]),
    "hessian": lambda: hessian(lambda x: (torch.tanh(x) ** 2).sum())(X[0]),
}
def fingerprint(result):
    if isinstance(result, torch.Tensor):
        return isobit.fingerprint({"result": result.detach()})
    if isinstance(result, dict):
        return {name: fingerprint(part) for name, part in result.items()}
    return [fingerprint(part) for part in result]


class Transforms(unittest.TestCase):
    def test_every_kernel_and_thread_count_gives_the_same_bits(self):
        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)
        for name, call in CERTIFIED.items():
            seen = []
            for isa, count in (("reference", 1), ("auto", 1), ("auto", 2), ("auto", 3)):
                torch.set_num_threads(count)
                with isobit.enabled(isa):
                    seen.append(fingerprint(call()))
            with self.subTest(name):
                self.assertEqual(seen, seen[:1] * len(seen))

    def test_they_are_near_stocks(self):
        def flat(result):
            if isinstance(result, torch.Tensor):
                return [result]
            return [part for inner in (result.values() if isinstance(result, dict) else result) for part in flat(inner)]

        for name, call in CERTIFIED.items():
            with isobit.enabled():
                ours = flat(call())
            for a, b in zip(ours, flat(call()), strict=True):
                self.assertTrue(torch.allclose(a, b, rtol=1e-4, atol=1e-5), name)

    def test_a_gradient_per_sample_is_that_of_the_sample_alone(self):
        """Batching must not change how a sum is rounded where the contract's order does not."""
        with isobit.enabled():
            together = vmap(grad(loss), in_dims=(None, 0, 0))(WEIGHTS, X, TARGET)
            for i in range(len(X)):
                alone = grad(loss)(WEIGHTS, X[i], TARGET[i])
                for name, gradient in alone.items():
                    self.assertTrue(torch.equal(together[name][i], gradient), (name, i))


if __name__ == "__main__":
    unittest.main()
