"""isobit.RecordError: what a record raises of its own, and what stays an error of another kind."""

import json
import pathlib
import pickle
import tempfile
import unittest

import torch
from cases import Case, small_model
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import isobit


class Endless(IterableDataset):
    def __iter__(self):
        return iter(torch.ones(3, 20))


def step(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(2, 20)).sum().backward()
    optimizer.step()


class RecordErrors(Case):
    def setUp(self):
        super().setUp()
        temporary = tempfile.TemporaryDirectory(prefix="isobit-test-")
        self.addCleanup(temporary.cleanup)
        self.runs = pathlib.Path(temporary.name) / "runs"

    def assert_record_error(self, text, function):
        with self.assertRaisesRegex(isobit.RecordError, text) as caught:
            function()
        self.assertIsInstance(caught.exception, RuntimeError)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), str(again)), (type(caught.exception), str(caught.exception)))

    def test_wrong_use(self):
        run = isobit.record(self.runs)
        self.assert_record_error("call run.log in the block", lambda: run.log(loss=1.0))
        with run:
            self.assert_record_error("is already being written", isobit.record(self.runs).__enter__)
            self.assert_record_error("iterable dataset", lambda: run.batches(DataLoader(Endless())))
            loader = DataLoader(TensorDataset(torch.ones(4, 20)))

            def save_early():
                for _ in run.batches(loader):
                    run.save(1)
                    torch.rand(1)

            self.assert_record_error("random numbers came after run.save", save_early)

    def test_a_folder_that_cannot_be_written_names_the_argument(self):
        with self.assertRaisesRegex(PermissionError, r'or name another folder: isobit\.record\("folder"\)\): .*/sys/runs'):
            isobit.record("/sys/runs").__enter__()

    def test_what_cannot_be_resumed(self):
        with isobit.record(self.runs) as run:
            step(small_model())
        self.assert_record_error("no such run", isobit.record(self.runs, resume="20000101-000000-x").__enter__)
        self.assert_record_error("is finished", isobit.record(self.runs, resume=run.id).__enter__)
        self.assertFalse(isobit.is_enabled())

    def test_other_kinds(self):
        with self.assertRaises(ValueError):
            isobit.record(every=0)
        with isobit.record(self.runs) as run:
            for part, values in (("validation\n", {"loss": 1.0}), ("", {"loss": 1.0}), (3, {"loss": 1.0}), ("test", {}),
                                 ("test", {"\x1b[2J": 1.0}), ("test", {" a": 1.0}), ("test", {"a" * 101: 1.0}), ("test", {"é": 1.0}),
                                 ("test", {"x": torch.ones(2)}), ("test", {"x": "1"}), ("test", {"x": None})):
                with self.subTest(part=part, values=values), self.assertRaises(ValueError):
                    run.log(part, **values)
            self.assertEqual((run.path / "metrics.jsonl").read_text(), "")
        (self.runs / "file").write_text("")
        with self.assertRaises(NotADirectoryError):
            isobit.record(self.runs / "file" / "runs").__enter__()

    def test_a_refusal_in_the_block(self):
        """It passes, and the record names it."""
        with self.assertRaises(isobit.RefusedError) as caught, isobit.record(self.runs) as run:
            torch.special.bessel_j0(torch.ones(3))
        self.assertEqual(caught.exception.operator, "aten::special_bessel_j0")
        state = json.loads((run.path / "state.json").read_text())
        self.assertEqual((state["state"], state["reason"]),
                         ("failed", f"RefusedError: isobit: aten::special_bessel_j0 is not certified under {isobit.contract_version}"))


if __name__ == "__main__":
    unittest.main()
