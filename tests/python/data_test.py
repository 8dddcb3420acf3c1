"""Data loading: shuffled orders by the contract, workers under the switch with seeds of their own."""

import random
import unittest

import numpy
import torch
from cases import Case
from torch.utils.data import DataLoader, Dataset, RandomSampler, SubsetRandomSampler, TensorDataset, random_split

import isobit


class Drawing(Dataset):
    """Each sample says what its worker sees."""

    def __len__(self):
        return 12

    def __getitem__(self, place):
        refused = False
        try:
            torch.special.bessel_j0(torch.ones(1))
        except RuntimeError:
            refused = True
        numbers = (random.random(), numpy.random.rand(), torch.rand(1).item())
        return place, refused, isobit.isa() == "reference", torch.get_num_threads(), *numbers


def epoch(context, seed=5):
    torch.manual_seed(seed)
    loader = DataLoader(Drawing(), batch_size=3, shuffle=True, num_workers=2, multiprocessing_context=context)
    return [[column.tolist() for column in batch] for batch in loader]


class Data(Case):
    def test_workers(self):
        with isobit.enabled(isa="reference"):
            forked = epoch("fork")
            self.assertEqual(epoch("fork"), forked)
            self.assertNotEqual(epoch("fork", 6), forked)
            self.assertEqual(epoch("spawn"), forked)
        columns = [[value for batch in forked for value in batch[i]] for i in range(7)]
        self.assertEqual(sorted(columns[0]), list(range(12)))
        self.assertTrue(all(columns[1]), "the switch is on in a worker")
        self.assertTrue(all(columns[2]), "with the same instruction set")
        self.assertEqual(set(columns[3]), {1})
        for column in columns[4:]:
            self.assertEqual(len(set(column)), 12, "workers draw different numbers")

    def test_workers_without_the_switch(self):
        with isobit.enabled():
            pass
        self.assertFalse(any(on for batch in epoch("fork") for on in batch[1]))

    def test_shuffling_is_the_contracts(self):
        data = TensorDataset(torch.arange(300))
        with isobit.enabled():
            orders = []
            for _ in range(2):
                torch.manual_seed(7)
                orders.append([row.item() for (row,) in DataLoader(data, shuffle=True)])
            self.assertEqual(orders[0], orders[1])
            self.assertEqual(sorted(orders[0]), list(range(300)))
            generator = torch.Generator().manual_seed(0)
            self.assertEqual(torch.randperm(5, generator=generator).tolist(),
                             torch.randperm(5, generator=torch.Generator().manual_seed(0)).tolist())
            list(RandomSampler(data, num_samples=700)), list(RandomSampler(data, replacement=True, num_samples=50))
            list(SubsetRandomSampler(range(20))), random_split(data, [100, 200])

    def test_pinned_order(self):
        """Written down once: seed 0, ten numbers (a change here is a change of the contract)."""
        with isobit.enabled():
            torch.manual_seed(0)
            self.assertEqual(torch.randperm(10).tolist(), PINNED)


PINNED = [9, 4, 7, 8, 2, 6, 5, 3, 1, 0]

if __name__ == "__main__":
    unittest.main()
