"""Functions are short: 60 lines at most, without their docstring."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.wheel import tracked

ROOT = Path(__file__).resolve().parents[3]
#: Lines of a function, its docstring left out.
MOST = 60


def lines(node: ast.stmt) -> int:
    """Lines from the first to the last of a statement."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, from `def` to its end, without its docstring."""
    documented = ast.get_docstring(function) is not None
    return lines(function) - (lines(function.body[0]) if documented else 0)


def test_functions_are_short() -> None:
    seen, long = 0, set()
    for file in tracked():
        if file.suffix == ".py" and file.parts[0] != "tests":
            for node in ast.walk(ast.parse((ROOT / file).read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    seen += 1
                    long |= {f"{file}: {node.name}"} if length(node) > MOST else set()
    assert seen > 1500, "functions are no longer found"
    assert long == set()
