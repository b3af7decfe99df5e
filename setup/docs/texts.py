"""Texts that an expression of the code can become, read from its syntax tree.

A value that is known only at run time is a name in braces. An expression with branches, or a call
of a function that returns texts, has a text for each branch.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TypeVar

from setup.docs.reaching import reaching
from setup.docs.reference.markdown import sources

T = TypeVar("T")
#: Functions around a value in a message, which do not name it.
_AROUND = {"join", "sorted", "len", "str", "map", "strip", "isoformat", "items", "format"}
_AROUND |= {"first_line", "max", "min", "without_advice", "repr", "list", "sum", "next", "quoted"}


@dataclass(frozen=True)
class Scope:
    """What the names of an expression stand for.

    Parameters
    ----------
    names : of a module's or function's assignments; the last one counts
    functions : name -> a function that returns texts, and its module
    modules : the scope of each module
    attributes : name -> texts that classes assign to it
    """

    names: Mapping[str, ast.expr]
    functions: Mapping[str, tuple[ast.FunctionDef, str]]
    modules: Mapping[str, Scope]
    attributes: Mapping[str, list[str]]
    #: Functions that are being read: none is read within itself.
    reading: frozenset[ast.FunctionDef] = frozenset()

    def within(self, function: ast.FunctionDef | None, line: int) -> Scope:
        """Return the scope in a function, at a line of it."""
        if function is None:
            return self
        return replace(
            self, names={**self.names, **_defaults(function), **reaching(function, line)}
        )

    def cases(self, node: ast.AST | None) -> list[str]:
        """Return each text that the expression can become, once; none: it is no text."""
        return [text for text in self._texts(node) if text]

    def _texts(self, node: ast.AST | None) -> list[str]:
        match node:
            case ast.Constant(value=str(text)):
                found = [text]
            case ast.JoinedStr(values=parts):
                found = ["".join(texts) for texts in product(*map(self._part, parts))]
            case ast.IfExp(body=one, orelse=other):
                found = self._texts(one) + self._texts(other)
            case ast.BoolOp(values=parts):
                found = [text for part in parts for text in self._texts(part)]
            case ast.BinOp(left=left, right=right):
                found = [one + other for one in self._texts(left) for other in self._texts(right)]
            case ast.Name(id=name) if name in self.names:
                found = self._without(name)._texts(self.names[name])
            case (
                ast.Attribute(value=ast.Name(id="cls"), attr=name)
                | ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), _])
            ):
                found = [*self.attributes.get(name, ())]
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[_, other]
            ) if isinstance(known := self.names.get(name), ast.Dict):
                found = [text for value in (*known.values, other) for text in self._texts(value)]
            case ast.Call(func=ast.Attribute(value=of, attr="removeprefix" | "removesuffix")):
                found = self._texts(of)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                found = self._returned(name)
            case _:
                found = []
        return [*dict.fromkeys(found)]

    def _returned(self, name: str) -> list[str]:
        function, module = self.functions.get(name, (None, ""))
        if function is None or function in self.reading:
            return []
        scope = replace(self.modules[module], reading=self.reading | {function})
        returns = [n for n in ast.walk(function) if isinstance(n, ast.Return)]
        return [t for r in returns for t in scope.within(function, r.lineno)._texts(r.value)]

    def _part(self, part: ast.expr) -> list[str]:
        """Return the texts of a part of an f-string; a value is its name in braces."""
        if not isinstance(part, ast.FormattedValue):
            return self._texts(part)
        plain = [n.strip("_") for n in _names(part.value) if n not in _AROUND]
        value = f"{{{plain[0] if plain else 'value'}}}"
        match part.value:
            case ast.Call() if known := self.cases(part.value):
                return known[:1]
            case ast.Name(id=name) if name.isupper() and (known := self.cases(part.value)):
                return known
            case ast.Name() | ast.IfExp() if any(" " in text for text in self._texts(part.value)):
                scope, choices = self, _choices(part.value)
                if isinstance(part.value, ast.Name):
                    name = part.value.id
                    scope, choices = self._without(name), _choices(self.names[name])
                return [
                    text
                    for choice in choices
                    for text in (_said(choice) and scope._texts(choice)) or [value]
                ]
        return [value]

    def _without(self, name: str) -> Scope:
        """Return the scope in which a name has no value: it is not read within itself."""
        return replace(self, names={n: v for n, v in self.names.items() if n != name})


def _choices(node: ast.expr) -> list[ast.expr]:
    """Return the expressions that one chooses from by `if` or `or`."""
    match node:
        case ast.IfExp(body=one, orelse=other):
            return [*_choices(one), *_choices(other)]
        case ast.BoolOp(values=parts):
            return [choice for part in parts for choice in _choices(part)]
    return [node]


def _said(choice: ast.expr) -> bool:
    """Return whether the texts of a choice are all that it can be; a call may return others."""
    match choice:
        case ast.Call(func=ast.Attribute(attr="get")):
            return True
    return not isinstance(choice, ast.Call)


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
    trees = {_module(path): tree for path, tree, _ in sources()}
    assigned = {module: _assigned(tree.body) for module, tree in trees.items()}
    returning = {module: _returning(tree, module) for module, tree in trees.items()}
    every = [item for found in returning.values() for item in found.items()]
    known = Counter(name for name, _ in every)
    # A method is called of a value, whose class a syntax tree does not tell.
    methods = {name: found for name, found in every if known[name] == 1}
    attributes: dict[str, list[str]] = defaultdict(list)
    modules: dict[str, Scope] = {}
    for module, tree in trees.items():
        names = _imported(tree, assigned) | assigned[module]
        functions = methods | _imported(tree, returning) | returning[module]
        modules[module] = Scope(names, functions, modules, attributes)
    for module, tree in trees.items():
        for node in (n for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for n in c.body):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                attributes[node.target.id] += modules[module].cases(node.value)
    return {path: modules[_module(path)] for path, _, _ in sources()}


def _returning(tree: ast.Module, module: str) -> dict[str, tuple[ast.FunctionDef, str]]:
    """Return the functions of a module that return texts, by their names."""
    return {
        node.name: (node, module)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        if isinstance(node.returns, ast.Name) and node.returns.id == "str"
    }


def _module(path: str) -> str:
    inner = re.sub(r"^(spark_jobs|dags|plugins)/|(/__init__)?\.py$", "", path)
    return inner.replace("/", ".")


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name)
    }


def _defaults(function: ast.FunctionDef) -> dict[str, ast.expr]:
    if not function.args.defaults:
        return {}
    names = [a.arg for a in function.args.args[-len(function.args.defaults) :]]
    return dict(zip(names, function.args.defaults, strict=True))


def _imported(tree: ast.Module, own: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """Return what a module imports from others of ours by name."""
    return {
        alias.asname or alias.name: own[node.module][alias.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in own
        for alias in node.names
        if alias.name in own[node.module]
    }
