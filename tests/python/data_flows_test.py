"""What loads, saves, moves, reinterprets, prints, compares or indexes values of any type passes; what would show a machine's own
choice of bits does not."""

import copy
import io
import os
import pickle
import tempfile
import unittest

import numpy
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import isobit

torch.manual_seed(5)
X = torch.randn(7, 6)
EVERY_TYPE = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64,
              torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
REAL_FLOATS = EVERY_TYPE[:4]


def values(dtype):
    return (X * 20).to(dtype)


class DataFlows(unittest.TestCase):
    def test_values_of_every_type_are_printed_moved_and_compared_as_by_stock(self):
        flows = {
            "repr": repr, "str of one": lambda x: str(x[0, 0]), "list": torch.Tensor.tolist, "copy": copy.deepcopy,
            "index": lambda x: x[[2, 0], 1:], "transposed": lambda x: x.T.contiguous(),
            "stack": lambda x: torch.stack([x, x], 1), "concatenate": lambda x: torch.cat([x, x], 1), "to float32": lambda x: x.float(),
            "equal": lambda x: torch.equal(x, x.clone()), "bytes": lambda x: x.contiguous().view(torch.uint8),
        }
        # Stock itself has none of these of 8-bit floats.
        wide = {"pickle": lambda x: pickle.loads(pickle.dumps(x)), "mask": lambda x: x[x != 0], "places": lambda x: torch.where(x != 0), "chosen": lambda x: torch.where(x == 0, x, x),
                 "filled": lambda x: x.clone().masked_fill_(X > 0, 1), "gathered": lambda x: x.gather(1, torch.zeros(7, 2, dtype=torch.long))}
        for dtype in EVERY_TYPE:
            x = values(dtype)
            for name, flow in {**flows, **(wide if "float8" not in str(dtype) else {})}.items():
                with self.subTest(name, dtype=dtype):
                    expected = flow(x)
                    with isobit.enabled():
                        found = flow(x)
                    self.assertEqual(repr(found), repr(expected))

    def test_files_and_arrays(self):
        with isobit.enabled(), tempfile.TemporaryDirectory() as folder:
            for dtype in EVERY_TYPE:
                path = os.path.join(folder, "x.pt")
                torch.save({"x": values(dtype)}, path)
                for mmap in (False, True):
                    loaded = torch.load(path, mmap=mmap)["x"]
                    self.assertEqual(loaded.dtype, dtype)
                    self.assertTrue(torch.equal(loaded.float(), values(dtype).float()))
            for dtype in (torch.float64, torch.float32, torch.float16, torch.int32):
                array = values(dtype).numpy()
                self.assertTrue(torch.equal(torch.from_numpy(array.copy()), values(dtype)))
                self.assertTrue(torch.equal(torch.frombuffer(bytearray(array.tobytes()), dtype=dtype).view(7, 6), values(dtype)))
            stream = io.BytesIO()
            numpy.save(stream, X.numpy())
            self.assertTrue(torch.equal(torch.from_numpy(numpy.load(io.BytesIO(stream.getvalue()))), X))

    def test_bits_of_floats_are_those_of_numpy(self):
        for dtype, integers, name in ((torch.float64, torch.int64, numpy.int64), (torch.float32, torch.int32, numpy.int32),
                                      (torch.float16, torch.int16, numpy.int16)):
            x = values(dtype)
            with isobit.enabled():
                self.assertEqual(x.view(integers).tolist(), x.numpy().view(name).tolist())
                self.assertTrue(torch.equal(x.view(integers).view(dtype), x))

    def test_which_nan_a_machine_makes_is_not_shown(self):
        """0 / 0 is a NaN of the other sign on x86 than on ARM: read as an integer, it would choose between two programs."""
        zero = torch.zeros(1)
        with isobit.enabled():
            self.assertEqual(torch.tensor([float("nan")]).view(torch.int32).item(), 0x7FC00000)
            for made in (zero / zero, -torch.tensor([float("nan")])):
                if made.numpy().view(numpy.int32)[0] == 0x7FC00000:
                    continue  # this machine's choice is the canonical one
                for flow in (lambda x: x.view(torch.int32), lambda x: x.view(torch.uint8), lambda x: x.view(torch.float16),
                             lambda x: torch.stack([x[0], x[0]])[1:].view(torch.int32)):
                    with self.assertRaisesRegex(isobit.RefusedError, "canonical"):
                        flow(made)

    def test_floats_beyond_an_integer_type(self):
        hostile = torch.tensor([3e9, -3e9, float("nan"), float("inf"), -float("inf"), -1.5, 300.7])
        with isobit.enabled():
            self.assertEqual(hostile.int().tolist(), [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), -1, 300])
            self.assertEqual(hostile.byte().tolist(), [255, 0, 0, 255, 0, 0, 255])
            self.assertEqual(hostile.long().tolist(), [3000000000, -3000000000, 0, 2**63 - 1, -(2**63), -1, 300])
            for dtype in REAL_FLOATS:
                self.assertEqual(hostile.to(dtype)[2:].short().tolist()[:3], [0, 2**15 - 1, -(2**15)])

    def test_counts(self):
        with isobit.enabled():
            self.assertEqual(torch.histc(torch.tensor([1.0, 2.0, 1.0, 9.0]), bins=4, min=0, max=3).tolist(), [0, 2, 1, 0])
            self.assertEqual(torch.bincount(torch.tensor([0, 1, 1, 3]), torch.tensor([0.5, 1, 1, 2])).tolist(), [0.5, 2, 0, 2])
            self.assertTrue(torch.isin(torch.tensor([1.0, float("nan")]), torch.tensor([1.0])).tolist() == [True, False])
            for window in (torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window):
                self.assertEqual(window(9).shape, (9,))

    def test_distributed_data_parallel_with_one_process(self):
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=0, world_size=1)
            self.addCleanup(torch.distributed.destroy_process_group)
            ended = []
            for wrap in (lambda model: model, DistributedDataParallel):
                with isobit.enabled():
                    torch.manual_seed(1)
                    model = torch.nn.Sequential(torch.nn.Linear(6, 33), torch.nn.BatchNorm1d(33), torch.nn.ReLU(), torch.nn.Linear(33, 4))
                    wrapped, optimizer = wrap(model), torch.optim.AdamW(model.parameters())
                    for _ in range(3):
                        optimizer.zero_grad()
                        wrapped(X).square().mean().backward()
                        optimizer.step()
                    ended.append(isobit.fingerprint(model))
            self.assertEqual(ended[0], ended[1])
            with isobit.enabled():
                x = torch.ones(3)
                torch.distributed.all_reduce(x)
                self.assertEqual(x.tolist(), [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
