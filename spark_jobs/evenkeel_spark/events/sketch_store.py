"""Stored sketches in the registry, one a day: sketches/MADE/2013-01-05.npz.

MADE is short for what a sketch depends on besides the day. A spec that changes it starts an empty
folder. The number of channels is no part of it: `learn` repeats days that were learned for fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.stored_file import StoredFile
from evenkeel.spec.table_spec import TableSpec
from partitioning.function.canonical import digest
from partitioning.function.hashing import KeyColumn
from partitioning.workload.profile import Sketch


class Sketches:
    """The stored sketches of one table."""

    def __init__(self, registry: Registry, spec: TableSpec, key: Sequence[KeyColumn]) -> None:
        self._files = registry.files
        made = {
            "input": spec.input.model_dump(),
            "key": [[c.name, c.type] for c in key],
            "load": spec.load,
            "null_keys": spec.null_keys,
            "slots": spec.slots,
        }
        self._made = digest(made)[:12]

    def read(self, days: Iterable[date]) -> dict[date, Sketch]:
        """Read the stored ones of these days.

        Raises
        ------
        DamagedError : a file is torn
        """
        stored = set(self._files.sketched_days(self._made))
        return {day: self._file(day).read() for day in days if f"{day}" in stored}

    def write(self, day: date, sketch: Sketch) -> None:
        """Store or replace the sketch of a day."""
        self._file(day).write(sketch)

    def remove(self, day: date) -> None:
        """Remove the sketch of a day, if there is one."""
        self._file(day).remove()

    def _file(self, day: date) -> StoredFile[Sketch]:
        return self._files.sketch(self._made, day)
