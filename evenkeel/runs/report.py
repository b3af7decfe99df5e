"""The page of a run: its result and its cost, from whatever the run has left so far.

It is one self-contained file: no script, no request to any host. The template escapes everything
that comes from data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from evenkeel.quality.budgets import write_budget
from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.render.charts import NARROW, WIDE, loads_svg
from evenkeel.render.curve_chart import curve_svg
from evenkeel.render.formatting import (
    bytes_text,
    checks_text,
    imbalance_text,
    percent_text,
    template,
)
from evenkeel.runs.figures import break_even
from evenkeel.runs.record import RunParts, headline, read_run
from evenkeel.spec.table_spec import TableSpec
from partitioning.planning.plan import Plan

#: Moves to list at most, and those of them to show before a click; others are only counted.
MOVES_LISTED, MOVES_AT_FIRST = 200, 20
#: Relative path from a run's folder, or an epoch's, to the registry.
_HOME = "../../"


def render(spec: TableSpec, registry: Registry, run: RunFiles) -> str:
    """Render the page of a run as HTML. A part that the run has not left is left out.

    Raises
    ------
    DamagedError : a file of the run is torn
    """
    return report_page(read_run(spec.table, registry, run), spec)


def report_page(parts: RunParts, spec: TableSpec | None = None) -> str:
    """Render the page of these parts as HTML. The same parts give the same page.

    A run writes its report last, so it has ended.
    """
    title, sentence, tone = headline(parts, ended=True)
    plan, split = parts.plan, spec is not None and spec.split is not None
    return template("report.html.j2").render(
        parts=parts,
        plan=plan,
        title=title,
        sentence=sentence,
        tone=tone,
        failed=[
            r
            for gate in (parts.gate_plan, parts.gate_tables)
            if gate
            for r in gate.results
            if r.fails_gate
        ],
        facts=plan_facts(plan, split) if plan else [],
        break_even=break_even(parts.prediction, spec.horizon)[0] if spec else None,
        floor_note=floor_note(parts.decision and parts.decision.floor, split),
        forecast=spec is not None and spec.decay is not None,
        pictures=pictures(plan) if plan else {},
        channels=_channels(plan) if plan else [],
        moves=_moves(plan) if plan else [],
        first=MOVES_AT_FIRST,
        gates=_gates(parts),
        tables=_tables(parts),
        home=_HOME,
    )


def floor_note(floor: float | None, split: bool) -> str:
    """Say what the floor of a table or a plan is.

    Parameters
    ----------
    floor : imbalance; None: not known
    split : the spec allows splitting keys. With split keys the floor is 1; a way back to whole keys
        may have a higher one all the same
    """
    allowed = split and (floor is None or floor <= 1)
    return "the least possible" if allowed else "the least possible without splitting keys"


def plan_facts(plan: Plan, split: bool) -> list[tuple[str, str, str]]:
    """Return name, value and note of each figure of a plan; `split`: as for `floor_note`."""
    share = plan.bytes / plan.state_bytes if plan.state_bytes else 0.0
    aim = f"aim {plan.max_imbalance:g}" if plan.max_imbalance else "no aim"
    most = write_budget(plan)
    budget = "no budget" if most is None else f"budget {bytes_text(most)}"
    keys = sum(m.kind == "key" for m in plan.moves)
    shared = plan.function.split
    copies = np.diff(shared.starts)
    facts = [
        ("imbalance before", imbalance_text(plan.imbalance_before), "1 is perfect"),
        ("imbalance after", imbalance_text(plan.imbalance_after), aim),
        ("floor", imbalance_text(plan.floor), floor_note(plan.floor, split)),
        ("hashing alone", imbalance_text(plan.imbalance_hashing), "for comparison"),
        ("state to move", bytes_text(plan.bytes), f"{percent_text(share)}, {budget}"),
        ("moves", f"{len(plan.moves):,}", f"{keys:,} heavy {'key' if keys == 1 else 'keys'}"),
    ]
    function = plan.function
    if function.row_slots < len(function.slots):
        kept = f"rows keep their slot of {function.row_slots:,}: none is rewritten for it"
        facts.append(("slots", f"{len(function.slots):,}", kept))
    if plan.uncertain:
        facts.append(("forecast", "uncertain", plan.uncertain))
    if len(shared):
        parts = f"{copies.mean():.1f} copies each, at most {copies.max()}"
        facts.append(("split keys", f"{len(shared):,}", parts))
    return facts


def pictures(plan: Plan, links: Sequence[str] = ()) -> dict[str, dict[str, Markup]]:
    """Draw the `loads` and the `curve` of a plan as SVG, each `wide` and `narrow`.

    Parameters
    ----------
    links : address of the page of each channel, for its bar; none: bars are no links
    """
    names, capacities = channel_names(plan)
    levels = [("floor", plan.floor), ("hashing", plan.imbalance_hashing)]
    if plan.max_imbalance is not None:
        levels.append(("aim", plan.max_imbalance))
    drawn: dict[str, dict[str, Markup]] = {"loads": {}, "curve": {}}
    for size, width in (("wide", WIDE), ("narrow", NARROW)):
        # Vega escapes every text that it draws, and a picture holds nothing else.
        drawn["loads"][size] = Markup(
            loads_svg(
                names, capacities, plan.loads_before, plan.loads_after, width=width, links=links
            )
        )
        drawn["curve"][size] = Markup(
            curve_svg(
                [(p.bytes, p.imbalance) for p in plan.curve],
                [(p.bytes, p.imbalance) for p in plan.bound],
                (plan.bytes, plan.imbalance_after),
                levels,
                width=width,
            )
        )
    return drawn


def channel_names(plan: Plan) -> tuple[list[str], list[float]]:
    """Return the names and capacities of all channels before and after; dropped ones by number."""
    channels = plan.function.channels
    dropped = range(len(channels), len(plan.loads_before))
    names = [c.name for c in channels] + [str(i) for i in dropped]
    return names, [c.capacity for c in channels] + [0.0 for _ in dropped]


def _channels(plan: Plan) -> list[dict[str, Any]]:
    names, capacities = channel_names(plan)
    total, capacity = sum(plan.loads_after), sum(capacities)
    given = [0] * len(names)
    taken = [0] * len(names)
    for move in plan.moves:
        given[move.source] += 1
        taken[move.target] += 1
    return [
        {
            "name": name,
            "capacity": own,
            "before": plan.loads_before[i],
            "after": plan.loads_after[i],
            "share": plan.loads_after[i] / (own / capacity * total) if own and total else None,
            "given": given[i],
            "taken": taken[i],
        }
        for i, (name, own) in enumerate(zip(names, capacities, strict=True))
    ]


def _moves(plan: Plan) -> list[dict[str, Any]]:
    names, _ = channel_names(plan)
    return [
        {"move": m, "source": names[m.source], "target": names[m.target]}
        for m in plan.moves[:MOVES_LISTED]
    ]


def _gates(parts: RunParts) -> list[dict[str, Any]]:
    found = (("before", parts.gate_plan), ("after", parts.gate_tables))
    return [
        {"title": checks_text(suite), "results": gate.results, "docs": gate.docs}
        for suite, gate in found
        if gate
    ]


def _tables(parts: RunParts) -> list[dict[str, Any]]:
    moved = parts.migration.tables if parts.migration else {}
    weighed = parts.plan.tables if parts.plan else {}
    return [
        {"name": name, "weighed": weighed.get(name), **moved[name].model_dump()}
        for name in sorted(moved)
    ]
