"""The Spark face of the partitioning function: one native SQL expression, as text.

The same text routes a DataFrame (`F.expr`) and moves rows (UPDATE, MERGE). It holds no join and no
Python. Slots are an array literal. It leads each row to a cell of a perfect hash table of the heavy
keys, which are two more literals. `check_sql` says the same for CHECK constraints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partitioning.errors import FAULT, InputError
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes, KeyColumn, slot_of
from partitioning.function.split import CHANNEL_BITS, PARTS_OF_A_KEY

#: Names of our constraints begin so.
OURS = "evenkeel_"

Ints = npt.NDArray[np.int64]


def quoted(name: str) -> str:
    """Write a column name as an SQL identifier; dots are part of the name."""
    return "`" + name.replace("`", "``") + "`"


def hash_sql(key: Sequence[KeyColumn], columns: Sequence[str] | None = None) -> str:
    """Write SQL for h, the 64-bit hash of the key.

    Parameters
    ----------
    columns : names to read the key from; default: the key's own
    """
    names = [c.name for c in key] if columns is None else list(columns)
    if len(names) != len(key):
        raise InputError(
            f"{len(names)} columns given for the key ({', '.join(c.name for c in key)})",
            fix="Name one column for each key column",
        )
    parts = (f"CAST({quoted(n)} AS {c.type.upper()})" for n, c in zip(names, key, strict=True))
    return f"xxhash64({', '.join(parts)})"


def slot_sql(key: Sequence[KeyColumn], slots: int, columns: Sequence[str] | None = None) -> str:
    """Write SQL (INT) for the slot of a key among `slots`: h mod `slots`, never negative.

    A row's column `slot` is the one among the function's `row_slots`.
    """
    return f"CAST({_slot(hash_sql(key, columns), slots)} AS INT)"


def channel_sql(
    function: PartitioningFunction, columns: Sequence[str] | None = None, row: str | None = None
) -> str:
    """Write SQL (INT) for the channel of a row; it equals `function.lookup` bit for bit.

    An entry of the slots' array holds the slot's channel. Its upper bits displace the cells of the
    explicit and split keys in the slot. A cell belongs to one key only. It has the bits in which
    the key's owner differs from the slot's. For a split key it has the complement of where the key
    begins in `Split.table`. `python -m benchmarks.spark.routing` compares its speed with
    pmod(hash).

    Parameters
    ----------
    columns, row : names to read the key and the function's `row` from; default: their own

    Raises
    ------
    InputError : keys are split and the function declares no row column
    """
    h = hash_sql(function.key, columns)
    slot = _slot(h, len(function.slots))
    keys = function.exceptions
    if not len(keys):
        return f"{array_sql(function.slots)}[{slot}]"
    table = perfect_hash(keys, len(function.slots))
    bits = max((len(function.channels) - 1).bit_length(), 1)
    entries = function.slots.astype(np.int64)
    entries[table.slots] |= table.displacements << bits
    # Halves what stays cached, where it fits.
    kind = "INT" if entries.max() < 2**31 else "BIGINT"
    differs = np.zeros(len(table.stored), dtype=np.int64)
    explicit = table.cells[np.searchsorted(keys, function.explicit_keys)]
    slots = slot_of(function.explicit_keys, len(function.slots))
    differs[explicit] = function.explicit_channels ^ function.slots[slots]
    entry = f"{array_sql(entries, kind)}[{slot}]"
    cell = (
        f"(CAST(shiftrightunsigned({h}, {table.shift}) & {len(table.stored) - 1}L AS INT)"
        f" ^ shiftrightunsigned({entry}, {bits}))"
    )
    shared = table.cells[np.searchsorted(keys, function.split.keys)]
    differs[shared] = ~(np.arange(len(shared)) << function.split.bits)
    other = f"{array_sql(differs)}[{cell}]"
    if len(function.split):
        owner = _split_sql(function, other, h, row)
        other = f"IF({other} >= 0, {other}, {entry} ^ {owner})"
    # Bits instead of a branch: what only a branch names, Spark computes again there.
    named = f"-CAST({array_sql(table.stored, 'BIGINT')}[{cell}] = {h} AS INT)"
    return f"CAST(({entry} ^ ({other} & {named})) & {2**bits - 1} AS INT)"


def _split_sql(function: PartitioningFunction, begins: str, h: str, row: str | None) -> str:
    """Write SQL (INT) for the owner of a split key's row, as `Split.pick` finds it.

    The SQL `begins` gives the complement of where the key begins in the table. Little is written
    twice, because the JVM does not compile long code.
    """
    if function.row is None:
        raise InputError(
            "keys are split, and no column of the rows is declared to split by",
            "row",
            "Name one in `split.by` of the spec",
        )
    r = f"xxhash64({h}, CAST({quoted(row or function.row.name)} AS {function.row.type.upper()}))"
    at = f"CAST(~{begins} + shiftrightunsigned({r}, {64 - function.split.bits}) AS INT)"
    cell = f"{array_sql(function.split.table, 'BIGINT')}[{at}]"
    first = f"{r} & {PARTS_OF_A_KEY - 1}L < shiftrightunsigned({cell}, {2 * CHANNEL_BITS})"
    owner = f"shiftrightunsigned({cell}, IF({first}, 0, {CHANNEL_BITS})) & {2**CHANNEL_BITS - 1}L"
    return f"CAST({owner} AS INT)"


def check_sql(function: PartitioningFunction, slot: str, channel: str = "channel") -> str:
    """Write SQL (INT) for the channel that owns a row of state, for a CHECK constraint.

    A row of a split key is a partial row, which any owner may hold. For it this is the channel that
    the row names, or NULL if that is no owner: no constraint admits NULL.

    Delta folds no constants in constraints, so an array literal would be built again for every row.
    Slots are therefore byte literals here. Pinned keys are compared one by one, in the slots that
    hold any. The slot is the row's own, or found by the hash if the function has more of them.

    Parameters
    ----------
    slot, channel : names of the columns that hold the key's slot and the row's channel
    """
    own = function.row_slots == len(function.slots)
    index = f"{quoted(slot) if own else slot_sql(function.key, len(function.slots))} + 1"
    sevens = range(0, max((len(function.channels) - 1).bit_length(), 1), 7)
    digits = {1 << bits: (function.slots >> bits) & 127 for bits in sevens}
    owner = " + ".join(f"{worth} * {_bytes(digit, index)}" for worth, digit in digits.items())
    listed = function.exceptions
    if not len(listed):
        return f"({owner})"
    marked = np.zeros(len(function.slots), dtype=np.uint8)
    marked[slot_of(listed, len(function.slots))] = 1
    named: dict[str, list[int]] = {}
    for at in np.unique(function.explicit_channels).tolist():
        named[str(at)] = function.explicit_keys[function.explicit_channels == at].tolist()
    owners = np.split(function.split.channels, function.split.starts[1:-1])
    for h, channels in zip(function.split.keys.tolist(), owners, strict=False):
        its = ", ".join(map(str, sorted(channels.tolist())))
        named.setdefault(f"IF({quoted(channel)} IN ({its}), {quoted(channel)}, NULL)", []).append(h)
    cases = " ".join(
        f"WHEN {among_sql(hash_sql(function.key), keys)} THEN {said}"
        for said, keys in named.items()
    )
    return f"IF({_bytes(marked, index)} = 1, CASE {cases} ELSE {owner} END, {owner})"


@dataclass(frozen=True, eq=False)
class PerfectHash:
    """A collision-free table of K keys in T cells (a power of two).

    Key i is in cell `cells[i]` = ((h >>> shift) ^ displacement of its slot) & (T - 1).
    slots and displacements: int64 (B,): the slots that hold keys. stored: int64 (T,): the key of
    each cell; an empty one repeats the first key, which no look-up of that key arrives at.
    """

    shift: int
    slots: Ints
    displacements: Ints
    cells: Ints
    stored: Hashes


def perfect_hash(keys: Hashes, slots: int) -> PerfectHash:
    """Find displacements (Tarjan and Yao, 1979), with the slots as first-level buckets.

    Keys that have their slots for themselves fill the free cells, so the table is hardly larger
    than the number of keys. Rows look into it one by one, and it should stay cached.

    Parameters
    ----------
    keys : int64 (K,), distinct, K >= 1
    slots : S

    Raises
    ------
    InputError : hashes so alike that no table of a sensible size parts them (never seen of
        xxhash64; made-up hashes can be)
    """
    room = 1.0 if 2 * len(keys) <= slots else 2.0
    smallest = int(np.ceil(np.log2(room * len(keys))))
    for size in range(smallest, smallest + 12):
        for shift in range(0, 64 - size, 4):
            table = _displace(keys, slot_of(keys, slots), shift, 1 << size)
            if table is not None:
                return table
    raise InputError(f"no table parts these {len(keys)} hashes", "pinned keys", FAULT)


def _displace(
    keys: Hashes, slots: npt.NDArray[np.int32], shift: int, size: int
) -> PerfectHash | None:
    """Return the table for this shift and size; None where two keys of a slot cannot be parted."""
    base = ((keys.view(np.uint64) >> np.uint64(shift)) & np.uint64(size - 1)).astype(np.int64)
    free = np.ones(size, dtype=bool)
    cells = np.empty(len(keys), dtype=np.int64)
    members: dict[int, list[int]] = {}
    for i, slot in enumerate(slots.tolist()):
        members.setdefault(slot, []).append(i)
    displacements = {}
    left = 0
    for slot, inside in sorted(members.items(), key=lambda item: (-len(item[1]), item[0])):
        wanted = base[inside]
        if len(inside) == 1:
            left += int(np.argmax(free[left:]))
            displacements[slot], cells[inside], free[left] = int(wanted[0]) ^ left, left, False
            continue
        if len(set(wanted.tolist())) < len(inside):
            return None
        for displacement in range(size):
            at = wanted ^ displacement
            if free[at].all():
                free[at] = False
                displacements[slot], cells[inside] = displacement, at
                break
        else:
            return None
    stored = np.full(size, keys[0], dtype=np.int64)
    stored[cells] = keys
    return PerfectHash(
        shift,
        np.array(list(displacements), dtype=np.int64),
        np.array(list(displacements.values()), dtype=np.int64),
        cells,
        stored,
    )


def _slot(h: str, slots: int) -> str:
    return f"({h} & {slots - 1}L)" if slots & (slots - 1) == 0 else f"pmod({h}, {slots}L)"


def array_sql(values: npt.NDArray[np.generic], kind: str = "INT") -> str:
    """Write SQL (ARRAY) for a constant array of the SQL type `kind`.

    It is one string literal, which the optimizer folds into an array literal. Thousands of number
    literals would take seconds to analyse.
    """
    if not len(values):
        return f"CAST(array() AS ARRAY<{kind}>)"
    return f"CAST(split('{','.join(map(str, values.tolist()))}', ',') AS ARRAY<{kind}>)"


def _bytes(values: npt.NDArray[np.integer[Any]], index: str) -> str:
    """Write SQL (INT) for entry `index` of `values`, each 0 to 127."""
    literal = values.astype(np.uint8).tobytes().hex()
    return f"ascii(CAST(substring(X'{literal}', {index}, 1) AS STRING))"


def among_sql(value: str, those: Iterable[int]) -> str:
    """Write SQL (BOOLEAN) for whether a BIGINT is one of these."""
    listed = ", ".join(map(bigint_sql, those))
    return f"{value} IN ({listed})" if listed else "false"


def string_sql(value: str) -> str:
    """Write a STRING literal, for a session that reads backslashes as escapes (Spark's default)."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def bigint_sql(value: int) -> str:
    """Write a BIGINT literal."""
    # The least BIGINT is no literal in Spark SQL: the minus is applied to a number too large.
    return f"{value}L" if value > -(2**63) else "(-9223372036854775807L - 1L)"


def epoch_name(epoch: int) -> str:
    """Name the constraint by which a table admits this epoch's function alone.

    It is what a stale writer reads in Delta's error, so it names the epoch.
    """
    return f"{OURS}epoch_{epoch}"
