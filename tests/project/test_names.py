"""One name has one meaning: no two public classes of the product share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
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
