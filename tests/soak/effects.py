"""Effects on the table, counted from its commits and epochs, not from the steps that were tried."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from pyspark.sql import SparkSession

from evenkeel.table import Table
from evenkeel_spark.tables.delta import commits, state
from partitioning.errors import EvenkeelError, GateError

#: Effects whose names begin so, of which there must be one in so many days, in the mean. By the
#: calendar most are three times as frequent or more; 180 stands for once a year.
DAYS_PER_EFFECT = {
    "epochs published": 10,
    "epochs with split keys": 60,
    "epochs of the watch": 180,
    "epochs that add channels": 120,
    "epochs that drain channels": 120,
    "plans refused by a person": 180,
    "runs at once": 50,
    "runs left while rows moved": 180,
    "kills of a job that moves rows": 180,
    "rows moved by roll_back": 180,
    "maintains that removed files": 40,
    "commits of evolve": 40,
    "commits of forget": 120,
    "late writers refused": 60,
    "tables brought back by RESTORE": 90,
    "disasters": 180,
}
#: Tasks of a run that works alone, and that may refuse: learn and plan say what cannot be planned,
#: and the plan's own gate refuses a plan. Nothing that moves rows may fail then.
_MAY_REFUSE = ("learn", "decide", "plan", "validate_plan")


def add_effects(spark: SparkSession, table: Table, diary: dict[str, Any]) -> None:
    """Count what the tables' commits and the registry have more than when this was last called.

    Parameters
    ----------
    diary : "effects" has the counts, "versions" and "epochs" what was counted before
    """
    effects = Counter(diary.get("effects", {}))
    versions, epochs = diary.setdefault("versions", {}), diary.setdefault("epochs", [])
    for name, part in table.spec.state.items():
        newest = state.table_version(spark, part.path)
        # A table that was brought back from a backup begins again at an earlier version.
        since = min(versions.get(name, -1), newest)
        for commit in commits.history_since(spark, part.path, since):
            step = commit.meta.get("step")
            effects[f"commits of {step}" if step else f"commits by hand: {commit.operation}"] += 1
            if step in ("migrate", "verify", "roll_back") and commit.operation in (
                "UPDATE",
                "MERGE",
            ):
                effects[f"rows moved by {step}"] += commit.rows
        versions[name] = newest
    before = set[str]()
    for number in table.registry.numbers():
        epoch = table.epoch(number)
        mark = f"{number} {epoch.plan_digest}"
        channels = {channel.name for channel in epoch.function.channels if channel.capacity}
        if mark not in epochs:
            epochs.append(mark)
            effects["epochs that add channels"] += bool(before and channels - before)
            effects["epochs that drain channels"] += bool(before - channels)
            effects["epochs published"] += bool(number)
            effects["epochs with split keys"] += bool(len(epoch.function.split.keys))
        before = channels
    diary["effects"] = dict(effects)


def reason(error: EvenkeelError) -> str:
    """Return what an error says, without the names and numbers of the day."""
    return f"{type(error).__name__}: {re.sub(r'[0-9a-f]*[0-9][0-9a-f]*', '#', error.what)[:100]}"


def unexplained(task: str, error: EvenkeelError, alone: bool) -> bool:
    """Return whether nothing that was done to the table can be the cause of an error.

    Parameters
    ----------
    alone : no other run is under way, and the run's own process was not killed
    """
    if task in _MAY_REFUSE:
        return False
    # The gate of the tables fails where rows are lost, doubled or misplaced: that is never right.
    return alone or isinstance(error, GateError)


def too_few(diary: dict[str, Any], days: int) -> str | None:
    """Say that the table has seen too little for its days; None: it has seen enough."""
    for effect, each in DAYS_PER_EFFECT.items():
        effects = diary.get("effects", {}).items()
        found, least = sum(n for what, n in effects if what.startswith(effect)), days // each
        if found < least:
            return f"{effect}: {found} in {days} days, expected {least} at least"
    return None
