"""The model of the protocol finds what was found by hand, and visits just the states it should."""

from __future__ import annotations

import pytest

from tests.model.__main__ import main
from tests.model.before import BEFORE
from tests.model.explore import explore
from tests.model.scenarios import CASES
from tests.model.story import story

#: States visited until each case is found, and the last line but details of its shortest story. A
#: model that has lost a step, or has gained one, visits another number.
FOUND = {
    "old run": (63299, "run 1, roll_back: adds the moving constraint"),
    "one digest": (43697, "run 1, publish: publishes the epoch"),
    "late publish": (1465, "run 1, roll_back: adds the moving constraint"),
    "restore": (1281, "run 1, publish: publishes the epoch"),
    "partial": (391, "run 1, migrate: merges partial rows into the home's"),
    "lost registry": (
        2980,
        "by hand: bootstrap with another, empty registry adds the constraint epoch_0",
    ),
    "moving dropped": (4005, "by hand: somebody drops the constraint moving_1"),
    "epoch dropped": (725, "run 1, publish: publishes the epoch"),
    "forgotten": (9, "window: merges the window's events"),
    "window": (10, "window: merges the window's events"),
    "late drop": (1164, "run 1, roll_back: drops the moving constraint"),
    "late roll_back": (877, "run 1, roll_back: drops the moving constraint"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_old_protocol_breaks_where_it_was_seen_to_break(name):
    case = CASES[name]
    found = explore(BEFORE, case.scenario, first=case.broken)
    told = story(BEFORE, case.scenario, found, found.findings[case.broken])
    steps = [line for line in told.splitlines() if line[:4].strip(" .").isdigit()]
    assert told.startswith(f"BROKEN: {case.broken}")
    assert (len(found.states), steps[-1][5:]) == FOUND[name]


def test_one_run_alone_breaks_nothing_and_always_ends():
    found = explore(BEFORE, CASES["partial"].scenario._replace(hands=()))
    assert (len(found.states), found.stuck, found.findings) == (1494, 0, {})
    assert found.complete


def test_the_command_tells_a_story_a_person_can_read(capsys):
    assert main(["window", "--variant", "before"]) == 1
    told = capsys.readouterr().out
    assert "BROKEN: no row lost or doubled" in told
    assert "by hand: a writer appends a partial row of the split key to channel 0" in told
    assert "split key is 1211, the events make 1111" in told
