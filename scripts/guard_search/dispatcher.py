"""Which kernel every operator would reach on every backend, as PyTorch's dispatch tables say while the switch is on."""

import dataclasses

import torch

from isobit._base import _library

# Backends by the row of the table. Composite kernels (aliases) call other operators, which are checked.
GROUPS = {
    "CPU": ("CPU",), "CUDA": ("CUDA",), "Meta (no values)": ("Meta",),
    "sparse, quantized, nested, mkldnn": (
        "SparseCPU", "SparseCUDA", "SparseCsrCPU", "SparseCsrCUDA", "QuantizedCPU", "QuantizedCUDA", "NestedTensorCPU",
        "NestedTensorCUDA", "MkldnnCPU"),
    "other devices": ("XLA", "MPS", "XPU", "HPU", "VE", "Lazy", "MTIA", "MAIA", "PrivateUse1", "PrivateUse2", "PrivateUse3"),
}

# Stock's kernels that may stay for sparse tensors on the CPU: they show or set indices and values, and compute nothing.
SPARSE_PARTS = {
    f"aten::{name}" for name in (
        "_indices", "_values", "indices", "values", "_nnz", "is_coalesced", "sparse_dim", "dense_dim", "_dimI", "_dimV",
        "_coalesced_", "_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "sparse_resize_and_clear_",
        "clone", "zero_")
}


@dataclasses.dataclass
class Counts:
    operators: int
    rows: dict[str, dict[str, int]]
    open_operators: list[str]


def kernels_of(name):
    """Registered kernels by dispatch key, aliases left out: {"CPU": "registered at ..."}."""
    found = {}
    for line in torch._C._dispatch_dump(name).splitlines():
        key, separator, rest = line.partition(": ")
        if separator and "[alias]" not in key and key not in ("name", "schema", "debug", "alias analysis kind", "operator"):
            found.setdefault(key, rest)  # the newest stands first
    return found


def walk():
    kinds = {}
    for kind, name, overload, _ in _library.operators():
        kinds[f"{name}.{overload}" if overload else name] = kind
    rows = {group: {"ours": 0, "refused": 0, "stock": 0, "open": 0} for group in GROUPS}
    names = torch._C._dispatch_get_all_op_names()
    open_operators = []
    for name in names:
        kernels = kernels_of(name)
        gate = "isobit" in kernels.get("BackendSelect", "")
        refused = kinds.get(name, "refused") == "refused"
        for group, keys in GROUPS.items():
            for key in keys:
                kernel = kernels.get(key)
                if kernel is None:
                    continue
                if refused and gate and group != "Meta (no values)":
                    verdict = "refused"
                elif "/src/aten/" in kernel:
                    verdict = "ours"
                elif "isobit guard" in kernel:
                    verdict = "refused"
                elif group in ("CPU", "CUDA", "Meta (no values)"):
                    verdict = "stock" if not refused or group == "Meta (no values)" else "open"
                else:
                    verdict = "stock" if key == "SparseCPU" and name in SPARSE_PARTS else "open"
                rows[group][verdict] += 1
                if verdict == "open":
                    open_operators.append(f"{name} on {key}: {kernel[:80]}")
    return Counts(len(names), rows, open_operators)
