"""Arithmetic on Python's floats in optimizers, schedules and initial weights: the contract's, not the C library's.

Python's ** and math.cos are the C library's pow and cos, whose last bit depends on the library and the CPU. While the
switch is on, in the modules below
  - the name `math` is isobit.math, and so is what was imported from math;
  - `a ** b` and `pow(a, b)` of floats are correctly rounded: the functions that have them run code compiled from their
    own source with a call in its place. Of tensors and integers they are what they were.
A function stays the same object, so references, pickles and signatures are too; file and lines in tracebacks are its own.
"""

import ast
import functools
import gc
import importlib.abc
import importlib.machinery
import math as stock_math
import operator
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.distributions.utils import lazy_property

from isobit import math as our_math
from isobit._base import _check_mode, _library
from isobit._base._errors import RefusedError

# Modules and what lies in them, where they are loaded.
OF_TORCH = ("torch.optim", "torch.nn.init", "torch.nn.functional", "torch.nn.modules.adaptive", "torch.distributions",
            "torch.signal")
OF_OTHERS = ("transformers.optimization", "timm.layers.weight_init", "timm.optim", "timm.scheduler")
# Its ** are of tensors alone, and its source is long.
_WITHOUT_POWERS = ("torch.nn.functional",)

_POWER, _POWER_IN_PLACE = "__isobit_power__", "__isobit_power_in_place__"  # names in the modules
_MAY_BE_POWER = re.compile(r"\*\*|(?<![.\w])pow\(")
_Code = types.CodeType
_Function = types.FunctionType

_lock = threading.RLock()  # modules are imported by any thread
_plans: dict[str, "_Plan"] = {}


# ---- what runs in place of a ** b


def power(base: Any, exponent: Any) -> Any:
    kind, other = type(base), type(exponent)
    if (kind is float or kind is int) and (other is float or other is int):
        if kind is int and other is int and exponent >= 0:
            return base**exponent
        return our_math.float_power(float(base), float(exponent))
    return _power_of_others(base, exponent, operator.pow)


def power_in_place(base: Any, exponent: Any) -> Any:
    numbers = isinstance(base, (float, int))
    return power(base, exponent) if numbers else _power_of_others(base, exponent, operator.ipow)


def _power_of_others(base: Any, exponent: Any, stock: Callable[[Any, Any], Any]) -> Any:
    """Tensors go to the dispatcher, which knows them. NumPy's floats are C's: float64 ones are computed as Python's."""
    pair, numpy = (base, exponent), sys.modules.get("numpy")
    if isinstance(base, torch.Tensor) or isinstance(exponent, torch.Tensor):
        return stock(base, exponent)
    if numpy is not None and any(isinstance(value, (numpy.generic, numpy.ndarray)) for value in pair):
        if all(isinstance(value, (int, numpy.integer)) for value in pair):
            return stock(base, exponent)
        if all(isinstance(value, (int, float, numpy.integer)) for value in pair):
            return numpy.float64(our_math.float_power(float(base), float(exponent)))
        _check_mode.refuse(RefusedError(
            f"isobit: a power of NumPy's numbers ({type(base).__name__}, {type(exponent).__name__}) is not "
            f"certified under {_library.contract_in_force()}\n  do     give Python's floats"))
    if all(type(value).__pow__ in (int.__pow__, float.__pow__) for value in pair):  # bool, and classes made of the two
        return power(*(int(value) if isinstance(value, int) else float(value) for value in pair))
    return stock(base, exponent)


# ---- code with calls in place of powers


def _lines_with_powers(source: str) -> list[int]:
    """Lines where a ** may be an operator; it is none after a comma, a bracket or a star (**keywords)."""
    found = []
    for match in _MAY_BE_POWER.finditer(source):
        before = source[max(match.start() - 200, 0):match.start()].rstrip()
        if match[0] != "**" or before[-1:] not in (",", "(", "{", "*", "`", ":", ""):
            found.append(source.count("\n", 0, match.end()) + 1)
    return found


