"""The rules of Prometheus on a page, evaluated: names, numbers, `*`, comparisons and `and`.

PromQL and Python write these alike. Anything else is refused, so that no rule passes unseen.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_COMPARED = {ast.Gt: operator.gt, ast.Lt: operator.lt, ast.GtE: operator.ge, ast.LtE: operator.le}


def file_text(page: Path, name: str) -> str:
    """Return what a page says stands in a file."""
    (text,) = re.findall(rf"^```\w+\n(# {re.escape(name)}\n.*?)^```", page.read_text(), re.M | re.S)
    return str(text)


def rules(page: Path) -> dict[str, str]:
    """Return the expression of each alert in a page's `alerts.yaml`."""
    made = yaml.safe_load(file_text(page, "alerts.yaml"))
    return {rule["alert"]: rule["expr"] for group in made["groups"] for rule in group["rules"]}


def fires(expression: str, gauges: Mapping[str, float]) -> bool:
    """Whether a rule has a result; a gauge that nobody has reported gives none.

    Raises
    ------
    ValueError : the expression has something that is not evaluated here
    """
    return _holds(ast.parse(expression, mode="eval").body, gauges)


def _holds(node: ast.expr, gauges: Mapping[str, float]) -> bool:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        # Each part is evaluated, so that one of another kind is refused whatever the gauges are.
        parts = [_holds(part, gauges) for part in node.values]
        return all(parts)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        left, right = (_value(side, gauges) for side in (node.left, node.comparators[0]))
        compare: Any = _COMPARED[type(node.ops[0])]
        return left is not None and right is not None and bool(compare(left, right))
    raise ValueError(f"expected a comparison, or several with `and`, got {ast.unparse(node)}")


def _value(node: ast.expr, gauges: Mapping[str, float]) -> float | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.Name):
        return gauges.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _value(node.left, gauges), _value(node.right, gauges)
        return None if left is None or right is None else left * right
    raise ValueError(f"expected a name, a number or a product, got {ast.unparse(node)}")
