"""The rooms of python/isobit: who imports whom, read from the source. No module and no room leads back to itself."""

import ast
import graphlib
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

PACKAGE = pathlib.Path(os.environ["ISOBIT_SOURCE_DIR"]) / "python" / "isobit"
ROOMS = ["_base", "_jobs", "_loops", "_proof", "_recording", "_switching", "_views"]


def modules_of(package):
    """{name: file} of a package's folder, packages by their own name."""
    found = {}
    for file in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")]):  # _built.py is written by the build
        parts = [package.name, *file.relative_to(package).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def is_for_types_alone(statement):
    test = statement.test if isinstance(statement, ast.If) else None
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


def imports_of(node, types):
    """Import statements in it, within functions, too. types: with those that a type checker alone reads."""
    for child in ast.iter_child_nodes(node):
        if is_for_types_alone(child) and not types:
            yield from imports_of(ast.Module(child.orelse, []), types)
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        else:
            yield from imports_of(child, types)


def targets_of(statement, name, is_package, known):
    """Names of modules. `from isobit import enable` names the module isobit, `from isobit import math` isobit.math."""
    if isinstance(statement, ast.Import):
        return {alias.name for alias in statement.names} & known
    start = statement.module or ""
    if statement.level:
        above = name.split(".")[: len(name.split(".")) - statement.level + is_package]
        start = ".".join([*above, *filter(None, [statement.module])])
    named = {f"{start}.{alias.name}" for alias in statement.names}
    return (named & known) | ({start} & known if named - known else set())


def graph_of(package, types=False):
    """{module: those that it imports}."""
    files = modules_of(package)
    return {name: set().union(*(targets_of(statement, name, file.name == "__init__.py", files.keys())
                                for statement in imports_of(ast.parse(file.read_text(encoding="utf-8")), types))) - {name}
            for name, file in files.items()}


def room_of(name):
    """The package that it lies in; a public module, as isobit.math, is a room of its own."""
    parts = name.split(".")
    return ".".join(parts[:2])


def rooms_of(graph):
    rooms = {}
    for name, imported in graph.items():
        rooms.setdefault(room_of(name), set()).update(map(room_of, imported))
    return {room: imported - {room} for room, imported in rooms.items()}


def circle_in(graph):
    """ "a -> b -> a", or "" where all arrows run one way."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return ""


class OneWay(unittest.TestCase):
    def setUp(self):
        self.graph = graph_of(PACKAGE)

    def test_modules(self):
        self.assertEqual(circle_in(self.graph), "")

    def test_rooms(self):
        """In types, too: what a room needs of one that comes later it says itself (_loops/_run.py)."""
        self.assertEqual(circle_in(rooms_of(graph_of(PACKAGE, types=True))), "")

    def test_nothing_inside_asks_the_front_door(self):
        """isobit/__init__.py imports what it is asked for by name, which no statement shows."""
        self.assertEqual([name for name, imported in self.graph.items() if "isobit" in imported], [])

    def test_every_module_has_a_room(self):
        flat = [name for name, file in modules_of(PACKAGE).items() if file.parent == PACKAGE and name.startswith("isobit._")]
        self.assertEqual(sorted(flat), ["isobit.__main__", "isobit._built", "isobit._components", "isobit._old_names"])
        self.assertEqual(sorted(file.parent.name for file in PACKAGE.glob("*/__init__.py")), ROOMS)
        for room in ROOMS:
            text = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8")))
            self.assertTrue(text and text.endswith("."), f"{room} does not say what it holds")
            self.assertEqual(self.graph[f"isobit.{room}"], set(), "a room's own file imports nothing: all of it would be loaded")

    def test_the_graph_is_not_empty(self):
        self.assertIn("isobit._base._library", self.graph["isobit._switching._switch"])
        self.assertIn("isobit._views._check", self.graph["isobit.__main__"])  # within a function


class MadeUpCircles(unittest.TestCase):
    """That the test above can fail."""

    def graph(self, **files):
        with tempfile.TemporaryDirectory(prefix="isobit-test-") as folder:
            package = pathlib.Path(folder) / "house"
            for path, text in {"__init__": "", **files}.items():
                file = package / f"{path.replace('__in__', '/')}.py"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(textwrap.dedent(text), encoding="utf-8")
            return graph_of(package)

    def test_of_modules(self):
        graph = self.graph(a="import house.b", b="from house import c", c="from house.a import thing")
        self.assertIn(circle_in(graph), {"house.a -> house.b -> house.c -> house.a", "house.b -> house.c -> house.a -> house.b",
                                         "house.c -> house.a -> house.b -> house.c"})

    def test_within_functions(self):
        graph = self.graph(a="from house import b", b="""
            class Late:
                def call(self):
                    try:
                        from . import a
                    except ImportError:
                        pass
            """)
        self.assertIn(circle_in(graph), {"house.a -> house.b -> house.a", "house.b -> house.a -> house.b"})

    def test_of_rooms_whose_modules_have_none(self):
        graph = self.graph(x__in__one="import house.y.one", y__in__one="", y__in__two="from house.x import three", x__in__three="")
        self.assertEqual(circle_in(graph), "")
        self.assertIn(circle_in(rooms_of(graph)), {"house.x -> house.y -> house.x", "house.y -> house.x -> house.y"})

    def test_what_a_type_checker_reads_is_no_arrow(self):
        graph = self.graph(a="import house.b", b="""
            import typing
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                import house.a
            if typing.TYPE_CHECKING:
                from house.a import thing
            """)
        self.assertEqual(graph["house.b"], set())
        graph = self.graph(a="import house.b", b="""
            if TYPE_CHECKING:
                pass
            else:
                import house.a
            """)
        self.assertNotEqual(circle_in(graph), "")

    def test_relative_ones(self):
        graph = self.graph(x__in____init__="from . import one", x__in__one="from ..y.two import thing", y__in__two="from .. import x",
                           y__in____init__="")
        self.assertEqual(graph["house.x"], {"house.x.one"})
        self.assertEqual(graph["house.x.one"], {"house.y.two"})
        self.assertEqual(graph["house.y.two"], {"house.x"})
        self.assertNotEqual(circle_in(graph), "")


class Components(unittest.TestCase):
    def test_one_that_is_not_built_says_how_to_build_it(self):
        """In a package whose _built knows two, of which one is built."""
        with tempfile.TemporaryDirectory(prefix="isobit-test-") as folder:
            top = pathlib.Path(folder) / "isobit"
            top.mkdir()
            for path in PACKAGE.iterdir():
                if path.suffix == ".py" or (path / "__init__.py").exists():
                    (top / path.name).symlink_to(path)
            (top / "_built.py").write_text('__version__ = contract_version = torch_version = "x"\n'
                                           'components = {"made": False, "ready": True}\n')
            (top / "ready").mkdir()
            (top / "ready/__init__.py").write_text("answer = 42\n")
            script = ("import importlib, isobit\nprint(isobit.ready.answer)\n"
                      "for ask in (lambda: isobit.made, lambda: importlib.import_module('isobit.made'),\n"
                      "            lambda: importlib.import_module('isobit.made.inner')):\n"
                      "    try:\n        ask()\n    except ImportError as error:\n        print(error)\n"
                      "print(hasattr(isobit, 'other'))\n")
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                                  env={**os.environ, "PYTHONPATH": folder})
        told = ("isobit.made belongs to the component made, which this isobit was built without\n"
                "  do     scripts/build release made\n")
        self.assertEqual(done.stdout, "42\n" + 3 * told + "False\n")


if __name__ == "__main__":
    unittest.main()
