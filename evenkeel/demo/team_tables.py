"""Write Delta tables as a team would that has never heard of Evenkeel: without slot and channel.

The demo adopts them: flights, with many rows an aircraft, and planes, with one.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from evenkeel.demo.flights import packaged_file
from evenkeel.extras import require_packages
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError

_KEY = "tailnum"


def check_team_tables(*specs: TableSpec) -> None:
    """Check that the demo can write the tables that specs adopt; call this before others go.

    Raises
    ------
    MissingExtraError : deltalake is not installed
    InputError : the demo has no such table
    """
    for spec in (spec for spec in specs if spec.plain):
        require_packages("demo", "deltalake")
        if other := [name for name in spec.state if name not in _MADE]:
            raise InputError(
                f"expected one of {', '.join(_MADE)}, found the state table {other[0]!r}",
                f"spec of {spec.table}",
                "Adopt tables of your own with `evenkeel adopt`",
            )


def write_team_tables(spec: TableSpec) -> None:
    """Write the tables that a spec of the demo adopts; nothing for other specs."""
    if not spec.plain:
        return
    from deltalake import write_deltalake

    for name, table in spec.state.items():
        Path(table.path).parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(table.path, _MADE[name](spec))


def _flights(spec: TableSpec) -> pa.Table:
    """Return the flights of the first window whose aircraft is known."""
    flights = pq.read_table(spec.input.path)
    times = flights[spec.input.time]
    end = pc.min(times).as_py() + timedelta(days=spec.window)
    early = pc.less(times, pa.scalar(end, times.type))
    return flights.filter(pc.and_(pc.is_valid(flights[_KEY]), early))


def _planes(_: TableSpec) -> pa.Table:
    """Return the aircraft that the package describes, one row each."""
    nulls = pa.csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    return pa.csv.read_csv(packaged_file().with_name("planes.csv"), convert_options=nulls)


#: The tables, by name, and what makes them.
_MADE = {"flights": _flights, "planes": _planes}
