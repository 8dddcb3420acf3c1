"""isobit.distributed.exact: one mean of gradients over buckets, orders of ranks and kernels; what fails, fails on every rank."""

import contextlib
import os
import signal
import unittest
import warnings

import torch
from cases import Case
from ranks import on_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import isobit
from isobit._base import _sums
from isobit._base._sums import ExactSum

KILOBYTE = 1e-3
# Values of every limb, with ties, subnormals and cancellation.
HOSTILE = torch.tensor([1e30, -1e30, 1.0, 2.0**-149, -(2.0**-149), 2.0**112, -(2.0**112), 2.0**23, 2.0**-66, -0.0, 0.0, 3.1e-20, 7.7,
                        -1e-38, 2.0**-22 * 1.5])


def net():
    return nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 41), nn.Tanh(), nn.Linear(41, 3))


def shard(number, samples=7):
    return torch.randn(samples, 20, generator=torch.Generator().manual_seed(100 + number))


def bits(tensors):
    return [tensor.detach().clone().view(torch.int32).tolist() for tensor in tensors]


def mean_of(gradients):
    """By one process: of [[a gradient for each parameter] for each rank]."""
    means = []
    for of_parameter in zip(*gradients, strict=True):
        total, mean = ExactSum(of_parameter[0]), torch.empty_like(of_parameter[0])
        for gradient in of_parameter:
            total.add(gradient)
        total.result(mean)
        means.append(mean / len(gradients))
    return means


def gradients_of(model, x):
    model.zero_grad()
    model(x).square().mean().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def train(rank, of_rank, cap, view, isa="auto", steps=4, **settings):
    """Bits of the first step's gradients and of the last weights."""
    with isobit.enabled(isa):
        isobit.seed(1)
        model = net()
        ddp = isobit.distributed.exact(DistributedDataParallel(model, bucket_cap_mb=cap, gradient_as_bucket_view=view, **settings))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
        first = None
        for step in range(steps):
            optimizer.zero_grad()
            ddp(shard(10 * step + of_rank[rank])).square().mean().backward()
            first = first or bits(parameter.grad for parameter in model.parameters())
            optimizer.step()
        return first, bits(model.parameters())


def trainings(rank, ranks):
    """Over sizes of buckets, views, orders of ranks and kernels; the first step makes buckets that the second makes anew."""
    found = []
    for cap in (KILOBYTE / 5, KILOBYTE, 6 * KILOBYTE, 25):
        for view in (False, True):
            found.append(train(rank, list(range(ranks)), cap, view))
    found.append(train(rank, list(reversed(range(ranks))), KILOBYTE, view=False))
    found.append(train(rank, list(range(ranks)), 2 * KILOBYTE, view=False, isa="reference" if rank % 2 else "auto"))
    found.append(train(rank, list(range(ranks)), 2 * KILOBYTE, view=False, static_graph=True))
    return found


class Scaled(nn.Module):
    """Its parameters' gradients are what it is given."""

    def __init__(self, sizes):
        super().__init__()
        self.parts = nn.ParameterList([nn.Parameter(torch.zeros(size)) for size in sizes])

    def forward(self, gradients):
        return torch.stack([(part * gradient).sum() for part, gradient in zip(self.parts, gradients, strict=True)]).sum()


def hostile(number, sizes):
    generator = torch.Generator().manual_seed(number)
    return [HOSTILE[torch.randint(len(HOSTILE), (size,), generator=generator)] * 2.0 ** (number % 3) for size in sizes]


def given_gradients(rank, ranks, sizes):
    found = []
    for of_rank in (list(range(ranks)), list(reversed(range(ranks)))):
        for cap in (KILOBYTE / 10, KILOBYTE, 25):
            model = Scaled(sizes)
            ddp = isobit.distributed.exact(DistributedDataParallel(model, bucket_cap_mb=cap))
            ddp(hostile(of_rank[rank], sizes)).backward()
            found.append(bits(parameter.grad for parameter in model.parameters()))
    return found


