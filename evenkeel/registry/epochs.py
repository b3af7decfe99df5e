"""The registry: epochs, and the folders (`evenkeel.registry.run_folder`) of the runs that led to
them.

An epoch is one file, created exclusively and whole: of two racers one wins, and there is no
half-published epoch. Its digest tells a torn or edited file.
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

from evenkeel.registry.run_folder import EpochArchive, RunFolder
from evenkeel.registry.store import RESTORE, Store, parsed_json
from partitioning.errors import DamagedError, FenceError, InputError
from partitioning.function.function import PartitioningFunction, canonical_json, digest
from partitioning.function.sql import among_sql, channel_sql, hash_sql

if TYPE_CHECKING:
    from pyspark.sql import Column

FORMAT = 1
#: Epochs kept in a process, by their bytes: 200 kB each with a thousand channels.
KEPT = 256


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
        """The channel (INT) of each row, as one native Spark Column.

        Parameters
        ----------
        columns : names of the columns that hold the key; default: the key's own names
        row : name of the column that split keys' rows are told apart by; default: its own name
        """
        from pyspark.sql import functions

        return functions.expr(channel_sql(self.function, columns or None, row))

    def is_split(self, *columns: str) -> Column:
        """Whether each row's key is split (BOOLEAN), as one native Spark Column.

        Parameters
        ----------
        columns : as in `route`
        """
        from pyspark.sql import functions

        h = hash_sql(self.function.key, columns or None)
        return functions.expr(among_sql(h, self.function.split.keys.tolist()))

    def lookup(self, *columns: Any, row: Any = None) -> npt.NDArray[np.int32]:
        """Channel of each row, int32 (n,): one array-like of shape (n,) for each key column, and
        for the column `row`, which is needed where keys are split."""
        return self.function.lookup(*columns, row=row)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the digest over them."""
        return {
            "format": FORMAT,
            "number": self.number,
            "function": self.function.to_dict(),
            "plan_digest": self.plan_digest,
            "tables": {n: {"path": t.path, "version": t.version} for n, t in self.tables.items()},
            "published": self.published,
        }


class Registry:
    """Epochs, sketches, windows and runs of one table, in one folder (a path or fsspec URL)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = Store(url)

    def numbers(self) -> list[int]:
        """Numbers of the published epochs, ascending.

        Each is published after the one before it, so only the newest is looked at: this asks the
        store as often for ten thousand epochs as for one. `epoch` tells of an older one's damage.

        Raises
        ------
        DamagedError : the newest has lost its file; without it an older one would seem current
        """
        found = [int(n) for n in self.store.names("epochs") if re.fullmatch(r"\d{8}", n)]
        while found and not self._is_published(found[-1]):
            found.pop()
        return found

    def _is_published(self, number: int) -> bool:
        name = _file(number)
        if self.store.exists(name):
            return True
        # A publish that is under way, or was killed, leaves an empty folder or a hidden temporary
        # file. Anything else comes after epoch.json; asked again, as it may have come just now.
        others = self.store.names(f"epochs/{number:08d}")
        if not others or self.store.exists(name):
            return bool(others)
        raise DamagedError(
            f"is missing, beside {others[0]}: epoch {number} was published",
            self.store.path(name),
            RESTORE,
        )

    def current(self) -> Epoch:
        """The newest epoch; InputError where there is none yet."""
        numbers = self.numbers()
        if not numbers:
            raise InputError("no epoch is published yet", self.url, "Bootstrap the table first")
        return self.epoch(numbers[-1])

    def epoch(self, number: int) -> Epoch:
        """One epoch.

        Raises
        ------
        InputError : there is no such epoch
        DamagedError : its file is torn or edited, or gone
        """
        name = _file(number)
        try:
            data = self.store.read(name)
        except FileNotFoundError:
            known = self.numbers()
            # Epochs have no gaps: one of whose folder nothing is left was there, too.
            if known and 0 <= number < known[-1]:
                raise DamagedError(
                    f"is missing: epoch {number} was published, as {known[-1]} was after it",
                    self.store.path(name),
                    RESTORE,
                ) from None
            span = f"0 to {known[-1]}" if known else "none"
            raise InputError(
                f"there is no epoch {number}", self.url, f"Published: {span}"
            ) from None
        return _parsed(data, number, self.store.path(name))

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
        try:
            self.store.create(_file(number), canonical_json({**data, "digest": digest(data)}))
        except FileExistsError:
            # We lost the race, unless the winner was our own retry.
            return self.publish(function, tables, plan_digest)
        return epoch

    def published(self, number: int, plan_digest: str) -> bool:
        """Whether epoch `number` is published, and by the plan of that digest; DamagedError as for
        `epoch`."""
        known = self.numbers()
        there = bool(known) and number <= known[-1]
        return there and self.epoch(number).plan_digest == plan_digest

    def run(self, name: str) -> RunFolder:
        """The folder of a run, whether or not anything is in it yet."""
        return RunFolder(self.store, name)

    def archive(self, number: int) -> EpochArchive:
        """What epoch `number` keeps of the run that led to it."""
        return EpochArchive(self.store, number)


def _file(number: int) -> str:
    return f"epochs/{number:08d}/epoch.json"


@cached(
    LRUCache(KEPT),
    key=lambda data, number, where: (hashlib.sha256(data).digest(), number),
    lock=Lock(),
)
def _parsed(data: bytes, number: int, where: str) -> Epoch:
    """The epoch that a file's bytes are; what the same bytes gave before serves again."""
    values = parsed_json(data, where)
    try:
        claimed = values.pop("digest")
        if digest(values) != claimed:
            raise ValueError("its digest does not fit its content")
        if values["format"] != FORMAT or values["number"] != number:
            raise ValueError("another format or number")
        return Epoch(
            number=number,
            function=PartitioningFunction.from_dict(values["function"], where),
            plan_digest=values["plan_digest"],
            tables={n: TableVersion(**t) for n, t in values["tables"].items()},
            published=values["published"],
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise DamagedError(f"torn or edited: {error}", where, RESTORE) from error
