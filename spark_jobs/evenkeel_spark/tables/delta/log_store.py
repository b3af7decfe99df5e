"""Whether Delta's log store lets two drivers commit to a table of a spec."""

from __future__ import annotations

from pyspark.sql import SparkSession

from evenkeel.log_store import ONE_DRIVER, commits_exclude, store_scheme
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import SetupError


def check_log_store(spark: SparkSession, spec: TableSpec) -> None:
    """Refuse state tables on S3, or on a store not known here, if commits of two drivers may clash.

    Raises
    ------
    SetupError : Delta's default log store would be used, which coordinates one driver only there
    """

    def setting(name: str) -> str | None:
        return spark.conf.get(name, None)

    for part in spec.state.values():
        scheme = store_scheme(part.path, setting)
        if commits_exclude(scheme, setting) is None:
            raise SetupError(
                f"on {scheme}:// Delta may let one driver overwrite another's commit",
                part.path,
                f"Set spark.delta.logStore.{scheme}.impl to a log store that does not, or "
                f"{ONE_DRIVER}=true where no two programs ever write at once",
            )
