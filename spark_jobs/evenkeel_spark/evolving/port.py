"""The state tables of a spec as evolve meets them, whatever their format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Protocol

from pyspark.sql.types import StructType

from evenkeel.registry.files.records import Membership
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.columns import TableColumns
from partitioning.function.function import PartitioningFunction


@dataclass(frozen=True)
class NewTable:
    """A state table that joins.

    Parameters
    ----------
    name : in the spec
    columns : that events make
    types : Spark's simple name of the type of each input column
    until : day up to which it counts as having all windows, so that the next one follows
    """

    name: str
    columns: StructType
    types: Mapping[str, str]
    until: date | None


class EvolvingTables(Protocol):
    """The state tables of a spec, in one format, as evolve meets them."""

    #: The words for all that goes from a table that leaves.
    what_goes: ClassVar[str]

    def check_owned(self, name: str) -> None:
        """Refuse a table of the spec that is not there, or is not ours."""

    def properties(self, path: str) -> dict[str, str]:
        """Return the properties of the table at a place; none: there is no table."""

    def moving(self, gone: Membership) -> str | None:
        """Return what tells that the state of a table moves that has left, in words; None: none."""

    def joining(self, name: str, intent: Intent) -> bool:
        """Return whether a table that is to join was made already. Else its place must be free."""

    def until(self, name: str) -> date | None:
        """Return the day up to which a table has all events; None: it has no window."""

    def check_admits(self, names: Collection[str], function: PartitioningFunction) -> None:
        """Refuse tables that are under another epoch."""

    def as_kept(self, columns: StructType) -> StructType:
        """Return columns by the types that the format keeps them by."""

    def columns(
        self, name: str, wanted: StructType, types: Mapping[str, str], intent: Intent
    ) -> TableColumns:
        """Read the columns of a table as they are now."""

    def step(
        self, name: str, look: Callable[[], TableColumns], function: PartitioningFunction
    ) -> bool:
        """Make the first commit that is left for a table; return False if none is left.

        It looks at the table again first, and fails if that has changed since.
        """

    def create(self, new: NewTable, function: PartitioningFunction) -> None:
        """Make a new table, empty, under the current epoch. A second call goes on."""

    def let_go(self, name: str, gone: Membership) -> bool:
        """Take what is Evenkeel's out of a table that has left, in one commit. Its rows stay.

        Returns
        -------
        False if the registry has another record of the name by now; nothing was done then.
        """