def _spans(node: ast.AST, lines: Sequence[int]) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or sys.maxsize
    return any(first <= line <= last for line in lines)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, lines: Sequence[int]) -> None:
        self.lines = lines

    def visit(self, node: ast.AST) -> Any:
        return super().visit(node) if _spans(node, self.lines) else node

    def _call(self, node: ast.AST, name: str, *arguments: ast.expr) -> ast.Call:
        function = ast.copy_location(ast.Name(name, ast.Load()), node)
        return ast.copy_location(ast.Call(function, list(arguments), []), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return self._call(node, _POWER, node.left, node.right) if isinstance(node.op, ast.Pow) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "pow" and len(node.args) == 2 and not node.keywords:
            return self._call(node, _POWER, *node.args)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return node
        read: ast.expr
        if isinstance(node.target, ast.Name):
            read = ast.Name(node.target.id, ast.Load())
        elif isinstance(node.target, ast.Attribute) and isinstance(node.target.value, ast.Name):
            read = ast.Attribute(node.target.value, node.target.attr, ast.Load())
        else:
            raise ValueError(f"line {node.lineno}: {ast.unparse(node)}")
        return ast.copy_location(
            ast.Assign([node.target], self._call(node, _POWER_IN_PLACE, ast.copy_location(read, node), node.value)), node)


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _outermost(tree: ast.AST, classes: tuple[ast.ClassDef, ...] = ()) -> Iterator[tuple[tuple[ast.ClassDef, ...], _Definition]]:
    """The functions that lie in no other function, each with the classes around it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Definition):
            yield classes, node
        else:
            yield from _outermost(node, (*classes, node) if isinstance(node, ast.ClassDef) else classes)


def _has_powers(node: ast.AST) -> bool:
    return any((isinstance(part, (ast.BinOp, ast.AugAssign)) and isinstance(part.op, ast.Pow))
               or (isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "pow")
               for part in ast.walk(node))


def _compiled(module: ast.Module, classes: Sequence[ast.ClassDef], node: _Definition, filename: str) -> _Code:
    """The code of the function alone, in its classes (names with two underscores, super()) and below the module's imports,
    which the compiler looks at: imported names are called otherwise, and annotations may be texts."""
    body: ast.stmt = ast.copy_location(ast.Expr(node), node) if isinstance(node, ast.Lambda) else node
    for around in reversed(classes):
        body = ast.copy_location(ast.ClassDef(around.name, [], [], [body], []), around)  # type: ignore[call-arg,unused-ignore]
        if sys.version_info >= (3, 12):
            body.type_params = []
    imports = [line for line in module.body if isinstance(line, (ast.Import, ast.ImportFrom))]
    code = compile(ast.Module([*imports, body], []), filename, "exec", dont_inherit=True)
    for _ in classes:
        code = next(part for part in code.co_consts if isinstance(part, _Code))
    name, line = _name_and_line(node)
    return next(part for part in code.co_consts
                if isinstance(part, _Code) and part.co_name == name and part.co_firstlineno == line)


def _alike(one: Any, other: Any) -> bool:
    """Equal codes, but for constants that the compiler folded (12**0.5), in this process or another: by a C library, too."""
    if isinstance(one, _Code) and isinstance(other, _Code):
        return (one.co_code == other.co_code and all(getattr(one, name) == getattr(other, name) for name in _COMPARED)
                and _alike(one.co_consts, other.co_consts))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(_alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return stock_math.isclose(one, other, rel_tol=1e-6) or one != one
    return type(one) is type(other) and bool(one == other)


_COMPARED = ("co_name", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags", "co_argcount", "co_kwonlyargcount",
             "co_posonlyargcount")


def _name_and_line(node: _Definition) -> tuple[str, int]:
    """As code objects have them."""
    if isinstance(node, ast.Lambda):
        return "<lambda>", node.lineno
    return node.name, min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _is_at(function: _Function, name: str, line: int) -> bool:
    return function.__code__.co_name == name and function.__code__.co_firstlineno == line


# ---- the functions of a module


def _functions(value: Any, module: types.ModuleType, seen: set[int]) -> Iterator[_Function]:
    """The functions of the module's own that an attribute holds: in classes, in properties, under decorators."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, _Function):
        if value.__globals__ is vars(module):
            yield value
        held: list[Any] = [vars(value).get("__wrapped__"), *(_content(cell) for cell in value.__closure__ or ())]
        inner: list[Any] = [part for part in held if isinstance(part, _Function)]
    elif isinstance(value, type):
        inner = list(vars(value).values()) if value.__module__ == module.__name__ else []
    elif isinstance(value, property):
        inner = [value.fget, value.fset, value.fdel]
    else:
        inner = [getattr(value, name, None) for name in ("__func__", "func", "wrapped")] if isinstance(value, _HOLDERS) else []
    for part in inner:
        yield from _functions(part, module, seen)


_HOLDERS = (staticmethod, classmethod, functools.partial, functools.cached_property, lazy_property)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not assigned yet


class _Plan:
    """What changes in one module, worked out once."""

    def __init__(self, module: types.ModuleType) -> None:
        self.module = module
        self.codes: list[tuple[_Function, _Code, _Code]] = []  # function, its own code, ours
        replaced = {id(getattr(stock_math, name)): name for name in dir(stock_math) if callable(getattr(stock_math, name))}
        self.names: dict[str, tuple[Any, Any]] = {}  # name in the module: what it was, ours
        for name, value in list(vars(module).items()):
            if value is stock_math:
                self.names[name] = (value, our_math)
            elif isinstance(value, types.BuiltinFunctionType) and id(value) in replaced:
                ours = getattr(our_math, replaced[id(value)])
                if ours is not value:
                    self.names[name] = (value, ours)
        if module.__name__ not in _WITHOUT_POWERS:
            self._plan_powers()

    def _plan_powers(self) -> None:
        source = _source(self.module)
        lines = _lines_with_powers(source)
        if not lines:
            return
        tree = ast.parse(source)
        seen: set[int] = set()
        live = [function for value in list(vars(self.module).values()) for function in _functions(value, self.module, seen)]
        for classes, node in _outermost(tree):
            if not _spans(node, lines) or not _has_powers(node):
                continue
            name, line = _name_and_line(node)
            functions = [function for function in live if _is_at(function, name, line)] or self._hidden(name, line)
            for function in functions:  # none: replaced by another's, and gone
                filename = function.__code__.co_filename
                if not _alike(_compiled(tree, classes, node, filename), function.__code__):
                    raise ValueError(f"{name}, line {line}, is not what its source says")
            if functions:
                _Rewriter(lines).visit(node)
                ours = _compiled(tree, classes, node, functions[0].__code__.co_filename)
                self.codes.extend((function, function.__code__, ours) for function in functions)

    def _hidden(self, name: str, line: int) -> list[_Function]:
        """Functions that the module no longer holds, but someone else (a method that was replaced by one that calls it)."""
        return [value for value in gc.get_objects()
                if type(value) is _Function and value.__globals__ is vars(self.module) and _is_at(value, name, line)]

    def apply(self) -> None:
        vars(self.module).update({_POWER: power, _POWER_IN_PLACE: power_in_place})  # for good: a frame may outlive the switch
        for name, (_stock, ours) in self.names.items():
            setattr(self.module, name, ours)
        for function, own, ours in self.codes:
            if function.__code__ == own:
                function.__code__ = ours

    def undo(self) -> None:
        for function, own, ours in self.codes:
            if function.__code__ == ours:
                function.__code__ = own
        for name, (stock, ours) in self.names.items():
            if vars(self.module).get(name) is ours:
                setattr(self.module, name, stock)


def _source(module: types.ModuleType) -> str:
    loader = module.__spec__.loader if module.__spec__ is not None else None
    source = loader.get_source(module.__name__) if isinstance(loader, importlib.abc.InspectLoader) else None
    if source is None:
        raise ValueError("no source")
    return source


# ---- the switch


def _is_listed(name: str, prefixes: Sequence[str] = (*OF_TORCH, *OF_OTHERS)) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def _plan(name: str, module: types.ModuleType) -> None:
    if name in _plans and _plans[name].module is module:
        return
    try:
        _plans[name] = _Plan(module)
    except (ValueError, OSError, ImportError, SyntaxError) as error:
        problem = f"isobit: the powers of floats in {name} cannot be made the contract's ({error})"
        if _is_listed(name, OF_TORCH):
            raise RefusedError(f"{problem}\n  do     use the release of torch as it was installed, with its sources") from None
        warnings.warn(f"{problem}: its learning rates may differ between machines", stacklevel=2)


class _Importer(importlib.abc.MetaPathFinder):
    """Modules of the lists that are imported while the switch is on."""

    def find_spec(self, name: str, path: Sequence[str] | None,
                  target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if not _is_listed(name):
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in others if spec is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                run(module)
                with _lock:
                    _plan(name, module)
                    if _importer in sys.meta_path and name in _plans:
                        _plans[name].apply()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_importer = _Importer()


def prepare() -> None:
    """Before anything is changed: what install() does cannot fail then. RefusedError if it would."""
    with _lock:
        for name, module in list(sys.modules.items()):
            if _is_listed(name) and isinstance(module, types.ModuleType):
                _plan(name, module)


def install() -> None:
    with _lock:
        sys.meta_path.insert(0, _importer)
        for name, plan in _plans.items():
            if sys.modules.get(name) is plan.module:
                plan.apply()


def remove() -> None:
    with _lock:
        sys.meta_path.remove(_importer)
        for plan in _plans.values():
            plan.undo()
