"""The README as tests read it: its text, its code by language, and sales that its table is of."""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "README.md").read_text()
#: First day of the window that it adds.
FIRST = date(2026, 1, 1)


def block(language: str) -> str:
    """The first fenced block of a language, indented or not."""
    found = re.search(rf"^( *)```{language}\n(.*?)^ *```", TEXT, re.M | re.S)
    assert found is not None, f"the README has no block of {language}"
    indent = len(found[1])
    return "".join(line[indent:] for line in found[2].splitlines(keepends=True))


def shell() -> dict[str, str]:
    """The variables of a shell that a reader has just opened in the checkout: nothing is set up."""
    own = ("AIRFLOW", "AWS_", "EVENKEEL", "JAVA_HOME", "PYSPARK", "PYTHON", "SPARK", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    path = [p for p in os.get_exec_path() if not p.startswith(str(ROOT))]
    return {**kept, "PATH": os.pathsep.join(path)}


def sales(file: Path, days: int, first: date = FIRST, null: bool = False) -> Path:
    """Sales of 300 products, by Zipf, on so many days from the first on; one may have a null."""
    rng = np.random.default_rng(days)
    weights = 1 / np.arange(1, 301)
    products = rng.choice(300, 4000, p=weights / weights.sum())
    columns = {
        "product": [None if null and not n else f"product {p}" for n, p in enumerate(products)],
        "quantity": rng.integers(1, 9, 4000).astype(np.int32),
        "day": [first + timedelta(days=int(d)) for d in rng.integers(0, days, 4000)],
    }
    pq.write_table(pa.table(columns), file)
    return file
