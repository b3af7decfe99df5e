"""The partitioning function: one immutable value that every strategy fills.

`lookup` is its NumPy face; `partitioning.function.sql` gives the Spark one. The two agree bit for
bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partitioning.errors import FAULT, DamagedError, InputError, without_advice
from partitioning.function.canonical import digest
from partitioning.function.channels import Channel, capacities_of, check_channels
from partitioning.function.hashing import Hashes, KeyColumn, key_hash, slot_of
from partitioning.function.split import Split

Channels = npt.NDArray[np.int32]
FUNCTION_FORMAT = 1
#: Format of functions that split keys: a reader that knows none must not take them for whole.
SPLIT_FORMAT = 2
#: Format of functions with more slots than their rows know: else a reader writes wrong slots.
REFINED_FORMAT = 3
#: Slots of a new table. More: finer moves of light keys, and larger plans and CHECK constraints.
DEFAULT_SLOTS = 4096
#: An owner with no more of a split key than this is none: it would hold state for nothing.
MIN_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class PartitioningFunction:
    """Which channel owns each key.

    Parameters
    ----------
    key : the key's columns, in order
    channels : the N owners
    slots : int32 array of shape (S,): slot -> channel
    explicit_keys : int64 array of shape (K,), ascending: hashes of the heavy keys
    explicit_channels : int32 array of shape (K,): channel of each heavy key
    split : keys shared by several channels
    row : column of the rows; xxhash64(h, row) picks the channel of a split key's row, so that a
        retry picks the same; null counts as one more value
    row_slots : R, of which S is a multiple: a row's column `slot` is h mod R; 0: R is S
    epoch : number of the epoch that this function serves
    parent : digest of the function before it; None for the first
    strategy, options : what filled it

    Raises
    ------
    InputError : no channel with capacity, a slot or key that no channel owns, a key twice, or slots
        that are no multiple of the rows'
    """

    key: tuple[KeyColumn, ...]
    channels: tuple[Channel, ...]
    slots: Channels
    explicit_keys: Hashes = field(default_factory=lambda: np.empty(0, np.int64))
    explicit_channels: Channels = field(default_factory=lambda: np.empty(0, np.int32))
    split: Split = field(default_factory=Split)
    row: KeyColumn | None = None
    row_slots: int = 0
    epoch: int = 0
    parent: str | None = None
    strategy: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_channels(self.channels)
        if not self.key:
            what = "a partitioning function needs at least one key column"
            raise InputError(what, fix="Name a column in `key`")
        for name, kind in (
            ("slots", np.int32),
            ("explicit_keys", np.int64),
            ("explicit_channels", np.int32),
        ):
            array = np.array(getattr(self, name), dtype=kind)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        owners = np.concatenate([self.slots, self.explicit_channels, self.split.channels])
        if not len(self.slots) or owners.min() < 0 or owners.max() >= len(self.channels):
            raise InputError(
                f"every slot and key needs a channel of 0 to {len(self.channels) - 1}", fix=FAULT
            )
        object.__setattr__(self, "row_slots", self.row_slots or len(self.slots))
        if self.row_slots < 0 or len(self.slots) % self.row_slots:
            raise InputError(
                f"rows know {self.row_slots} slots, of which {len(self.slots)} is no multiple",
                fix=FAULT,
            )
        if len(self.explicit_keys) != len(self.explicit_channels):
            raise InputError("pinned keys and their channels differ in number", fix=FAULT)
        if np.any(self.explicit_keys[1:] <= self.explicit_keys[:-1]):
            raise InputError("pinned keys must be ascending and distinct", fix=FAULT)
        if np.intersect1d(self.explicit_keys, self.split.keys).size:
            raise InputError("a key is both pinned and split", fix=FAULT)

    @property
    def capacities(self) -> npt.NDArray[np.float64]:
        """Capacity weight of each channel, shape (N,)."""
        return capacities_of(self.channels)

    @property
    def exceptions(self) -> Hashes:
        """Hashes of the keys that do not go with their slot, pinned or split: (K,), ascending."""
        return np.union1d(self.explicit_keys, self.split.keys)

    @property
    def unsplit(self) -> PartitioningFunction:
        """The same without its split keys: they go with their slots."""
        return replace(self, split=Split(), row=None)

    def refined(self, slots: int) -> PartitioningFunction:
        """Return the same placement with each slot split into equal parts, `slots` in all.

        The slots of rows stay as they are.

        Raises
        ------
        InputError : `slots` is no multiple of S
        """
        parts, rest = divmod(slots, len(self.slots))
        if rest or not parts:
            raise InputError(
                f"expected a multiple of the {len(self.slots)} slots in force, got {slots}",
                "slots",
                "Learn again: start a new run",
            )
        return self if parts == 1 else replace(self, slots=np.tile(self.slots, parts))

    def lookup_hashes(self, hashes: Hashes, rows: Hashes | None = None) -> Channels:
        """Return the channel of each key hash, shape (n,).

        Parameters
        ----------
        rows : int64 (n,): hash of each row, xxhash64(h, row), as `key_hash` gives it; it decides
            for split keys. None: the home of a split key, its first owner
        """
        owners: Channels = self.slots[slot_of(hashes, len(self.slots))]
        if len(self.explicit_keys):
            at = np.searchsorted(self.explicit_keys, hashes)
            at[at == len(self.explicit_keys)] = 0
            found = self.explicit_keys[at] == hashes
            owners[found] = self.explicit_channels[at[found]]
        if len(self.split):
            key = self.split.find(hashes)
            shared = np.flatnonzero(key >= 0)
            key = key[shared]
            owners[shared] = (
                self.split.homes[key] if rows is None else self.split.pick(key, rows[shared])
            )
        return owners

    def lookup(self, *columns: Any, row: Any = None) -> Channels:
        """Return the channel of each row, (n,); give one array-like (n,) for each key column.

        Parameters
        ----------
        row : values of the column `row`, shape (n,); needed where keys are split

        Raises
        ------
        InputError : values that do not fit the declared types, or no `row` where keys are split
        """
        hashes = key_hash(columns, [c.type for c in self.key])
        if not len(self.split):
            return self.lookup_hashes(hashes)
        if self.row is None or row is None:
            what = "declares none" if self.row is None else f"declares {self.row.name!r}"
            fix = FAULT if self.row is None else "Give its values as `row`"
            raise InputError(f"keys are split by a row column; the function {what}", "row", fix)
        return self.lookup_hashes(hashes, key_hash([hashes, row], ["bigint", self.row.type]))

    def to_dict(self) -> dict[str, Any]:
        """Return the function as plain JSON values; `digest` is taken over exactly this."""
        data: dict[str, Any] = {
            "format": SPLIT_FORMAT if len(self.split) else FUNCTION_FORMAT,
            "key": [{"name": c.name, "type": c.type} for c in self.key],
            "channels": [{"name": c.name, "capacity": c.capacity} for c in self.channels],
            "slots": self.slots.tolist(),
            "explicit": {
                "keys": self.explicit_keys.tolist(),
                "channels": self.explicit_channels.tolist(),
            },
            "epoch": self.epoch,
            "parent": self.parent,
            "strategy": self.strategy,
            "options": dict(self.options),
        }
        if len(self.split):
            data["split"] = self.split.to_dict()
        if self.row is not None:
            data["row"] = {"name": self.row.name, "type": self.row.type}
        if self.row_slots != len(self.slots):
            data |= {"format": REFINED_FORMAT, "row_slots": self.row_slots}
        return data

    @cached_property
    def digest(self) -> str:
        """sha256 over the canonical JSON."""
        return digest(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "function") -> PartitioningFunction:
        """Build the function from the values that `to_dict` gave.

        Raises
        ------
        DamagedError : fields missing, of another format, or inconsistent
        """
        try:
            found, refined = data["format"], "row_slots" in data
            if found not in (FUNCTION_FORMAT, SPLIT_FORMAT, REFINED_FORMAT):
                raise ValueError(f"format {found} is not 1, 2 or {REFINED_FORMAT}")
            count = data.get("row_slots")
            is_count = type(count) is int and count > 0
            if refined != (found == REFINED_FORMAT) or (refined and not is_count):
                raise ValueError(f"format {found} does not fit its slots of rows")
            if not refined and ("split" in data) != (found == SPLIT_FORMAT):
                raise ValueError(f"format {found} does not fit its split keys")
            return cls(
                key=tuple(KeyColumn(c["name"], c["type"]) for c in data["key"]),
                channels=tuple(Channel(c["name"], c["capacity"]) for c in data["channels"]),
                slots=np.array(data["slots"], dtype=np.int32),
                explicit_keys=np.array(data["explicit"]["keys"], dtype=np.int64),
                explicit_channels=np.array(data["explicit"]["channels"], dtype=np.int32),
                split=Split.from_dict(data["split"]) if "split" in data else Split(),
                row=KeyColumn(data["row"]["name"], data["row"]["type"]) if "row" in data else None,
                row_slots=int(data.get("row_slots", 0)),
                epoch=int(data["epoch"]),
                parent=data["parent"],
                strategy=data["strategy"],
                options=data["options"],
            )
        except (KeyError, TypeError, ValueError, OverflowError, InputError) as error:
            raise DamagedError(
                f"not a partitioning function ({without_advice(error)})",
                where,
                "Restore it from a backup",
            ) from error


def successor(
    key: tuple[KeyColumn, ...],
    previous: PartitioningFunction | None,
    channels: Sequence[Channel],
    slots: npt.ArrayLike,
    strategy: str,
    options: Mapping[str, Any] | None = None,
    explicit: Mapping[int, int] | None = None,
    split: Mapping[int, Mapping[int, float]] | None = None,
) -> PartitioningFunction:
    """Build the function that follows `previous`, or the first: every strategy returns this.

    Parameters
    ----------
    slots : (S,): channel of each slot
    explicit : {hash of a key: channel}; keys that their slot's channel owns anyway are left out
    split : {hash of a key: {channel: weight}}, weights in any unit; those too small for a row are
        dropped. A key left with one channel is explicit, one left with none goes with its slot
    """
    slots = np.asarray(slots, dtype=np.int32)
    shared, whole = {}, dict(explicit or {})
    for h, weights in (split or {}).items():
        least = sum(weights.values()) * MIN_SHARE
        owners = {c: w for c, w in weights.items() if w > least}
        if len(owners) > 1:
            shared[h] = owners
        elif owners:
            (whole[h],) = owners
    placed = {h: c for h, c in whole.items() if slots[h % len(slots)] != c}
    keys = np.array(sorted(placed), dtype=np.int64)
    return PartitioningFunction(
        key=key,
        channels=tuple(channels),
        slots=slots,
        explicit_keys=keys,
        explicit_channels=np.array([placed[h] for h in keys.tolist()], dtype=np.int32),
        split=Split.of(shared),
        row=previous.row if previous else None,
        row_slots=previous.row_slots if previous else 0,
        epoch=previous.epoch + 1 if previous else 0,
        parent=previous.digest if previous else None,
        strategy=strategy,
        options=dict(options or {}),
    )
