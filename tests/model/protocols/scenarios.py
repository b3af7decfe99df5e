"""What is explored: the cases that were found by hand, each alone, and all at once."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.checker.invariants import EXACT, PUBLISHED, UNDER, WAY_OUT
from tests.model.protocols.protocol import Scenario
from tests.model.rows import COPIED, FIRST, MOVED, SECOND, SHARED, Function, sums
from tests.model.state import Table, alone

#: A key is split over two channels; a plan makes it whole and moves another; a third one back.
SPLIT, WHOLE = Function(0, (0, 1)), Function(1, (0,))
#: A key is whole; a plan splits it, which moves no row.
LONE, SPREAD = Function(0, (0,)), Function(0, (0, 1))

_PARTIALS = ((MOVED, 0, FIRST), (SHARED, 0, FIRST), (SHARED, 1, SECOND))
_ROWS = ((MOVED, 0, FIRST), (SHARED, 0, FIRST))
_COPIES = ((COPIED, 0, FIRST), (COPIED, 1, FIRST))
JOINING = Scenario((SPLIT, WHOLE), Table(alone(0), _PARTIALS, sums(_PARTIALS)))
COPYING = Scenario((SPLIT, WHOLE), Table(alone(0), _COPIES, sums(_COPIES)))
SPLITTING = Scenario((LONE, SPREAD), Table(alone(0), _ROWS, sums(_ROWS)))


def scenario_of(case: Case, variant: str) -> Scenario:
    """Return what takes part in a case: since `before`, verify is the job that publishes."""
    scenario = case.scenario
    if variant != "before" and "clone" in scenario.hands:
        scenario = scenario._replace(jobs=(*scenario.jobs, "undo"))
    if variant != "before" and "publish" in scenario.sleepers:
        return scenario._replace(sleepers=("verify",))
    return scenario


class Case(NamedTuple):
    """A case that was found, in issue 23 or by the model.

    Parameters
    ----------
    number : in the issue; 0: found by the model
    """

    number: int
    what: str
    broken: str
    scenario: Scenario


CASES = {
    "old run": Case(
        3,
        "An old, failed run that is cleared undoes a published epoch",
        UNDER,
        JOINING._replace(runs=2, alike=False),
    ),
    "one digest": Case(
        4,
        "Of two runs with one plan one verifies, the other rolls back, the first publishes",
        PUBLISHED,
        JOINING._replace(runs=2),
    ),
    "late publish": Case(
        5,
        "publish hangs before it creates the epoch; roll_back runs; publish wakes",
        UNDER,
        JOINING._replace(at_once=2, sleepers=("publish",)),
    ),
    "restore": Case(
        5,
        "RESTORE of a table between verify and publish",
        PUBLISHED,
        JOINING._replace(hands=("restore",)),
    ),
    "partial": Case(
        6,
        "An appended partial row is doubled when the key becomes whole",
        EXACT,
        JOINING._replace(hands=("partial",)),
    ),
    "lost registry": Case(
        8,
        "bootstrap with a lost registry adds epoch_0 to a live table",
        WAY_OUT,
        SPLITTING._replace(hands=("bootstrap",)),
    ),
    "moving dropped": Case(
        9,
        "The moving constraint is dropped half-way",
        WAY_OUT,
        JOINING._replace(hands=("drop moving",)),
    ),
    "epoch dropped": Case(
        9,
        "The new epoch's constraint is dropped between verify and publish",
        PUBLISHED,
        JOINING._replace(hands=("drop epoch",)),
    ),
    "forgotten": Case(
        7,
        "A window is applied twice to a table that was put back as a clone",
        EXACT,
        JOINING._replace(jobs=("window",), hands=("clone",)),
    ),
    "window": Case(
        0,
        "A window counts twice in a split key with two partial rows on one channel",
        EXACT,
        JOINING._replace(jobs=("window",), hands=("partial",)),
    ),
    "late drop": Case(
        0,
        "migrate sleeps before it drops a constraint; roll_back runs; the table has none",
        UNDER,
        JOINING._replace(at_once=2, sleepers=("migrate",)),
    ),
    "late roll_back": Case(
        0,
        "roll_back sleeps while its run is migrated again",
        UNDER,
        JOINING._replace(at_once=2, sleepers=("roll_back",)),
    ),
}

_WINDOWS = ("window", "wide window", "next window")
#: Two windows at once: red where the day of a window's end is its transaction id.
OVERLAPPING = JOINING._replace(jobs=_WINDOWS, at_once=2)
#: Jobs that change tables by no plan.
EVOLVING = JOINING._replace(jobs=(*JOINING.jobs, "evolve"))
FORGETTING = JOINING._replace(jobs=(*JOINING.jobs, "forget"))
#: Small searches of what cases leave out.
MORE = {
    "overlapping windows": OVERLAPPING,
    "overlapping windows, two tables": OVERLAPPING._replace(tables=2),
    "windows and notes": OVERLAPPING._replace(jobs=(*_WINDOWS, "maintain")),
    "windows and RESTORE": OVERLAPPING._replace(jobs=(*_WINDOWS, "undo"), hands=("restore",)),
    "windows and a clone": OVERLAPPING._replace(
        jobs=(*_WINDOWS, "maintain", "undo"), hands=("clone",)
    ),
    "windows and a backup": OVERLAPPING._replace(
        jobs=(*_WINDOWS, "holds", "undo"), hands=("overwrite",)
    ),
    "windows and partial rows": OVERLAPPING._replace(hands=("partial",)),
    "copies": COPYING,
    "late": JOINING._replace(hands=("late",)),
    "late and partial": JOINING._replace(hands=("late", "partial")),
    "early": JOINING._replace(hands=("early",)),
    "early and late": JOINING._replace(hands=("early", "late")),
    "two tables": JOINING._replace(tables=2),
    "RESTORE and a window": JOINING._replace(
        hands=("restore",), jobs=(*JOINING.jobs, "window", "undo")
    ),
    "moving dropped and late": JOINING._replace(hands=("drop moving", "late")),
    "evolve": EVOLVING,
    "forget and a window": FORGETTING._replace(jobs=(*FORGETTING.jobs, "window")),
    "third epoch": JOINING._replace(functions=(SPLIT, WHOLE, SPLIT)),
}

_RUN = ("plan", "migrate", "verify", "roll_back", "repair")
#: A job of no run may sleep beside any job of a run; or more is done by hand than in a case.
BESIDE_A_RUN = {
    "a window beside a run": JOINING._replace(jobs=(*_RUN, "window"), at_once=2),
    "maintain beside a run": JOINING._replace(jobs=(*_RUN, "maintain"), at_once=2),
    "a window beside a split": SPLITTING._replace(jobs=(*_RUN, "window"), at_once=2),
    "a window beside copies": COPYING._replace(jobs=(*_RUN, "window"), at_once=2),
    "a clone": JOINING._replace(jobs=_RUN, hands=("clone",)),
    "a clone and a window": JOINING._replace(jobs=(*_RUN, "window", "undo"), hands=("clone",)),
    "a backup": JOINING._replace(jobs=(*_RUN, "holds", "undo"), hands=("overwrite",)),
    "copies, early and late": COPYING._replace(jobs=_RUN, hands=("late", "early")),
    "both constraints dropped": JOINING._replace(jobs=_RUN, hands=("drop epoch", "drop moving")),
}

#: More at once than the cases have; hours of them in `before`, which breaks early.
LARGE = {
    "two runs": JOINING._replace(
        runs=2, jobs=("plan", "migrate", "verify", "publish", "roll_back", "window")
    ),
    # Jobs of two runs are under way at once: what a statement read, the other may change.
    "two runs at once": JOINING._replace(runs=2, at_once=2),
    # A MERGE that wakes late may take a copy away, which no constraint sees.
    "late merge of copies": COPYING._replace(at_once=2, sleepers=("migrate",)),
    "evolve beside a run": EVOLVING._replace(at_once=2),
    "forget beside a run": FORGETTING._replace(at_once=2),
    # A repair may sleep while any other job goes on, also another repair.
    "late repair": JOINING._replace(at_once=2, sleepers=("repair",)),
}
