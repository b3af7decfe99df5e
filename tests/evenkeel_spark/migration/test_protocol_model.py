"""The model of the protocol finds what was found by hand, and visits just the states it should."""

from __future__ import annotations

import pytest

from tests.model.__main__ import main
from tests.model.checker.explore import explore
from tests.model.checker.invariants import COPIES, EXACT, PUBLISHED
from tests.model.checker.story import story
from tests.model.protocols.before import BEFORE
from tests.model.protocols.now import DAY_IDS, NOW
from tests.model.protocols.scenarios import BESIDE_A_RUN, CASES, LARGE, MORE, scenario_of
from tests.model.protocols.variants import NO_IDS, NO_LAST_LOOK

#: States visited until each case is found, and the last line but details of its shortest story. A
#: model that has lost a step, or has gained one, visits another number.
FOUND = {
    "old run": (70661, "run 1, roll_back: drops the constraint of the epoch it leaves"),
    "one digest": (49437, "run 1, publish: publishes the epoch"),
    "late publish": (1600, "run 1, roll_back: drops the constraint of the epoch it leaves"),
    "restore": (1289, "run 1, publish: publishes the epoch"),
    "partial": (391, "run 1, migrate: merges partial rows into the home's"),
    "lost registry": (
        3024,
        "by hand: bootstrap with another, empty registry adds the constraint epoch_0",
    ),
    "moving dropped": (4038, "by hand: somebody drops the constraint moving_1"),
    "epoch dropped": (726, "run 1, publish: publishes the epoch"),
    "forgotten": (9, "window: merges the window's events"),
    "window": (10, "window: merges the window's events"),
    "late drop": (1211, "run 1, roll_back: drops the moving constraint"),
    "late roll_back": (877, "run 1, roll_back: drops the moving constraint"),
}

#: Every state of the cases that have one run and no sleeper, under the protocol that followed.
VISITED = {
    "restore": 32911,
    "partial": 52172,
    "lost registry": 18815,
    "moving dropped": 26136,
    "epoch dropped": 26680,
    "forgotten": 15,
    "window": 24,
}

#: Every state of the searches that no case has.
MORE_VISITED = {
    "overlapping windows": 43,
    "overlapping windows, two tables": 357,
    "windows and notes": 204,
    "windows and RESTORE": 347,
    "windows and a clone": 3933,
    "windows and a backup": 412,
    "windows and partial rows": 465,
    "copies": 10432,
    "late": 29572,
    "late and partial": 122982,
    "early": 26797,
    "early and late": 66835,
    "two tables": 81536,
    "RESTORE and a window": 101266,
    "moving dropped and late": 64597,
    "evolve": 13090,
    "forget and a window": 74012,
    "third epoch": 22346,
}


#: Every state of the searches in which a job of no run, or a hand, comes beside a run. Those of
#: more than 60,000 states are slow tests.
BESIDE_VISITED = {
    "a window beside a run": 61558,
    "maintain beside a run": 55613,
    "a window beside a split": 37657,
    "a window beside copies": 68942,
    "a clone": 34121,
    "a clone and a window": 115013,
    "a backup": 50208,
    "copies, early and late": 70791,
    "both constraints dropped": 59004,
}


@pytest.mark.parametrize("name", CASES)
def test_the_old_protocol_breaks_where_it_was_seen_to_break(name):
    case = CASES[name]
    found = explore(BEFORE, case.scenario, first=case.broken)
    told = story(BEFORE, case.scenario, found, found.findings[case.broken])
    steps = [line for line in told.splitlines() if line[:4].strip(" .").isdigit()]
    assert told.startswith(f"BROKEN: {case.broken}")
    assert (len(found.states), steps[-1][5:]) == FOUND[name]


@pytest.mark.parametrize("name", VISITED)
def test_the_protocol_now_breaks_nothing_and_always_leads_to_rest(name):
    found = explore(NOW, scenario_of(CASES[name], NOW.name))
    assert (len(found.states), found.stuck, found.findings) == (VISITED[name], 0, {})
    assert found.complete


