"""The protocols that can be explored: those of before, today's without a part, and today's."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.protocols.before import BEFORE
from tests.model.protocols.now import DAY_IDS, NOW
from tests.model.protocols.protocol import Outcome, Scenario, Step
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
VARIANTS = {v.name: v for v in (BEFORE, DAY_IDS, NO_IDS, NOW)}
