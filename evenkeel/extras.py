"""The optional parts of an installation: tested versions, and the command that installs one."""

from __future__ import annotations

import re
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from partitioning.errors import DOCTOR, MissingExtraError, SetupError

#: Release series that tests have run on: see docs/COMPATIBILITY.md before adding one.
TESTED_PYTHON = ("3.11", "3.12", "3.13")
TESTED_SPARK = ("4.0", "4.1", "4.2")
#: Newest release of a series that PyPI has of both pyspark and pyspark-client, on 2026-11-27.
_BOTH = {"4.0": "4.0.4", "4.1": "4.1.3", "4.2": "4.2.0"}
TESTED_DELTA = ("4.4",)
TESTED_AIRFLOW = ("3.1", "3.2", "3.3")
TESTED_ICEBERG = ("1.12",)

#: Exit code of a job that cannot start: its Python lacks a package, or has a mixture (EX_CONFIG).
CANNOT_START = 78

#: Distribution -> (major, minor) of the first release that has what DAGs and jobs need.
MIN_RELEASES = {
    "pyspark": (4, 0),
    "delta-spark": (4, 0),
    "apache-airflow": (3, 1),
    "apache-airflow-providers-apache-spark": (5, 3),
    "apache-airflow-providers-standard": (1, 9),
    "great-expectations": (1, 7),
    "s3fs": (2025, 3),
}


def installed(name: str) -> str | None:
    """Return the version of an installed distribution; None if there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    It does not name this package: PyPI has another project of its name. Airflow's Spark provider
    brings pyspark-client, which must be of one version with pyspark: it names both if one is there.
    """
    try:
        lines = metadata.requires("evenkeel") or []
    except metadata.PackageNotFoundError:
        # A folder on PYTHONPATH.
        lines = []
    own = re.compile(rf"""(.*\S)\s*;\s*extra == ["']{extra}["']""")
    wanted = [f"'{found[1]}'" for line in lines if (found := own.fullmatch(line))]
    other = {"spark": "pyspark-client", "airflow": "pyspark"}.get(extra)
    if wanted and other and (there := installed(other)):
        both = _BOTH.get(_series(there), [*_BOTH.values()][-1])
        wanted = [one for one in wanted if not re.match(r"'pyspark\W", one)]
        wanted.append(_pins(both, "pyspark", "pyspark-client"))
    return "pip install " + (" ".join(wanted) or f"'WHEEL[{extra}]', where WHEEL is its file")


def newer_needed(name: str, found: str) -> str | None:
    """Return the least release of a distribution if the one that was found is older; else None."""
    least = MIN_RELEASES.get(name, (0,))
    release = tuple(map(int, re.findall(r"\d+", found)[:2]))
    return ".".join(map(str, least)) if release < least else None


def check_release(name: str) -> None:
    """Refuse a distribution that is too old; one that is not installed passes.

    Raises
    ------
    SetupError : names the version found and the least one
    """
    found = installed(name)
    if found and (least := newer_needed(name, found)):
        raise SetupError(
            f"{name} {found} is too old: expected {least} or newer",
            fix=f"Install it with: pip install '{name}>={least}'",
        )


def check_one_pyspark() -> None:
    """Refuse a PySpark whose files are of two versions, from pyspark and from pyspark-client.

    A PySpark that spark-submit brings from elsewhere has files of its own, and passes. This imports
    nothing of PySpark: of two versions mixed, its import may fail.

    Raises
    ------
    SetupError : names both versions
    """
    spark, client = installed("pyspark"), installed("pyspark-client")
    found = find_spec("pyspark")
    if spark is None or client is None or client == spark or found is None or found.origin is None:
        return
    folder = Path(found.origin).parent
    if Path(str(metadata.distribution("pyspark").locate_file("pyspark"))) == folder:
        raise SetupError(
            f"expected one version of PySpark, found pyspark {spark} and pyspark-client {client}, "
            "which write the same files",
            str(folder),
            f"Run: {one_pyspark_command(spark, client)}",
        )


def check_spark_here() -> None:
    """Refuse a Python that cannot run a job itself.

    Raises
    ------
    MissingExtraError : PySpark or Delta is not installed
    SetupError : PySpark is of two versions, or too old
    """
    require_packages("spark", "pyspark", "delta")
    check_one_pyspark()
    # Its files tell: spark-submit may bring a PySpark that no package manager knows.
    found = find_spec("pyspark")
    file = Path(found.origin or "").parent / "version.py" if found else Path()
    said = re.search(r'^__version__.*"(.+)"', file.read_text(), re.M) if file.is_file() else None
    if said and (least := newer_needed("pyspark", said[1])):
        raise SetupError(
            f"Spark {said[1]} is too old: expected {least} or newer",
            str(file.parent),
            f"Submit to a newer Spark; {DOCTOR}",
        )


def one_pyspark_command(spark: str, client: str) -> str:
    """Return the command that makes one version of pyspark and of pyspark-client.

    PyPI has each release of pyspark-client as a pyspark, too, and not the other way round.

    Parameters
    ----------
    spark, client : the versions that are installed, which differ
    """
    if _series(spark) == _series(client):
        wanted = min(spark, client, key=_numbers)
    else:
        wanted = _BOTH.get(_series(spark), client)
    return f"pip install --force-reinstall --no-deps {_pins(wanted, 'pyspark', 'pyspark-client')}"


def same_series(spark: str) -> str:
    """Say how to have PySpark and a Spark of one series: the command that installs that PySpark.

    Vendors have versions of their own, such as 4.0.2-amzn-0, which PyPI lacks. A Spark that is too
    old for jobs must be another one.

    Parameters
    ----------
    spark : version of the Spark
    """
    if least := newer_needed("pyspark", spark):
        return f"use a Spark {least} or newer"
    series = _series(spark)
    # Both write one folder, so where both are, both change.
    names = [name for name in ("pyspark", "pyspark-client") if installed(name)] or ["pyspark"]
    wanted = f"{series}.*" if names == ["pyspark"] else _BOTH.get(series, f"{series}.*")
    return f"run: pip install {_pins(wanted, *names)}"


def _pins(version: str, *names: str) -> str:
    return " ".join(f"'{name}=={version}'" for name in names)


def _series(version: str) -> str:
    return ".".join(map(str, _numbers(version)[:2]))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def delta_package(spark: str) -> str:
    """Return the Maven coordinates of Delta's jars for a version of Spark."""
    series = ".".join(spark.split(".")[:2])
    return f"io.delta:delta-spark_{series}_2.13:{TESTED_DELTA[-1]}.0"


def iceberg_package(spark: str) -> str:
    """Return the Maven coordinates of Iceberg's runtime for a version of Spark."""
    series = ".".join(spark.split(".")[:2])
    return f"org.apache.iceberg:iceberg-spark-runtime-{series}_2.13:{TESTED_ICEBERG[-1]}.0"


def require_packages(extra: str, *modules: str) -> None:
    """Check that modules can be imported, without importing the last part of their names.

    Parameters
    ----------
    extra : the extra of this package that installs them
    modules : their dotted names

    Raises
    ------
    MissingExtraError : one is not installed
    """
    for module in modules:
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise MissingExtraError(
                f"{module} is not installed",
                fix=f"Install it with: {install_command(extra)}",
            )
