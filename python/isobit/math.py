"""math, with the contract's functions of Python's floats: correctly rounded, so the same on every machine.

    from isobit import math
    optimizer = torch.optim.SGD(parameters, lr=math.pow(0.97, epoch) * (1 + math.cos(math.pi * progress)))

Python's math.cos, math.exp and ** are the C library's, whose last bit depends on the library and the CPU. These take and
raise what their namesakes in Python's math do, whether the switch is on or not. What is exact in Python's math (sqrt, floor,
pi, ...) is that very function here. The others (gamma, erfc, ...) raise isobit.RefusedError when they are called.
Thread-safe.
"""

import errno
import functools
import math as _stock
import os
from collections.abc import Callable
from math import (
    ceil,
    comb,
    copysign,
    degrees,
    e,
    fabs,
    factorial,
    floor,
    fmod,
    frexp,
    fsum,
    gcd,
    inf,
    isclose,
    isfinite,
    isinf,
    isnan,
    isqrt,
    lcm,
    ldexp,
    modf,
    nan,
    nextafter,
    perm,
    pi,
    prod,
    radians,
    remainder,
    sqrt,
    tau,
    trunc,
    ulp,
)
from typing import Any, SupportsFloat, SupportsIndex, TypeAlias

from isobit._base import _check_mode, _library
from isobit._base._errors import RefusedError

_Number: TypeAlias = SupportsFloat | SupportsIndex

__all__ = [
    "acos", "asin", "atan", "atan2", "cbrt", "ceil", "comb", "copysign", "cos", "cosh", "degrees", "e", "erf",
    "exp", "exp2", "expm1", "fabs", "factorial", "floor", "fmod", "frexp", "fsum", "gcd", "hypot", "inf", "isclose",
    "isfinite", "isinf", "isnan", "isqrt", "lcm", "ldexp", "log", "log1p", "log2", "log10", "modf", "nan",
    "nextafter", "perm", "pi", "pow", "prod", "radians", "remainder", "sin", "sinh", "sqrt", "tan", "tanh", "tau",
    "trunc", "ulp",
]

# A step asks for the same few powers once for each parameter.
_value = functools.lru_cache(4096)(_library.scalar_function)
_power = functools.lru_cache(4096)(_library.scalar_power)
_INDEX = {name: index for index, name in enumerate(_library.scalar_functions())}


def _compute(index: int, x: _Number) -> float:
    number = ldexp(x, 0)  # as math's functions convert
    result = _value(index, number) if number else _library.scalar_function(index, number)  # the cache takes -0.0 for 0.0
    if isfinite(result) or isnan(number):
        return result
    if isnan(result) or (isfinite(number) and index in _LOGARITHMS):
        raise ValueError("math domain error")
    if isfinite(number):
        raise OverflowError("math range error")
    return result


def acos(x: _Number, /) -> float:
    return _compute(_ACOS, x)


def asin(x: _Number, /) -> float:
    return _compute(_ASIN, x)


def atan(x: _Number, /) -> float:
    return _compute(_ATAN, x)


def atan2(y: _Number, x: _Number, /) -> float:
    return _library.scalar_angle(ldexp(y, 0), ldexp(x, 0))


def cbrt(x: _Number, /) -> float:
    return _compute(_CBRT, x)


def cos(x: _Number, /) -> float:
    return _compute(_COS, x)


def cosh(x: _Number, /) -> float:
    return _compute(_COSH, x)


def erf(x: _Number, /) -> float:
    return _compute(_ERF, x)


def exp(x: _Number, /) -> float:
    return _compute(_EXP, x)


def exp2(x: _Number, /) -> float:
    return _compute(_EXP2, x)


def expm1(x: _Number, /) -> float:
    return _compute(_EXPM1, x)


def log(x: _Number, base: _Number | None = None, /) -> float:
    """With a base: the quotient of the two logarithms, rounded as each of them is."""
    return _compute(_LOG, x) if base is None else _compute(_LOG, x) / _compute(_LOG, base)


def log10(x: _Number, /) -> float:
    return _compute(_LOG10, x)


