"""The protocols that can be explored: those of before, today's without a part, and today's."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.before import BEFORE
from tests.model.protocols.now import DAY_IDS, NOW
from tests.model.protocols.protocol import Outcome, Scenario, Step, Variant, on
from tests.model.state import Proc, State

#: Statements that move rows, each with a transaction id.
_STATEMENTS = ("update", "merge")


def _never_late(step: Step) -> Step:
    """Let a statement commit whatever ids are spent."""

    def taken(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
        tables = tuple(table._replace(spent=-1) for table in state.tables)
        return step(scenario, state._replace(tables=tables), proc)

    return taken


#: Moves without transaction ids.
NO_IDS = NOW._replace(
    name="no ids",
    steps={k: _never_late(s) if k[1] in _STATEMENTS else s for k, s in NOW.steps.items()},
)


def _never_again(step: Step) -> Step:
    """Publish without one more look at the tables."""

    def taken(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
        return step(scenario, state, proc._replace(other=0))

    return taken


#: Publishing ends with the epoch.
NO_LAST_LOOK = NOW._replace(
    name="no last look",
    steps={k: _never_again(s) if k[1] == "create" else s for k, s in NOW.steps.items()},
)


def without(job: str, step: str, after: str, **changes: int) -> Variant:
    """Return today's protocol, of which a job skips a step: it goes on at another."""

    def skip(scenario: Scenario, state: State, proc: Proc) -> Iterable[Outcome]:
        return [(f"skips {step!r}", on(state, proc, after, **changes))]

    return NOW._replace(name=f"no {step}", steps={**NOW.steps, (job, step): skip})


VARIANTS = {v.name: v for v in (BEFORE, DAY_IDS, NO_IDS, NO_LAST_LOOK, NOW)}
