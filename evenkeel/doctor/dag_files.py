"""Files of DAGs that make those of our tables, read without running them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Package whose functions make DAGs.
_AIRFLOW_PACKAGE = "evenkeel_airflow"
#: Function of ours -> position and keyword of its argument that names specs.
_CALLS = {"load_tables": (1, "folder"), "RebalanceTaskGroup": (0, "spec")}
#: Connection of a task that names none.
CONNECTION = "spark_default"


@dataclass(frozen=True)
class MakesDags:
    """Hold one call of a function of ours in a file of DAGs.

    Parameters
    ----------
    function : its name in our package
    tree : the whole file
    """

    file: Path
    tree: ast.Module
    function: str
    call: ast.Call

    @property
    def folder(self) -> Path | None:
        """Return the folder of specs that the call names literally, or None.

        `load_tables` has the folder, and `RebalanceTaskGroup` the path of one spec.
        """
        place, keyword = _CALLS[self.function]
        match [*self.call.args[place : place + 1], *self._given(keyword)]:
            case [ast.Constant(value=str(named)), *_]:
                return Path(named) if keyword == "folder" else Path(named).parent
        return None

    @property
    def connection(self) -> str | None:
        """Return the connection of the call's Spark jobs; None: only a run of the file knows it."""
        # A task group takes those of its DAG.
        calls = [self.call] if self.function == "load_tables" else _calls_in(self.tree)
        given = [k.value for call in calls for k in call.keywords if k.arg == "default_args"]
        for pair in (pair for arguments in given for pair in _pairs(arguments)):
            match pair:
                case "conn_id", ast.Constant(value=str(named)):
                    return named
        return None if "conn_id" in ast.unparse(self.tree) else CONNECTION

    def _given(self, keyword: str) -> list[ast.expr]:
        return [k.value for k in self.call.keywords if k.arg == keyword]


def calls_of_ours(folder: str) -> Iterator[MakesDags]:
    """Yield each call of a function of ours, in all files under a folder that import it from us."""
    for file in sorted(Path(folder).rglob("*.py")):
        try:
            text = file.read_bytes()
            if _AIRFLOW_PACKAGE.encode() not in text:
                continue
            with warnings.catch_warnings(action="ignore"):
                tree = ast.parse(text)
            for function, call in _calls(tree):
                yield MakesDags(file, tree, function, call)
        except (OSError, ValueError, SyntaxError, RecursionError):
            # Airflow shows such a file itself.
            continue


def loaded_folders(folder: str) -> list[Path]:
    """Return the folders of specs that DAG files name literally."""
    return [found.folder for found in calls_of_ours(folder) if found.folder]


def _calls_in(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _pairs(mapping: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names and values of a mapping as it stands in a file."""
    match mapping:
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant):
                    yield str(key.value), value
        case ast.Call(func=ast.Name(id="dict"), keywords=given):
            yield from ((k.arg, k.value) for k in given if k.arg)


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call of a function that a module imports from us, and the function's name."""
    modules, functions = set[str](), dict[str, str]()
    nodes = list(ast.walk(tree))
    for node in nodes:
        match node:
            case ast.Import(names=names):
                ours = [n for n in names if n.name.partition(".")[0] == _AIRFLOW_PACKAGE]
                modules |= {n.asname or _AIRFLOW_PACKAGE for n in ours}
            case ast.ImportFrom(module=str(module), names=names, level=0):
                if module.partition(".")[0] == _AIRFLOW_PACKAGE:
                    functions |= {n.asname or n.name: n.name for n in names}
                    modules |= {n.asname or n.name for n in names}
                    functions |= {c: c for n in names if n.name == "*" for c in _CALLS}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name)) if functions.get(name) in _CALLS:
                yield functions[name], node
            case ast.Call(func=ast.Attribute(attr=name) as called) if name in _CALLS:
                if ast.unparse(called).partition(".")[0] in modules:
                    yield name, node
