"""Deep learning that gives the same answer twice, from PyTorch.

    import isobit
    isobit.enable()          # from here PyTorch computes by isobit's arithmetic contract, or stops

Every result is then defined to the last bit: the same on every run, thread count and instruction set. An operator
that is not covered raises RuntimeError; stock floating-point arithmetic never slips in. docs/python.md says more.
"""

from isobit._built import __version__
from isobit._fingerprint import fingerprint
from isobit._library import contract_version
from isobit._record import record
from isobit._switch import disable, enable, enabled, is_enabled, isa, release_memory, seed

__all__ = ["__version__", "contract_version", "disable", "enable", "enabled", "fingerprint", "is_enabled", "isa", "record",
           "release_memory", "seed"]
