"""States of random generators as plain values: those of the process, and those that objects hold.

A state is made of numbers, texts, bytes, lists, tuples and dicts, so that it can go through a queue and into a checkpoint.
"""

import ctypes
import functools
import random
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

import torch

_DEPTH, _LONGEST = 8, 64  # how far own_generators looks; longer lists are data
_LEAVES = (str, bytes, int, float, complex, type(None), type, torch.Tensor, types.ModuleType)


def states(devices: bool = False) -> dict[str, Any]:
    """Of PyTorch's, Python's and, where it is loaded, NumPy's generator of this process; if asked, of the CUDA devices in use."""
    found: dict[str, Any] = {"torch": bytes_of(torch.get_rng_state()), "python": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy"] = _plain(numpy.random.get_state())
    # Nothing that the contract covers draws from these; what else runs on a device may.
    if devices and torch.cuda.is_initialized():
        found["cuda"] = list(map(bytes_of, torch.cuda.get_rng_state_all()))
    return found


def kept(states_: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint keeps of states of this process, taken now or before: not those of Python's and NumPy's generator
    that the program has neither seeded nor drawn from until now. The system's chance made them: others in each run."""
    left_out = [name for name, untouched in (("python", _python_is_untouched), ("numpy", _numpy_is_untouched)) if untouched()]
    return {name: state for name, state in states_.items() if name not in left_out}


def _python_is_untouched() -> bool:
    """A first word of 2^31 is what seeding leaves and no draw. Python seeds itself with 624 words of the system's; those of a
    program's seed are fewer and come again: found by CPython's init_by_array, backwards."""
    version, (*words, position), _ = random.getstate()
    if version != 3 or len(words) != 624 or position != 624 or words[0] != 1 << 31:
        return False

    def mixed(word: int, factor: int) -> int:
        return (word ^ word >> 30) * factor

    begun = [19650218]
    for i in range(1, 624):
        begun.append((mixed(begun[-1], 1812433253) + i) % 2**32)
    mixed_in = [0, ((words[1] + 1) ^ mixed(words[623], 1566083941)) % 2**32]  # after init_by_array's first loop
    for i in range(2, 624):
        mixed_in.append(((words[i] + i) ^ mixed(mixed_in[1] if i == 2 else words[i - 1], 1566083941)) % 2**32)
    seed = [(mixed_in[i] - (begun[i] ^ mixed(mixed_in[i - 1], 1664525))) % 2**32 for i in range(3, 624)]
    return not any(seed[period:] == seed[:-period] for period in range(1, len(seed) // 2))


def _numpy_is_untouched() -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return True
    bits: Any = numpy.random.get_bit_generator() if hasattr(numpy.random, "get_bit_generator") else None  # NumPy 1.24
    begun = getattr(bits, "seed_seq", None)  # None once it was seeded
    if begun is None or not isinstance(bits, numpy.random.MT19937):
        return False
    fresh = numpy.random.RandomState(numpy.random.MT19937(begun))
    return bool(_plain(fresh.get_state()) == _plain(numpy.random.get_state()))


def set_states(states_: dict[str, Any]) -> None:
    """Generators that are not named stay as they are, and CUDA devices that this machine lacks are left out: a run resumes
    without them, too."""
    torch.set_rng_state(_tensor(states_["torch"]))
    if "python" in states_:
        random.setstate(_tuples(states_["python"]))
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in states_:
        numpy.random.set_state(tuple(states_["numpy"]))
    if "cuda" in states_:
        for device, state in zip(range(torch.cuda.device_count()), states_["cuda"], strict=False):
            torch.cuda.set_rng_state(_tensor(state), device)


def own_generators(*roots: object) -> list[Any]:
    """The generators that these objects hold: in their attributes, lists, dicts, closures, and so on within. In a fixed order."""
    found: list[Any] = []
    seen: set[int] = set()
    kinds = _kinds()

    def look(value: object, depth: int) -> None:
        if isinstance(value, _LEAVES) or depth > _DEPTH or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, kinds):
            found.append(value)
            return
        for part in _parts(value):
            look(part, depth + 1)

    for root in roots:
        look(root, 0)
    return found


def states_of(generators: Iterable[Any]) -> list[Any]:
    return [_state(generator) for generator in generators]


def set_states_of(generators: Sequence[Any], states_: Sequence[Any]) -> None:
    """ValueError where these are not as many as before."""
    if len(generators) != len(states_):
        raise ValueError(f"{len(generators)} generators instead of {len(states_)}")
    for generator, state in zip(generators, states_, strict=True):
        if isinstance(generator, torch.Generator):
            generator.set_state(_tensor(state))
        elif isinstance(generator, random.Random):
            generator.setstate(_tuples(state))
        elif hasattr(generator, "bit_generator"):
            generator.bit_generator.state = state
        else:
            generator.set_state(tuple(state))


def _kinds() -> tuple[type, ...]:
    numpy = sys.modules.get("numpy")
    return (torch.Generator, random.Random) + ((numpy.random.Generator, numpy.random.RandomState) if numpy is not None else ())


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return list(value.values()) if len(value) <= _LONGEST else ()
    if isinstance(value, (list, tuple)):
        return value if len(value) <= _LONGEST else ()
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, types.MethodType):
        return (value.__self__,)
    if isinstance(value, types.FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or () if _is_set(cell)]
    return (getattr(value, "__dict__", None),)


def _is_set(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _state(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return bytes_of(generator.get_state())
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "bit_generator"):
        return _plain(generator.bit_generator.state)
    return _plain(generator.get_state())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


def bytes_of(tensor: torch.Tensor) -> bytes:
    return ctypes.string_at(tensor.data_ptr(), tensor.numel())  # without NumPy, which may not be there


def _tensor(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value
