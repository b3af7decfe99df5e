"""Write clients/vectors.txt: functions, and keys with their hash, slot and channel.

    python -m tests.clients.vectors

docs/reference/FUNCTION.md describes the file. The same code gives the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from partitioning.function.canonical import canonical_json
from partitioning.function.channels import Channel
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn, key_hash, slot_of
from partitioning.function.split import Split

FILE = Path(__file__).parents[2] / "clients" / "vectors.txt"
#: Keys of each function.
KEYS = 2000
#: Key columns, slots, channels, heavy keys, split keys and the type of the row column; where there
#: are more slots than rows know, the latter.
CASES = {
    "text": (("string",), 1024, 10, 40, 0, None),
    "number": (("bigint",), 1000, 7, 25, 0, None),
    "composite": (("string", "int", "date"), 256, 300, 10, 0, None),
    "bytes": (("binary", "tinyint", "smallint"), 64, 3, 5, 0, None),
    "split": (("string",), 512, 40, 20, 8, "bigint"),
    "split by text": (("bigint",), 128, 20, 5, 8, "string"),
    "more slots": (("string",), 192, 12, 10, 0, None, 64),
    "more slots and split": (("string",), 256, 40, 20, 8, "bigint", 64),
}
RANGES = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
TEXTS = (
    "",
    "a",
    "ORD",
    "teapot",
    "été",
    "дом",
    "水",
    "🙂",
    "\t\n'\"\\",
    "\0",
    "a\0b",
    "\ufeffa",
    "x" * 31,
    "y" * 32,
    "z" * 67,
)
NULL = "\\N"
FIRST = date(1970, 1, 1)


def values(rng: np.random.Generator, kind: str, count: int) -> list[Any]:
    """Draw values of a key type: its edges first, some nulls, then chance."""
    if kind in ("string", "binary"):
        sizes = rng.integers(1, 12, count)
        drawn = ["".join(map(chr, rng.integers(97, 123, n))) for n in sizes.tolist()]
        drawn[: len(TEXTS)] = TEXTS
        if kind == "binary":
            drawn = [text.encode() + bytes([i % 256]) for i, text in enumerate(drawn)]
    elif kind == "date":
        drawn = [FIRST + timedelta(days) for days in rng.integers(-40_000, 80_000, count).tolist()]
        drawn[:4] = [date(1000, 1, 1), date(1582, 10, 10), date(1900, 2, 28), date.max]
    else:
        top = 2 ** (RANGES[kind] - 1)
        drawn = rng.integers(-top, top, count, dtype=np.int64, endpoint=False).tolist()
        drawn[:5] = [-top, top - 1, 0, 1, -1]
    drawn[20::97] = [None] * len(drawn[20::97])
    return drawn


def function_of(rng: np.random.Generator, case: str, hashes: Any) -> PartitioningFunction:
    """Fill a function at random; its heavy and split keys are among `hashes`."""
    kinds, slots, channels, heavy, split, row, *known = CASES[case]
    listed = rng.permutation(np.unique(hashes))[: heavy + split]
    weights = {}
    for i, h in enumerate(listed[heavy:].tolist()):
        owners = rng.permutation(channels)[: 2 + 2 * i].tolist()
        weights[h] = {c: float(w) for c, w in zip(owners, rng.random(len(owners)), strict=True)}
    explicit = np.sort(listed[:heavy])
    return PartitioningFunction(
        key=tuple(KeyColumn(f"k{i}", kind) for i, kind in enumerate(kinds)),
        # Names and capacities that are hard to read as JSON; they decide nothing here.
        channels=tuple(Channel(f'"{i}, {2**60 + i}\\', 1 / (i + 1)) for i in range(channels)),
        slots=rng.integers(0, channels, slots),
        explicit_keys=explicit,
        explicit_channels=rng.integers(0, channels, heavy),
        split=Split.of(weights),
        row=KeyColumn("row", row) if row else None,
        row_slots=known[0] if known else 0,
        strategy="vectors",
    )


def written(value: Any) -> str:
    """Write a value: text and bytes in hexadecimal, a date in days since 1970-01-01."""
    if value is None:
        return NULL
    if isinstance(value, date):
        value = (value - FIRST).days
    if isinstance(value, str):
        value = value.encode()
    return value.hex() if isinstance(value, bytes) else str(value)


def lines() -> Iterator[str]:
    """Yield the lines of the file."""
    for seed, (case, (kinds, _, _, _, _, row, *_)) in enumerate(CASES.items()):
        rng = np.random.default_rng(seed)
        columns = [values(rng, kind, KEYS) for kind in kinds]
        if row:  # Many rows of few keys: each split key is met often.
            columns = [[columns[0][i] for i in rng.integers(0, 60, KEYS).tolist()]]
        hashes = key_hash(columns, kinds)
        function = function_of(rng, case, hashes)
        rows = values(rng, row, KEYS) if row else None
        seeds = key_hash([hashes, rows], ["bigint", row]) if row else None
        owners = function.lookup_hashes(hashes, seeds)
        yield f"function\t{case}\t{canonical_json(function.to_dict()).decode()}"
        found = zip(
            zip(*columns, strict=True),
            rows or [None] * KEYS,
            hashes.tolist(),
            slot_of(hashes, function.row_slots).tolist(),
            owners.tolist(),
            strict=True,
        )
        for key, at, h, slot, owner in found:
            parts = [*map(written, key), *([written(at)] if row else [])]
            yield "\t".join([*parts, str(h), str(slot), str(owner)])


def functions() -> dict[str, PartitioningFunction]:
    """Read the functions back from the file, by name."""
    rows = (line.split("\t") for line in FILE.read_text().splitlines())
    return {
        row[1]: PartitioningFunction.from_dict(json.loads(row[2]))
        for row in rows
        if row[0] == "function"
    }


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n")
