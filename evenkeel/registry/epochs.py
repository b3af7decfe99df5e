"""The registry: epochs, and the folders of the runs that led to them.

An epoch is one whole file, created exclusively. So one of two racers wins, and an epoch is never
half published. The file's digest shows if it is torn or edited.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached

from evenkeel.extras import require_packages
from evenkeel.registry.files.folder import Folder
from evenkeel.registry.files.records import EpochRecord
from evenkeel.registry.files.run_files import EpochFiles, RegistryFiles, RunFiles
from evenkeel.registry.files.stored_file import parse
from evenkeel.registry.run_folder import safe_name
from evenkeel.registry.state_view import slot_column
from evenkeel.registry.store import RESTORE, Store
from partitioning.errors import DamagedError, FenceError, InputError
from partitioning.function.canonical import digest
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import key_hash, slot_of
from partitioning.function.sql import among_sql, channel_sql, hash_sql, slot_sql

if TYPE_CHECKING:
    from pyspark.sql import Column

EPOCH_FORMAT = 1
#: Epochs cached in a process, by their bytes. Each takes 200 kB with a thousand channels.
CACHED_EPOCHS = 256


@dataclass(frozen=True)
class TableVersion:
    """A state table's folder and the Delta version that goes with an epoch."""

    path: str
    version: int


