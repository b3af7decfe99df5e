"""One name has one meaning: no two classes, and no two constants, of the product share a name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("partitioning", "evenkeel", "spark_jobs", "dags", "plugins")


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the product, by its path."""
    for package in PRODUCT:
        for file in sorted((ROOT / package).rglob("*.py")):
            yield str(file.relative_to(ROOT)), ast.parse(file.read_text())


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path, module in modules():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert len(places) > 150, "classes are no longer found"
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


#: Constants that have a value a module; this list only shrinks.
SEVERAL = {"STEP"}


def test_a_constant_has_one_value() -> None:
    values = defaultdict(dict)
    for path, module in modules():
        for node in module.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.AnnAssign):
                target = node.target
            if isinstance(target, ast.Name) and re.fullmatch("[A-Z][A-Z_]+", target.id):
                assert isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
                values[target.id][path] = ast.unparse(node.value)
    assert len(values) > 200, "constants are no longer found"
    assert {name for name, there in values.items() if len({*there.values()}) > 1} == SEVERAL