class Means(Case):
    def equal_on_ranks(self, results):
        for result in results:
            if isinstance(result, Exception):
                raise result
            self.assertEqual(result, results[0])
        return results[0]

    def test_buckets_orders_and_kernels_change_no_bit(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                found = self.equal_on_ranks(on_ranks(ranks, trainings, ranks))
                for other in found:
                    self.assertEqual(other, found[0])
                with isobit.enabled():
                    isobit.seed(1)
                    model = net()
                    of_ranks = [gradients_of(model, shard(rank)) for rank in range(ranks)]
                    expected = of_ranks[0] if ranks == 1 else mean_of(of_ranks)
                self.assertEqual(found[0][0], bits(expected))

    def test_hostile_gradients(self):
        sizes = [1, 7, 300, 2, 64, 33, 1000]
        for ranks in (2, 3):
            expected = bits(mean_of([hostile(number, sizes) for number in range(ranks)]))
            for found in self.equal_on_ranks(on_ranks(ranks, given_gradients, ranks, sizes)):
                self.assertEqual(found, expected)

    def test_no_sync_adds_on_each_rank_first(self):
        def work(rank, cap):
            with isobit.enabled():
                isobit.seed(1)
                model = net()
                ddp = isobit.distributed.exact(DistributedDataParallel(model, bucket_cap_mb=cap))
                for number in range(3):
                    with contextlib.nullcontext() if number == 2 else ddp.no_sync():
                        ddp(shard(10 * number + rank)).square().mean().backward()
                return bits(parameter.grad for parameter in model.parameters())

        with isobit.enabled():
            isobit.seed(1)
            model, of_ranks = net(), []
            for rank in range(2):
                model.zero_grad()
                for number in range(3):
                    model(shard(10 * number + rank)).square().mean().backward()
                of_ranks.append([parameter.grad.clone() for parameter in model.parameters()])
            expected = bits(mean_of(of_ranks))
        for cap in (KILOBYTE, 25):
            self.assertEqual(self.equal_on_ranks(on_ranks(2, work, cap)), expected)

    def test_unused_parameters(self):
        class Branches(nn.Module):
            def __init__(self):
                super().__init__()
                self.branches, self.never = nn.ModuleList([nn.Linear(20, 5), nn.Linear(20, 5)]), nn.Linear(20, 5)

            def forward(self, x, branch):
                return self.branches[branch](x)

        def work(rank, cap, view):
            with isobit.enabled():
                isobit.seed(1)
                model = Branches()
                ddp = isobit.distributed.exact(DistributedDataParallel(
                    model, bucket_cap_mb=cap, find_unused_parameters=True, gradient_as_bucket_view=view))
                for _ in range(3):
                    model.zero_grad()
                    ddp(shard(rank), rank).square().mean().backward()
                return [parameter.grad is None or not parameter.grad.any() for parameter in model.never.parameters()], \
                    bits(parameter.grad for parameter in model.branches.parameters())

        with isobit.enabled():
            isobit.seed(1)
            model, of_ranks = Branches(), []
            for rank in range(2):
                model.zero_grad()
                model(shard(rank), rank).square().mean().backward()
                of_ranks.append([torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
                                 for parameter in model.branches.parameters()])
            expected = [True, True], bits(mean_of(of_ranks))
        for cap, view in ((KILOBYTE, False), (25, True)):
            self.assertEqual(self.equal_on_ranks(on_ranks(2, work, cap, view)), expected)


class Failures(Case):
    def failing(self, ranks, work, *arguments, **settings):
        results = on_ranks(ranks, work, *arguments, **settings)
        for result in results:
            self.assertIsInstance(result, Exception, result)
        return [str(result) for result in results]

    def test_without_the_hook_every_rank_is_told_both_ways(self):
        def work(rank):
            with isobit.enabled():
                ddp = DistributedDataParallel(net())
                ddp(shard(rank)).sum().backward()

        for result in on_ranks(2, work):
            self.assertIsInstance(result, isobit.RefusedError)
            self.assertIn("isobit.distributed.exact(ddp)", str(result))
            self.assertIn("python -m isobit launch", str(result))

    def test_ranks_with_fewer_batches_are_refused_on_every_rank(self):
        """DDP.join counts the ranks that still have samples by an all-reduce of floats."""
        def work(rank):
            with isobit.enabled():
                ddp = isobit.distributed.exact(DistributedDataParallel(net()))
                with ddp.join():
                    for _ in range(1 + 2 * (rank == 0)):
                        ddp(shard(rank)).sum().backward()

        for result in on_ranks(2, work):
            self.assertIsInstance(result, isobit.RefusedError)
            self.assertIn("c10d::allreduce_", str(result))

    def test_what_is_not_finite_stops_every_rank_alike(self):
        def work(rank, values, cap):
            sizes = [3, 500, 70]
            model = Scaled(sizes)
            with isobit.enabled():
                ddp = isobit.distributed.exact(DistributedDataParallel(model, bucket_cap_mb=cap))
                optimizer = torch.optim.SGD(ddp.parameters(), lr=1.0)
                for step in range(2):
                    gradients = [torch.ones(size) for size in sizes]
                    if step == 1:
                        for part, value in enumerate(values[rank]):
                            gradients[part][-1] = value
                    optimizer.zero_grad()
                    try:
                        ddp(gradients).backward()
                    except RuntimeError as error:
                        moved = [parameter.detach().unique().tolist() for parameter in model.parameters()]
                        return f"{error} {moved == [[-1.0]] * 3}"
                    optimizer.step()
            return "trained"

        def all_of_them(rank, cases):
            return [work(rank, values, cap) for values, _ in cases for cap in (KILOBYTE / 10, 25)]

        inf, huge = float("inf"), 3e38
        beyond = "the gradient of parts.0 is not finite in step 2: the sum over 3 ranks exceeds float32's range True"
        cases = (([(1, 1, 1), (1, float("nan"), inf), (1, inf, 1)], "the gradient of parts.1 is not finite on rank 1 of 3 in step 2 True"),
                 ([(huge, 1, 1), (huge, 1, 1), (1, 1, 1)], beyond))
        self.assertEqual(on_ranks(3, all_of_them, cases), [[cases[0][1]] * 2 + [cases[1][1]] * 2] * 3)

    def test_a_rank_without_the_hook(self):
        def work(rank, on):
            with isobit.enabled() if on else contextlib.nullcontext():
                ddp = DistributedDataParallel(net())
                if rank != 1:
                    isobit.distributed.exact(ddp, timeout=2)
                ddp(shard(rank)).sum().backward()

        texts = self.failing(3, work, True)
        for rank in (0, 2):
            self.assertIn("rank 1 of 3 has not called it within 2 s\n  do     call it on every rank", texts[rank])
        self.assertIn("c10d::allreduce_ is certified for integers", texts[1])
        texts = self.failing(2, work, False)  # stock's all-reduce ends when the other process does
        self.assertIn("rank 1 of 2 has not called it", texts[0])

    def test_ranks_that_differ(self):
        def work(rank, difference):
            with isobit.enabled() if difference != "switch" or rank else contextlib.nullcontext():
                model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
                ddp = DistributedDataParallel(model)
                if difference == "parameters" and rank:
                    model[1].bias.requires_grad_(False)
                ddp = isobit.distributed.exact(ddp, timeout=20)
                if difference == "step":
                    ddp._comm_hooks[0][1]._step += rank
                ddp(torch.ones(2, 4)).sum().backward()

        for difference in ("switch", "parameters"):
            for text in self.failing(2, work, difference):
                self.assertIn(f"isobit.distributed.exact: {difference} is ", text)
        for text in self.failing(2, work, "step"):
            self.assertIn("rank 1 is at step 2 and rank 0 at step 1", text)

    def test_a_rank_that_is_killed_ends_the_others(self):
        def work(rank):
            with isobit.enabled():
                ddp = isobit.distributed.exact(DistributedDataParallel(net(), bucket_cap_mb=KILOBYTE))
                for step in range(3):
                    loss = ddp(shard(rank)).sum()
                    if (rank, step) == (1, 2):
                        os.kill(os.getpid(), signal.SIGKILL)
                    loss.backward()

        first, second = on_ranks(2, work)
        self.assertIsInstance(first, RuntimeError)
        self.assertEqual(second, "killed")

    def test_what_cannot_be_summed_is_refused_by_name(self):
        def work(_rank):
            texts = []
            for part in (nn.Linear(2, 2).double(), nn.Embedding(4, 2, sparse=True), nn.SyncBatchNorm(2)):
                try:
                    with isobit.enabled():
                        ddp = DistributedDataParallel(nn.Sequential(nn.Linear(2, 2)))
                        ddp.module.append(part)  # on the CPU DistributedDataParallel itself refuses the last one
                        isobit.distributed.exact(ddp)
                except isobit.RefusedError as error:
                    texts.append(str(error).splitlines()[0])
            ddp = isobit.distributed.exact(DistributedDataParallel(net()))
            for wrong in (ddp, net()):
                try:
                    isobit.distributed.exact(wrong)
                except (ValueError, TypeError) as error:
                    texts.append(str(error))
            return texts

        end = f" is not certified under {isobit.contract_version}"
        self.assertEqual(on_ranks(1, work), [[
            f"isobit: an exact sum of the gradients of 1.weight (float64){end}",
            f"isobit: an exact sum of the sparse gradients of 1{end}",
            f"isobit: SyncBatchNorm over several ranks (1){end}",
            "isobit.distributed.exact: this DistributedDataParallel has a communication hook already",
            "isobit.distributed.exact takes a DistributedDataParallel, not Sequential"]])

    def test_sharded_models_are_refused_by_name(self):
        def work(_rank):
            import torch.distributed.fsdp as fsdp

            texts = []
            with isobit.enabled():
                for wrap in (fsdp.FullyShardedDataParallel, fsdp.fully_shard):
                    try:
                        wrap(nn.Linear(2, 2))
                    except isobit.RefusedError as error:
                        texts.append(str(error))
            return texts

        for text, name in zip(on_ranks(1, work)[0], ("FullyShardedDataParallel", "fully_shard"), strict=True):
            self.assertIn(f"isobit: torch.distributed.fsdp.{name} is not certified", text)
            self.assertIn("isobit.distributed.exact(ddp)", text)

    def test_what_depends_on_the_number_of_ranks_is_named_once(self):
        def work(_rank):
            model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Dropout(0.0), nn.Linear(4, 4), nn.LSTM(4, 4, 2, dropout=0.1))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                isobit.distributed.exact(DistributedDataParallel(model))
            return [str(warning.message) for warning in caught]

        first, second = on_ranks(2, work)
        self.assertEqual(second, [])
        self.assertEqual([text.split(":")[1].strip() for text in first],
                         ["0 (BatchNorm1d) normalises by each rank's own samples",
                          "1 (Dropout), 4 (LSTM) draws from each rank's own generator"])


class Slices(Case):
    def test_rows_beyond_their_limb_are_noticed(self):
        rows, out = torch.ones(3, 5), torch.empty(5)
        self.assertTrue(_sums.sum_rows(rows, [2, 3], _sums.top_limbs(rows[0], [2, 3]), out))
        self.assertEqual(out.tolist(), [3.0] * 5)
        for value in (2.0**40, float("nan"), float("inf")):
            rows[1, 3] = value
            self.assertFalse(_sums.sum_rows(rows, [2, 3], [0, 0], out))

    def test_sizes_that_do_not_fit(self):
        rows, out = torch.ones(3, 5), torch.empty(5)
        for lengths, limbs, to in (([2, 2], [0, 0], out), ([5], [4], out), ([5], [0], torch.empty(4)), ([6, -1], [0, 0], out),
                                   ([5], [0], torch.empty(5, dtype=torch.float64))):
            with self.assertRaises(TypeError):
                _sums.sum_rows(rows, lengths, limbs, to)
        for lengths in ([4], [6], [6, -1]):
            with self.assertRaises(TypeError):
                _sums.top_limbs(rows[0], lengths)


if __name__ == "__main__":
    unittest.main()