@dataclass(frozen=True)
class Epoch:
    """A number, its immutable function, and the version of each state table that goes with it."""

    number: int
    function: PartitioningFunction
    plan_digest: str | None
    tables: Mapping[str, TableVersion]
    published: str

    def route(self, *columns: str, row: str | None = None) -> Column:
        """Return the channel (INT) of each row, as one native Spark Column.

        Parameters
        ----------
        columns : names of the columns that hold the key; default: the key's own names
        row : name of the column by which rows of split keys are told apart; default: its own name
        """
        require_packages("spark", "pyspark")
        from pyspark.sql import functions

        return functions.expr(channel_sql(self.function, columns or None, row))

    def slot(self, *columns: str) -> Column:
        """Return the slot (INT) that each row has in its column, as one native Spark Column.

        Parameters
        ----------
        columns : as in `route`
        """
        require_packages("spark", "pyspark")
        from pyspark.sql import functions

        f = self.function
        return functions.expr(slot_sql(f.key, f.row_slots, columns or None))

    @property
    def slot_column(self) -> str:
        """Name of the slot's column in Iceberg tables, which is the fence there."""
        return slot_column(self.number)

    def is_split(self, *columns: str) -> Column:
        """Return whether each row's key is split (BOOLEAN), as one native Spark Column.

        Parameters
        ----------
        columns : as in `route`
        """
        require_packages("spark", "pyspark")
        from pyspark.sql import functions

        h = hash_sql(self.function.key, columns or None)
        return functions.expr(among_sql(h, self.function.split.keys.tolist()))

    def lookup(self, *columns: Any, row: Any = None) -> npt.NDArray[np.int32]:
        """Return the channel of each row, int32 (n,).

        Parameters
        ----------
        columns : an array-like of shape (n,) for each key column
        row : the same for the column `row`, which is needed if keys are split
        """
        return self.function.lookup(*columns, row=row)

    def lookup_slot(self, *columns: Any) -> npt.NDArray[np.int32]:
        """Return the slot that each row has in its column, int32 (n,), for writers without Spark.

        Parameters
        ----------
        columns : as in `lookup`
        """
        key = self.function.key
        return slot_of(key_hash(columns, [c.type for c in key]), self.function.row_slots)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, without the digest over them."""
        return {
            "format": EPOCH_FORMAT,
            "number": self.number,
            "function": self.function.to_dict(),
            "plan_digest": self.plan_digest,
            "tables": {n: {"path": t.path, "version": t.version} for n, t in self.tables.items()},
            "published": self.published,
        }


class Registry:
    """The epochs, sketches, windows and runs of one table, in one folder (a path or fsspec URL)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = Store(url)
        self.files = RegistryFiles(self.store)

    def numbers(self) -> list[int]:
        """Return the numbers of the published epochs, ascending.

        Each epoch is published after the one before it, so only the newest is checked. The calls
        to the store do not grow with the epochs. `epoch` reports damage of an older one.

        Raises
        ------
        DamagedError : the newest has lost its file; without it an older one would seem current
        """
        found = [int(n) for n in self.store.names("epochs") if re.fullmatch(r"\d{8}", n)]
        while found and not self._is_published(found[-1]):
            found.pop()
        return found

    def _is_published(self, number: int) -> bool:
        file = self.archive(number).epoch
        if file.exists():
            return True
        # A running or killed publish leaves an empty folder or a hidden temporary file. All other
        # files come after epoch.json, so ask for it again: it may have come just now.
        others = self.store.names(f"epochs/{number:08d}")
        if not others or file.exists():
            return bool(others)
        raise DamagedError(
            f"is missing, beside {others[0]}: epoch {number} was published", file.path, RESTORE
        )

    def current(self) -> Epoch:
        """Return the newest epoch.

        Raises
        ------
        InputError : there is none yet
        """
        numbers = self.numbers()
        if not numbers:
            raise InputError(
                "no epoch is published yet", self.url, "Bootstrap the table first, or adopt it"
            )
        return self.epoch(numbers[-1])

    def epoch(self, number: int) -> Epoch:
        """Return one epoch.

        Raises
        ------
        InputError : there is no such epoch
        DamagedError : its file is torn, edited or missing
        """
        kept = self.archive(number)
        # The file carries a digest of its own, so its manifest need not be read.
        data = Folder.find(kept, kept.epoch.name)
        if data is not None:
            return _parsed(data, number, kept.epoch.path)
        known = self.numbers()
        # Epochs have no gaps: this one existed, even if nothing of its folder is left.
        if known and 0 <= number < known[-1]:
            raise DamagedError(
                f"is missing, but epoch {known[-1]} was published later",
                kept.epoch.path,
                RESTORE,
            )
        span = f"0 to {known[-1]}" if known else "none"
        raise InputError(f"there is no epoch {number}", self.url, f"Published: {span}")

    def publish(
        self,
        function: PartitioningFunction,
        tables: Mapping[str, TableVersion],
        plan_digest: str | None = None,
    ) -> Epoch:
        """Make `function` the next epoch. Publishing the same plan again changes nothing.

        Raises
        ------
        FenceError : the function's parent is not the current epoch, or somebody else was first
        """
        numbers = self.numbers()
        number = function.epoch
        if number in numbers:
            there = self.epoch(number)
            if plan_digest is not None and there.plan_digest == plan_digest:
                return there
            if plan_digest is None and there.function.digest == function.digest:
                return there
            raise FenceError(
                f"epoch {number} is already published by another run", self.url, "Plan again"
            )
        parent = self.epoch(numbers[-1]).function.digest if numbers else None
        if number != (numbers[-1] + 1 if numbers else 0) or function.parent != parent:
            raise FenceError(
                f"this function follows another epoch than {numbers[-1] if numbers else 'none'}, "
                "the current one",
                self.url,
                "Plan again",
            )
        epoch = Epoch(
            number, function, plan_digest, dict(tables), datetime.now(UTC).isoformat("T", "seconds")
        )
        data = epoch.to_dict()
        if self.archive(number).epoch.create(EpochRecord(**data, digest=digest(data))):
            return epoch
        # Another publish was first, unless it was our own retry.
        return self.publish(function, tables, plan_digest)

    def published(self, number: int, plan_digest: str) -> bool:
        """Return whether epoch `number` is published by the plan of that digest.

        Raises
        ------
        DamagedError : as for `epoch`
        """
        known = self.numbers()
        there = bool(known) and number <= known[-1]
        return there and self.epoch(number).plan_digest == plan_digest

    def run(self, name: str) -> RunFiles:
        """Return the folder of a run, even if it is empty or missing."""
        return RunFiles(self.store, safe_name(name))

    def archive(self, number: int) -> EpochFiles:
        """Return the files that epoch `number` keeps of the run that led to it."""
        return EpochFiles(self.store, number)


@cached(
    LRUCache(CACHED_EPOCHS),
    key=lambda data, number, where: (hashlib.sha256(data).digest(), number),
    lock=Lock(),
)
def _parsed(data: bytes, number: int, where: str) -> Epoch:
    """Parse an epoch's file. Equal bytes give the cached epoch."""
    try:
        record = parse(EpochRecord, data, where)
        content = record.model_dump(mode="json", exclude={"digest"})
        if digest(content) != record.digest or record.number != number:
            raise ValueError("its digest or its number does not fit its content")
        return Epoch(
            number=number,
            function=PartitioningFunction.from_dict(record.function, where),
            plan_digest=record.plan_digest,
            tables={n: TableVersion(t.path, t.version) for n, t in record.tables.items()},
            published=record.published,
        )
    except (RecursionError, TypeError, ValueError) as error:
        raise DamagedError(f"torn or edited: {error}", where, RESTORE) from error
