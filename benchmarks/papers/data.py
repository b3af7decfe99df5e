"""Find the real data of experiments; docs/PAPERS.md says how to fetch them.

The folder is EVENKEEL_DATA, by default shared/data beside the project.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

DATA = Path(os.environ.get("EVENKEEL_DATA") or Path(__file__).parents[3] / "shared" / "data")
#: Exit code of an experiment that lacked some of its data; the page keeps its figures.
LACKING = 3
#: (file, key column) of each, of which the first that is there is read.
PURCHASES = (("retail.parquet", "StockCode"), ("online_retail.parquet", "StockCode"))
WORDS = (("words.txt", "line"), ("novel_words.parquet", "word"))


def find(files: Sequence[tuple[str, str]], folders: Iterable[Path] = ()) -> tuple[Path, str] | None:
    """Find the first of these files in `DATA` or another folder, and its key; None: none exists."""
    for name, key in files:
        for folder in (*folders, DATA):
            if (folder / name).exists():
                return folder / name, key
    return None
