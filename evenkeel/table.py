"""A table as its users hold it: its spec and its registry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from evenkeel.epochs import Epoch, Registry
from evenkeel.spec import TableSpec, find_spec, load_spec


@dataclass(frozen=True)
class Table:
    """A keyed table: what its spec says and which epochs it has."""

    spec: TableSpec

    @cached_property
    def registry(self) -> Registry:
        """Its epochs, sketches and runs."""
        return Registry(self.spec.registry)

    def epoch(self, number: int | None = None) -> Epoch:
        """One epoch; the current one by default."""
        return self.registry.current() if number is None else self.registry.epoch(number)


def open_table(table: str) -> Table:
    """Open a table by its name (a spec in `$EVENKEEL_TABLES` or ./tables) or its spec's path.

    Raises
    ------
    InputError : no such table, or a spec that is wrong
    """
    return Table(load_spec(find_spec(str(table))))
