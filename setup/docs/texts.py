"""Texts that an expression of the code can become, read from its syntax tree.

A value that is known only at run time is a name in braces. An expression with branches, or a call
of a function that returns texts, has a text for each branch.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from setup.docs.reference.markdown import sources

#: Functions around a value in a message, which do not name it.
_AROUND = {"join", "sorted", "len", "str", "map", "strip", "isoformat", "items", "format"}
_AROUND |= {"first_line", "max", "min", "without_advice", "repr", "list", "sum", "next", "quoted"}


@dataclass(frozen=True)
class Scope:
    """What the names of an expression stand for.

    Parameters
    ----------
    names : of a module's or function's assignments; the last one counts
    functions : name -> a function that returns texts, and the scope of its module
    attributes : name -> texts that classes assign to it
    """

    names: Mapping[str, ast.expr]
    functions: Mapping[str, tuple[ast.FunctionDef, Mapping[str, ast.expr]]]
    attributes: Mapping[str, list[str]] = field(default_factory=dict)

    def within(self, function: ast.FunctionDef | None, before: int | None = None) -> Scope:
        """Return the scope in a function, at a line of it."""
        nodes = ast.walk(function) if function else ()
        return replace(
            self, names={**self.names, **_defaults(function), **_assigned(nodes, before)}
        )

    def cases(self, node: ast.AST | None) -> list[str]:
        """Return each text that the expression can become, once; none: it is no text."""
        match node:
            case ast.Constant(value=str(text)):
                found = [text]
            case ast.JoinedStr(values=parts):
                found = ["".join(self._part(part) for part in parts)]
            case ast.IfExp(body=one, orelse=other):
                found = self.cases(one) + self.cases(other)
            case ast.BoolOp(values=parts):
                found = [text for part in parts for text in self.cases(part)]
            case ast.BinOp(left=left, right=right):
                after = self.cases(right)[:1]
                found = [one + other for one in self.cases(left) for other in after]
            case ast.Name(id=name) if name in self.names:
                rest = {n: value for n, value in self.names.items() if n != name}
                found = replace(self, names=rest).cases(self.names[name])
            case (
                ast.Attribute(value=ast.Name(id="cls"), attr=name)
                | ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), _])
            ):
                found = [*self.attributes.get(name, ())]
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[_, other]
            ) if isinstance(known := self.names.get(name), ast.Dict):
                found = [text for value in (*known.values, other) for text in self.cases(value)]
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                found = self._returned(name)
            case _:
                found = []
        return [*dict.fromkeys(filter(None, found))]

    def _returned(self, name: str) -> list[str]:
        if name not in self.functions:
            return []
        function, names = self.functions[name]
        rest = {n: value for n, value in self.functions.items() if n != name}
        scope = Scope(names, rest, self.attributes).within(function)
        returns = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
        return [text for value in returns for text in scope.cases(value)]

    def _part(self, part: ast.expr) -> str:
        """Return a part of an f-string: its text, or a value as `{name}`."""
        if not isinstance(part, ast.FormattedValue):
            return "".join(self.cases(part))
        constant = isinstance(part.value, ast.Name) and part.value.id.isupper()
        if (constant or isinstance(part.value, ast.Call)) and (known := self.cases(part.value)):
            return known[0]
        plain = [n.strip("_") for n in _names(part.value) if n not in _AROUND]
        return f"{{{plain[0] if plain else 'value'}}}"


def _names(value: ast.expr) -> Iterator[str]:
    """Yield the names in an expression that may tell what it is, the best first."""
    match value:
        case (
            ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_])
            | ast.Subscript(slice=ast.Constant(value=str(key)))
        ):
            yield key
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Name(id=key), *_]) if key.isupper():
            yield key.lower()
        case ast.Call(func=ast.Attribute(value=of), args=args):
            # A method says less than what it is called of: `column.type.simpleString()`.
            yield from (name for part in (of, *args) for name in _names(part))
        case ast.Attribute(value=of, attr=name):
            yield name
            yield from _names(of)
        case ast.Name(id=name):
            yield name
        case _:
            for part in ast.iter_child_nodes(value):
                if isinstance(part, ast.expr):
                    yield from _names(part)


@cache
def scopes() -> dict[str, Scope]:
    """Return the scope of each module of the product, by its path."""
    trees = {path: tree for path, tree, _ in sources()}
    own = {_module(path): _assigned(tree.body) for path, tree in trees.items()}
    names = {path: _imported(tree, own) | own[_module(path)] for path, tree in trees.items()}
    functions = {
        node.name: (node, names[path])
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        if isinstance(node.returns, ast.Name) and node.returns.id == "str"
    }
    attributes: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in (n for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for n in c.body):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                attributes[node.target.id] += Scope(names[path], functions).cases(node.value)
    return {path: Scope(names[path], functions, attributes) for path in trees}


def _module(path: str) -> str:
    inner = re.sub(r"^(spark_jobs|dags|plugins)/|(/__init__)?\.py$", "", path)
    return inner.replace("/", ".")


def _assigned(nodes: Iterable[ast.AST], before: int | None = None) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and (before is None or node.lineno < before)
        if isinstance(target := node.targets[0], ast.Name)
    }


def _defaults(function: ast.FunctionDef | None) -> dict[str, ast.expr]:
    if function is None or not function.args.defaults:
        return {}
    names = [a.arg for a in function.args.args[-len(function.args.defaults) :]]
    return dict(zip(names, function.args.defaults, strict=True))


def _imported(tree: ast.Module, own: Mapping[str, dict[str, ast.expr]]) -> dict[str, ast.expr]:
    """Return what a module imports from others of ours by name."""
    return {
        alias.name: own[node.module][alias.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in own
        for alias in node.names
        if alias.name in own[node.module]
    }
