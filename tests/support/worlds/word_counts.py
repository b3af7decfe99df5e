"""Three thousand words, one a minute, and the load of each counted by hand."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from evenkeel.backtest.windows import Series
from partitioning.function.hashing import key_hash


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "word": [f"w{k}" for k in random.zipf(1.5, 3000) % 200],
            "count": random.integers(0, 5, 3000),
            "at": [datetime(2024, 5, 1, 7) + timedelta(minutes=i) for i in range(3000)],
        }
    )


@pytest.fixture(scope="module")
def words(frame, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("input") / "words.parquet"
    frame.to_parquet(path)
    return str(path)


def loads(series: Series, number: int) -> dict[int, float]:
    window = series.windows[number]
    return dict(zip(window.hashes.tolist(), window.load.tolist(), strict=True))


def by_hand(frame: pd.DataFrame, weight: str | None = None) -> dict[int, float]:
    sums = frame.groupby("word")[weight].sum() if weight else frame.groupby("word").size()
    hashes = key_hash([list(sums.index)], ["string"]).tolist()
    return dict(zip(hashes, sums.astype(float).tolist(), strict=True))
