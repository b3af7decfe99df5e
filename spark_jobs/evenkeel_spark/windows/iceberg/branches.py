"""Write an Iceberg table by a branch: one commit, which main then follows.

Iceberg lets main follow only a branch that has all of main. So of all commits that have seen one
snapshot, one comes in.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from evenkeel_spark.runtime.crash_point import crash_point
from evenkeel_spark.tables.iceberg.commits import IcebergCommit, beaten
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import EvenkeelError
from partitioning.function.sql import quoted


def write_by_branch(
    one: IcebergTable,
    head: int,
    prefix: str,
    meta: Mapping[str, object],
    write: Callable[[SparkSession, str], object],
    audit: Callable[[IcebergCommit], None] = lambda _: None,
    conf: Mapping[str, str] | None = None,
) -> bool:
    """Write one commit on a branch from a snapshot of main, audit it, and let main follow.

    Killed before main follows, it leaves a branch that nobody reads.

    Parameters
    ----------
    prefix : of the names of branches for this purpose.
    write : gets a session and the branch's name in SQL.
    audit : raises if the commit may not come.
    conf : settings of the session.

    Returns
    -------
    False: main has moved since, so nothing was published.
    """
    branch = f"{prefix}{secrets.token_hex(8)}"
    one.create_branch(branch, head)
    crash_point("branched")
    target = f"{one.sql}.{quoted(f'branch_{branch}')}"
    try:
        one.write(meta, lambda own: write(own, target), conf)
        crash_point("merged")
        one.refresh()
        after = one.refs().get(branch)
        made = [] if after is None else one.since(head, after) or []
        # Else another job has dropped the branch, and Iceberg made it again from main. To follow it
        # would take away what was committed meanwhile.
        done = len(made) == 1 and made[0].parent == head
        if done:
            audit(made[0])
            # Somebody may have rolled main back: to follow would bring those rows again.
            done = one.head() == head and one.follow(branch)
    except (EvenkeelError, *SPARK_ERRORS) as error:
        one.refresh()
        if beaten(error) or branch not in one.refs():
            return False
        one.drop_branches(branch)
        raise
    crash_point("followed")
    # Those of jobs that were killed, too. One that is under way looks again.
    one.drop_branches(prefix if done else branch)
    return done
