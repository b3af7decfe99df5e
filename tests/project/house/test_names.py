"""One name has one meaning in the product, and none is a word that the house has banned."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.docs.product import modules

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def constants(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Name, without its underscore, and value of each constant of a module, in tuples, too."""
    for node in module.body:
        targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            assert isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = [node.value] * len(names)
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                values = node.value.elts
            for name, value in zip(names, values, strict=True):
                if isinstance(name, ast.Name) and re.fullmatch("_?[A-Z][A-Z0-9_]*", name.id):
                    yield name.id.lstrip("_"), ast.unparse(value)


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path, _, module in modules():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert len(places) > 150, "classes are no longer found"
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


#: What people do with a table. Each room has its own part: a command, a DAG, a step and a job.
VERBS = {
    *("adopt", "backtest", "decide", "evolve", "forget", "learn", "maintain", "migrate", "plan"),
    *("plan_rollback", "plan_watch", "publish", "rebalance", "release", "repair", "report"),
    *("roll_back", "verify", "watch"),
}
#: Functions that are one thing in two rooms: a route and what it sends. This list only shrinks.
TWICE = {"answer", "script", "style"}


def test_no_two_public_functions_share_a_name() -> None:
    places = defaultdict(list)
    for path, _, module in modules():
        for node in module.body:
            if isinstance(node, FUNCTION) and re.fullmatch("(?!_|main$).*", node.name):
                places[node.name].append(path)
    assert len(places) > 500, "functions are no longer found"
    shared = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: shared[name] for name in shared.keys() - VERBS - TWICE} == {}
    assert (VERBS | TWICE) - shared.keys() == set(), "no longer needed, remove it"


#: Constants that have a value a module; this list only shrinks.
SEVERAL = {
    *("AGAIN", "BEFORE", "COLUMNS", "DAY", "FULL", "HOME", "KEY", "LINES"),
    *("MODULES", "RESTORE", "ROLL_BACK", "STEP", "TASK", "TIMES"),
}


def test_a_constant_has_one_value() -> None:
    values = defaultdict(dict)
    for path, _, module in modules():
        for name, value in constants(module):
            values[name][path] = value
    assert len(values) > 400, "constants are no longer found"
    several = {n: there for n, there in values.items() if len({*there.values()}) > 1}
    assert {name: several[name] for name in several.keys() - SEVERAL} == {}
    assert SEVERAL - several.keys() == set(), "no longer needed, remove it"


#: Words of the author's own, and participles for things. A name says what a thing is or does.
BANNED = {
    *("told", "begun", "picked", "asked", "foretold", "standing", "lane", "grounds", "thrift"),
    *("thriftier", "loosen", "tighten"),
}


def definitions(path: str, module: ast.Module) -> Iterator[str]:
    """Names of a module, and of its classes, functions, methods and constants."""
    yield Path(path).stem
    yield from (name for name, _ in constants(module))
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef | FUNCTION):
            yield node.name


def words(name: str) -> set[str]:
    """The words of a name in either style of writing, in lower case."""
    return {w.lower() for w in re.findall("[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])", name)}


def test_no_definition_has_a_banned_word() -> None:
    named = [(path, name) for path, _, module in modules() for name in definitions(path, module)]
    assert len(named) > 2500, "names are no longer found"
    assert [(path, name) for path, name in named if words(name) & BANNED] == []
    assert words("HeavyKey_ofTASKS") == {"heavy", "key", "of", "tasks"}
