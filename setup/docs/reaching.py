"""Values that a name of a function may have at a line, read from its syntax tree.

Conditions are not read: a value of any branch that goes on to the line counts.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

#: Statements after which no other one of their block is run.
_ENDS = (ast.Raise, ast.Return, ast.Continue, ast.Break)


class _Block(NamedTuple):
    """A list of statements: the statement that it is a part of, and which part."""

    of: ast.stmt | ast.excepthandler | ast.match_case
    part: str
    ends: bool


#: The blocks around a statement, the outermost first.
_Place = tuple[_Block, ...]


@cache
def reaching(function: ast.FunctionDef, line: int) -> dict[str, ast.expr]:
    """Return the names that are assigned before a line; one with many values as `a or b`."""
    found: dict[str, list[tuple[_Place, ast.expr]]] = defaultdict(list)
    here: _Place = ()
    for place, statement in _statements(function, ()):
        if statement.lineno <= line:
            here = place
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if statement.lineno < line:
                found[name].append((place, value))
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if (
                statement.lineno < line
            ):
                for target, value in zip(names, values, strict=False):
                    if isinstance(target, ast.Name):
                        found[target.id].append((place, value))
    kept = {name: _left(assigned, here) for name, assigned in found.items()}
    return {
        name: left[0] if len(left) == 1 else ast.BoolOp(ast.Or(), left)
        for name, left in kept.items()
        if left
    }


def _left(assigned: list[tuple[_Place, ast.expr]], here: _Place) -> list[ast.expr]:
    """Return the values that a name may have at a place, of those assigned before."""
    left: list[ast.expr] = []
    for place, value in assigned:
        same = sum(1 for one, other in zip(place, here, strict=False) if one == other)
        inner, after = place[same:], here[same:]
        if any(block.ends for block in inner):
            continue
        if inner and after and inner[0].of is after[0].of and not isinstance(inner[0].of, ast.Try):
            # The other branch.
            continue
        # One that is sure to be assigned replaces those before.
        left = [*(left if inner else ()), value]
    return left


def _statements(node: ast.AST, place: _Place) -> Iterator[tuple[_Place, ast.stmt]]:
    """Yield each statement within one, in the order of their lines, with its place."""
    for part in ("body", "handlers", "cases", "orelse", "finalbody"):
        inside = getattr(node, part, [])
        if not isinstance(inside, list):
            continue
        for child in inside:
            if isinstance(child, ast.stmt):
                block = _Block(node, part, isinstance(inside[-1], _ENDS))
                yield (*place, block), child
                yield from _statements(child, (*place, block))
            else:
                yield from _statements(child, place)
