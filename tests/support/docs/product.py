"""The modules of the product, as text and as syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: Folders of the product.
PRODUCT = ("partitioning", "evenkeel", "spark_jobs", "dags", "plugins")


def modules(root: Path = ROOT) -> Iterator[tuple[str, str, ast.Module]]:
    """Path, text and tree of each module of the product."""
    for package in PRODUCT:
        for file in sorted((root / package).rglob("*.py")):
            text = file.read_text()
            yield str(file.relative_to(root)), text, ast.parse(text)
