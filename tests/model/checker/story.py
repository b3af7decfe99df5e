"""The shortest way to a state, told step by step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.model.checker.canonical import in_order
from tests.model.checker.explore import Edge, Explored, Finding, edges
from tests.model.protocols.protocol import Scenario, Variant
from tests.model.rows import KEYS, sums
from tests.model.state import State, Table, named, rules


def story(variant: Variant, scenario: Scenario, found: Explored, finding: Finding) -> str:
    """Return the steps that lead to a finding, and what stands then."""
    lines = [f"BROKEN: {finding.invariant}"]
    for number, (edge, before) in enumerate(path(variant, scenario, found, finding), 1):
        lines.append(f"{number:3}. {edge.who}: {edge.text}")
        lines += [f"       {change}" for change in changes(before, edge.state)]
    return "\n".join(lines)


def path(
    variant: Variant, scenario: Scenario, found: Explored, finding: Finding
) -> Iterator[tuple[Edge, State]]:
    """Each step to a finding, with the state before it."""
    way, number = [], finding.number
    while number >= 0:
        way.append(number)
        number = found.parents[number]
    way.reverse()
    for one, other in pairwise(way):
        before, after = found.states[one], found.states[other]
        for edge in edges(variant, scenario, before):
            if in_order(edge.state) == after:
                yield edge, before
                break
    if finding.text is not None:
        before = found.states[finding.number]
        for edge in edges(variant, scenario, before):
            if (edge.who, edge.text) == finding.text:
                yield edge, before
                break


def changes(before: State, after: State) -> Iterator[str]:
    """What a step has changed, in words."""
    if before.epochs != after.epochs:
        yield f"published: epoch {after.epoch}"
    for t, (old, new) in enumerate(zip(before.tables, after.tables, strict=True)):
        name = f"table {t + 1}" if len(after.tables) > 1 else "the table"
        if rules(before, old) != rules(after, new) or old.movers != new.movers:
            yield f"{name} stands under {named(rules(after, new))}"
        if old.rows != new.rows:
            yield f"{name} has {rows_of(new)}"
        found = sums(new.rows)
        for key, value, truth in zip(KEYS, found, new.truth, strict=True):
            if value != truth:
                yield f"{name}: {key} is {value:o}, the events make {truth:o} (digits count events)"


def rows_of(table: Table) -> str:
    """The rows in words."""
    return ", ".join(f"{KEYS[k]} on channel {c} ({v:o})" for k, c, v in table.rows)
