"""The README as tests read it: its text, its code by language, and sales that its table is of."""

from __future__ import annotations

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


def sales(file: Path, days: int, first: date = FIRST) -> Path:
    """Sales of 300 products, by Zipf, on so many days from the first on."""
    rng = np.random.default_rng(days)
    weights = 1 / np.arange(1, 301)
    products = rng.choice(300, 4000, p=weights / weights.sum())
    columns = {
        "product": [None, *(f"product {p}" for p in products[1:])],
        "quantity": rng.integers(1, 9, 4000).astype(np.int32),
        "day": [first + timedelta(days=int(d)) for d in rng.integers(0, days, 4000)],
    }
    pq.write_table(pa.table(columns), file)
    return file