def log1p(x: _Number, /) -> float:
    return _compute(_LOG1P, x)


def log2(x: _Number, /) -> float:
    return _compute(_LOG2, x)


def sin(x: _Number, /) -> float:
    return _compute(_SIN, x)


def sinh(x: _Number, /) -> float:
    return _compute(_SINH, x)


def tan(x: _Number, /) -> float:
    return _compute(_TAN, x)


def tanh(x: _Number, /) -> float:
    return _compute(_TANH, x)


_ACOS, _ASIN, _ATAN, _CBRT = (_INDEX[name] for name in ("acos", "asin", "atan", "cbrt"))
_COS, _COSH, _ERF, _EXP, _EXP2, _EXPM1 = (_INDEX[name] for name in ("cos", "cosh", "erf", "exp", "exp2", "expm1"))
_LOG, _LOG10, _LOG1P, _LOG2 = (_INDEX[name] for name in ("log", "log10", "log1p", "log2"))
_LOGARITHMS = (_LOG, _LOG10, _LOG1P, _LOG2)
_SIN, _SINH, _TAN, _TANH = (_INDEX[name] for name in ("sin", "sinh", "tan", "tanh"))


def pow(x: _Number, y: _Number, /) -> float:
    base, exponent = ldexp(x, 0), ldexp(y, 0)
    if not base or not exponent or not isfinite(base) or not isfinite(exponent):
        return _stock.pow(base, exponent)  # a special value: no arithmetic
    if base < 0 and exponent != floor(exponent):
        raise ValueError("math domain error")
    result = _power(base, exponent)
    if isinf(result):
        raise OverflowError("math range error")
    return result


def hypot(*coordinates: _Number) -> float:
    """The exact sum of squares in integers; its root rounded once."""
    numbers = [abs(ldexp(x, 0)) for x in coordinates]
    if any(map(isinf, numbers)):
        return inf
    if any(map(isnan, numbers)):
        return nan
    ratios = [x.as_integer_ratio() for x in numbers if x]
    if not ratios:
        return 0.0
    bits = max(below.bit_length() for _, below in ratios) - 1  # denominators are powers of two
    squares = sum((above << bits - (below.bit_length() - 1)) ** 2 for above, below in ratios)
    more = max(0, 140 - squares.bit_length())
    more += more % 2
    root = isqrt(squares << more)
    root = root << 1 | (root * root != squares << more)  # what is left out, as a last bit: so that the quotient rounds right
    try:
        return root / (1 << bits + more // 2 + 1)
    except OverflowError:
        return inf


def float_power(base: float, exponent: float) -> float:
    """base ** exponent, as Python has it. RefusedError where that is complex."""
    if not base or not exponent or not isfinite(base) or not isfinite(exponent):
        return base**exponent  # type: ignore[no-any-return]  # a special value, or its exception: no arithmetic
    if base < 0 and exponent != floor(exponent):
        _check_mode.refuse(_refusal(f"{base!r} ** {exponent!r}, a complex number,",
                                    "take the power of a number that is not negative"))
        return base**exponent  # type: ignore[no-any-return]
    result = _power(base, exponent)
    if isinf(result):
        raise OverflowError(errno.ERANGE, os.strerror(errno.ERANGE))
    return result


def _refusal(what: str, remedy: str) -> RefusedError:
    return RefusedError(f"isobit: {what} is not certified under {_library.contract_in_force()}\n  do     {remedy}")


def _refused(name: str) -> Callable[..., float]:
    def refuses(*arguments: Any) -> Any:
        _check_mode.refuse(_refusal(
            f"math.{name}", "use a function that isobit.math has, compute it as a tensor, or run this part outside "
                            "isobit (with isobit.disabled():)"))
        return getattr(_stock, name)(*arguments)

    refuses.__name__ = refuses.__qualname__ = name
    return refuses


def __getattr__(name: str) -> Callable[..., float]:
    """What Python's math has besides, now or in a later version: it refuses."""
    if name.startswith("_") or not callable(getattr(_stock, name, None)):
        raise AttributeError(f"module 'isobit.math' has no attribute {name!r}")
    globals()[name] = function = _refused(name)
    return function