@pytest.mark.parametrize("name", MORE)
def test_what_the_cases_leave_out_breaks_nothing_and_always_leads_to_rest(name):
    found = explore(NOW, MORE[name])
    assert (len(found.states), found.stuck, found.findings) == (MORE_VISITED[name], 0, {})
    assert found.complete


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if states > 60_000 else [])
        for name, states in BESIDE_VISITED.items()
    ],
)
def test_what_comes_beside_a_run_breaks_nothing_and_always_leads_to_rest(name):
    found = explore(NOW, BESIDE_A_RUN[name])
    assert (len(found.states), found.stuck, found.findings) == (BESIDE_VISITED[name], 0, {})
    assert found.complete


@pytest.mark.parametrize("name", ["restore", "epoch dropped"])
def test_publishing_ends_with_a_look_at_what_came_just_before_the_epoch(name):
    """Without that look nobody is told that a table does not admit the published epoch."""
    scenario = scenario_of(CASES[name], NO_LAST_LOOK.name)
    found = explore(NO_LAST_LOOK, scenario, first=PUBLISHED)
    told = story(NO_LAST_LOOK, scenario, found, found.findings[PUBLISHED])
    steps = [line[5:] for line in told.splitlines() if line[:4].strip(" .").isdigit()]
    assert "by hand" in steps[-2] and "publishes the epoch" in steps[-1]


def test_windows_that_overlap_were_doubled_where_the_day_was_the_id():
    found = explore(DAY_IDS, MORE["overlapping windows"])
    told = story(DAY_IDS, MORE["overlapping windows"], found, found.findings[EXACT])
    steps = [line[5:] for line in told.splitlines() if line[:4].strip(" .").isdigit()]
    assert steps[-2:] == [
        "window: merges the window's events",
        "wide window: merges the window's events",
    ]


def test_a_merge_that_wakes_late_takes_a_copy_away_but_for_transaction_ids():
    scenario = LARGE["late merge of copies"]
    assert set(explore(NO_IDS, scenario, first=COPIES).findings) == {COPIES}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["late merge of copies", "two runs at once"])
def test_jobs_at_once_break_nothing_near_by(name):
    found = explore(NOW, LARGE[name], 600_000)
    assert (len(found.states) >= 600_000, found.findings) == (True, {})


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["late drop", "late roll_back"])
def test_a_zombie_that_broke_the_old_protocol_breaks_nothing_near_by(name):
    found = explore(NOW, scenario_of(CASES[name], NOW.name), 600_000)
    assert (len(found.states) >= 600_000, found.findings) == (True, {})


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_runs_break_nothing_and_always_lead_to_rest():
    found = explore(NOW, scenario_of(CASES["old run"], NOW.name))
    assert (len(found.states), found.stuck, found.findings) == (2243925, 0, {})
    assert found.complete


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_verify_that_sleeps_breaks_nothing_and_always_leads_to_rest():
    found = explore(NOW, scenario_of(CASES["late publish"], NOW.name))
    assert (found.stuck, found.findings) == (0, {})
    assert found.complete


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_repair_that_sleeps_breaks_nothing_near_by():
    found = explore(NOW, LARGE["late repair"], 600_000)
    assert (len(found.states), found.findings) == (600_000, {})


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["evolve", "forget"])
def test_a_job_that_withdraws_plans_beside_a_run_breaks_nothing_near_by(name):
    found = explore(NOW, LARGE[f"{name} beside a run"], 600_000)
    assert (len(found.states) >= 600_000, found.findings) == (True, {})


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_runs_and_windows_break_nothing_and_always_lead_to_rest():
    found = explore(NOW, LARGE["two runs"])
    assert (found.stuck, found.findings) == (0, {})
    assert found.complete


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
