"""The Iceberg tables that the demo makes and adopts: a team's, which has never heard of Evenkeel.

They are flights, with many rows an aircraft, and planes, with one. `evenkeel_spark/demo.py` writes
them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from evenkeel.local_env import ROOT
from evenkeel.spec.parts import StateTable
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError

#: Spark's catalog of these tables, and its folder within that of a replay: see setup/spark.sh.
_TEAM_CATALOG, _WAREHOUSE = "demo", "lake"
_MADE = ("flights", "planes")


def check_team_tables(*specs: TableSpec) -> None:
    """Check that the demo can make the tables that specs adopt; call this before others go.

    Raises
    ------
    InputError : the demo has no such table, or Spark has no Iceberg
    """
    for spec in (spec for spec in specs if spec.plain):
        where = f"spec of {spec.table}"
        for name, table in spec.state.items():
            if name not in _MADE or not table.path.startswith(f"{_TEAM_CATALOG}."):
                raise InputError(
                    f"expected {' and '.join(_MADE)} in the catalog {_TEAM_CATALOG}, found the "
                    f"state table {name!r}, {table.path}",
                    where,
                    "Adopt tables of your own with `evenkeel adopt`",
                )
        if not list((ROOT / ".jars").glob("iceberg-spark-runtime-*.jar")):
            raise InputError(
                "needs Iceberg, which has no runtime for this Spark",
                where,
                "Install the versions of requirements.lock by `make setup`, or take other tables: "
                "make run ARGS='--tables flights,carriers'",
            )


def files_of(table: StateTable, folder: Path) -> str:
    """Return where a table's files are.

    Parameters
    ----------
    folder : of the replay, which the tables of `_TEAM_CATALOG` are in
    """
    catalog, *names = table.path.split(".")
    if table.format == "iceberg" and catalog == _TEAM_CATALOG:
        return str(folder.joinpath(_WAREHOUSE, *names))
    return table.path


def catalog_settings(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which a Spark that Python starts has its tables in a folder."""
    name = "PYSPARK_SUBMIT_ARGS"
    warehouse = f"spark.sql.catalog.{_TEAM_CATALOG}.warehouse={folder / _WAREHOUSE}"
    return {name: f"--conf {shlex.quote(warehouse)} {variables.get(name, 'pyspark-shell')}"}
