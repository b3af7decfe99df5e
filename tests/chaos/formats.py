"""The formats of tables that faults are tried on, and what there is of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tests.chaos import home
from tests.chaos.cases import CLAIMED, CLAIMED_FLOWS, FLOWS, JOB_STEPS
from tests.chaos.iceberg import rows
from tests.conftest import World
from tests.support.worlds.team_tables import make_team

Make = Callable[[SparkSession, Path], World]


@dataclass(frozen=True)
class Format:
    """One format.

    Parameters
    ----------
    tables, team : what makes each table that runs move, and what makes a team's own
    stages : tasks and their runs that bring a table to each stage, from the one before
    flows : stages of a run, and steps that faults are put into there
    jobs : the same that no run has
    stopped : points at which the tasks of some stages are stopped
    """

    tables: Mapping[str, Make]
    team: Make
    stages: Mapping[str, Sequence[tuple[str, str]]]
    flows: Sequence[tuple[str, str]]
    jobs: Sequence[str]
    stopped: Mapping[str, str] = field(default_factory=dict)


DELTA = Format(home.TABLES, make_team, home.STAGES, FLOWS, JOB_STEPS)
FORMATS = {
    "delta": DELTA,
    "iceberg": Format(
        {"whole": rows.bootstrapped, "adopted": rows.adopted},
        rows.team,
        {**home.STAGES, CLAIMED: [("verify", home.RUN)]},
        (*FLOWS, *CLAIMED_FLOWS),
        JOB_STEPS,
        {"sealed": "named verified", CLAIMED: "named claimed"},
    ),
}
