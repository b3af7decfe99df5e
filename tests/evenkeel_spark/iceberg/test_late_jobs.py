"""Two runs at once on Iceberg tables, and jobs that were given up and go on later."""

from __future__ import annotations

from contextlib import suppress

import pytest

from partitioning.errors import FenceError
from tests.support.iceberg.stages import (
    NAMES,
    Case,
    Crash,
    Stages,
    at_each,
    crash_at,
    meanwhile,
)

pytestmark = pytest.mark.spark
slow = pytest.mark.slow


# Two runs that were planned at the same epoch


def two_runs(stages: Stages) -> Case:
    """Go to where r1 and r0 have both moved their rows on branches."""
    if stages.has("two runs"):
        return stages.back("two runs")
    case = stages.go("migrated")
    case.plan("r0", (1, 0.3, 1, 1))
    case.migrate("r0")
    stages.keep("two runs")
    return stages.anew()


def test_only_one_of_two_runs_publishes(stages: Stages) -> None:
    case = two_runs(stages)
    before = case.rows()
    case.verify()
    with pytest.raises(FenceError, match="Plan again"):
        stages.anew().verify("r0")
    with pytest.raises(FenceError, match="Plan again"):
        case.migrate("r0")
    known = stages.anew().heads()
    stages.anew().roll_back("r0")
    stages.anew().roll_back("r1")
    case = stages.anew()
    assert case.heads() == known
    case.repair()
    assert case.heads() == known
    stages.anew().check(before, 1)


@pytest.mark.parametrize("point", ["closed", pytest.param("verified", marks=slow)])
def test_a_run_that_sleeps_while_another_publishes_opens_nothing(
    stages: Stages, point: str
) -> None:
    case = two_runs(stages)
    before = case.rows()
    with (
        meanwhile(point, lambda: stages.anew().verify()),
        pytest.raises(FenceError, match="epoch 1 is current"),
    ):
        case.verify("r0")
    case = stages.anew()
    assert [case.table(name).epoch() for name in NAMES] == [1, 1]
    case.repair()
    stages.anew().check(before, 1)


def test_a_run_that_has_claimed_the_epoch_publishes_it(stages: Stages) -> None:
    case = two_runs(stages)
    before = case.rows()

    def other() -> None:
        with pytest.raises(FenceError, match="about to publish epoch 1"):
            stages.anew().verify("r0")

    with meanwhile("claimed", other):
        case.verify()
    case = stages.anew()
    case.repair()
    stages.anew().check(before, 1)


@pytest.mark.parametrize("point", ["verified", "claimed", pytest.param("followed", marks=slow)])
def test_a_run_that_is_rolled_back_beside_another_does_not_open_its_tables(
    stages: Stages, point: str
) -> None:
    case = two_runs(stages)
    before = case.rows()
    with meanwhile(point, lambda: stages.anew().roll_back("r0")):
        case.verify()
    case = stages.anew()
    assert [case.table(name).epoch() for name in NAMES] == [1, 1]
    case.check(before, 1)


@pytest.mark.parametrize("point", ["claimed", "followed"])
def test_a_rollback_opens_no_table_that_another_run_is_about_to_publish(
    stages: Stages, point: str
) -> None:
    """Rows may stand by the new epoch by then, and a writer by the old one would miss them."""
    case = two_runs(stages)
    before = case.rows()
    with pytest.raises(Crash), at_each(crash_at(point)):
        case.verify()
    stages.anew().roll_back("r0")
    case = stages.anew()
    assert [case.table(name).epoch() for name in NAMES] == [1, 1]
    case.verify()
    stages.anew().check(before, 1)


def test_a_table_that_was_opened_before_the_claim_is_shut_before_main_follows(
    stages: Stages,
) -> None:
    case, opened, seen = two_runs(stages), list[bool](), list[int]()
    before = case.rows()

    def step(name: str) -> None:
        if name == "verified":
            stages.anew().roll_back("r0")
            opened.extend(stages.anew().table(n).epoch() == 0 for n in NAMES)
        if name == "followed":
            seen.append(sum(stages.anew().table(n).epoch() == 1 for n in NAMES))

    with at_each(step):
        case.verify()
    assert opened == [True, True]
    # One after the other: a table of which no row has moved may be open.
    assert seen == [1, 2]
    stages.anew().check(before, 1)


def test_repair_ends_two_runs_that_were_decided_to_publish(stages: Stages) -> None:
    case = two_runs(stages)
    before = case.rows()
    with pytest.raises(Crash), at_each(crash_at("claimed")):
        case.verify()
    # r0 comes first by its name, and has not claimed the epoch.
    with pytest.raises(FenceError, match="about to publish epoch 1"):
        stages.anew().verify("r0")
    case = stages.anew()
    case.repair()
    case = stages.anew()
    case.check(before, 1)
    assert case.world.table.epoch().plan_digest == case.migration("r1").plan.digest


# Jobs that were given up, and go on


@pytest.mark.parametrize("point", ["branched", "moved"])
def test_a_migrate_that_was_rolled_back_changes_nothing(stages: Stages, point: str) -> None:
    case = stages.go("planned")
    before, known = case.rows(), case.heads()
    with (
        meanwhile(point, lambda: stages.anew().roll_back()),
        pytest.raises(FenceError, match="this run was rolled back"),
    ):
        case.migrate()
    case = stages.anew()
    assert case.heads() == known
    case.repair()
    stages.anew().check(before, 0)


@pytest.mark.parametrize("point", ["closed", "verified"])
def test_a_verify_that_was_rolled_back_changes_nothing(stages: Stages, point: str) -> None:
    case = stages.go("migrated")
    before, known = case.rows(), case.heads()
    with (
        meanwhile(point, lambda: stages.anew().roll_back()),
        pytest.raises(FenceError, match="rolled"),
    ):
        case.verify()
    case = stages.anew()
    assert case.heads() == known
    case.check(before, 0)


def test_a_verify_wakes_in_the_next_attempt(stages: Stages) -> None:
    case = stages.go("migrated")
    before = case.rows()

    def next_attempt() -> None:
        stages.anew().roll_back()
        other = stages.anew()
        other.migrate()
        other.verify()

    with meanwhile("closed", next_attempt), suppress(FenceError):
        case.verify()
    stages.anew().check(before, 1)


def test_a_verify_that_wakes_an_epoch_later_places_no_row(stages: Stages) -> None:
    case = stages.go("migrated")
    before = case.rows()

    def next_run() -> None:
        other = stages.anew()
        other.plan("r2", (1, 0.3, 1, 1))
        other.migrate("r2")
        other.verify("r2")

    with meanwhile("landed", next_run):
        case.verify()
    stages.anew().check(before, 2)
    # Again: nothing of an epoch that has passed is done.
    stages.anew().verify()
    stages.anew().check(before, 2)


def test_a_rollback_after_the_epoch_is_published_changes_nothing(stages: Stages) -> None:
    case = stages.go("published")
    before, known = case.rows(), case.heads()
    case.roll_back()
    case = stages.anew()
    assert case.heads() == known
    case.check(before, 1)
