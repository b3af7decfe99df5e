"""Predictions of what a migration costs, kept as the approver saw them.

The prediction is one file for each plan of a run, created exclusively. No later measurement and no
later attempt rewrites it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import inf

import numpy as np

from evenkeel.quality.tables_suite import FILE_OVERHEAD
from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.migration_records import Batch, Prediction
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.runs.params import Throttling
from evenkeel.runs.timings import MigrationCost, migrations, seconds_per_load
from partitioning.errors import EvenkeelError
from partitioning.moves.moves import Move
from partitioning.planning.batches import BatchLimit, batches
from partitioning.planning.decide import days_of
from partitioning.planning.plan import Plan
from partitioning.workload.profile import Floats, Profile

#: Seconds of a rate that make a batch if none is given. More: fewer commits, longer bursts.
RATE_SECONDS = 60
#: Part of a budget that makes a batch at most. Each batch shows how much the next will write, so a
#: smaller part holds the budget more exactly, with more commits.
SHARE = 1 / 4


def batch_limits(plan: Plan, limits: Throttling) -> BatchLimit:
    """Return what one batch of a migration may be at most."""
    sizes = [limits.batch] if limits.batch is not None else []
    by_rate = limits.batch is None
    if by_rate and limits.rate is not None:
        sizes.append(limits.rate * RATE_SECONDS)
    # Even without a batch in the spec: a batch's prediction is scaled by the one before it.
    if plan.budget is not None:
        sizes.append(plan.budget * SHARE)
    return BatchLimit(
        bytes=float(min(sizes, default=inf)),
        rows=float(
            limits.rate_rows * RATE_SECONDS if by_rate and limits.rate_rows is not None else inf
        ),
        files=float(limits.batch_files if limits.batch_files is not None else inf),
    )


def predict(
    registry: Registry,
    plan: Plan,
    profile: Profile | None,
    limits: Throttling | None = None,
    footer: float | None = None,
) -> Prediction:
    """Predict the cost of a plan from the migrations before it, and what it saves.

    Parameters
    ----------
    profile : weighs what a day waits less; None: not known
    limits : what the migration is held to; None: nothing
    footer : bytes that a file of state takes beside its rows, by its files; None: not known

    Raises
    ------
    DamagedError : a record of an earlier migration or window is torn
    """
    limits = limits or Throttling()
    measured = migrations(registry, plan.function.epoch)
    tables = max(1, len(plan.tables))
    parts = _batches(plan, batch_limits(plan, limits), tables)
    rows = sum(m.rows for m in plan.moves)
    files = sum(b.files for b in parts)
    written = plan.bytes + _footer(measured, footer) * files
    limit = max(limits.seconds(rows, written))
    seconds = rate = None
    if measured:
        rate = sum(m.moved for m in measured) / sum(m.seconds for m in measured)
        least = min(m.seconds / max(1, m.commits) for m in measured)
        seconds = sum(max(b.bytes / rate, tables * least) for b in parts)
    if limit:
        seconds = max(seconds or 0.0, limit)
    saved = None
    if profile is not None and (per_load := seconds_per_load(registry, profile)) is not None:
        saved = _less_wait(registry, plan) * per_load / days_of(profile)
    return Prediction(
        digest=plan.digest,
        rows=rows,
        bytes=plan.bytes,
        written=written,
        tables=tables,
        batches=parts,
        seconds=seconds,
        limit=limit,
        rate=rate,
        saved_daily=saved,
    )


def keep_prediction(
    registry: Registry, run: RunFiles, plan: Plan, profile: Profile, limits: Throttling
) -> None:
    """Keep the prediction of a run's plan; one that is kept already stays as it is."""
    file = run.prediction(plan.digest)
    if file.exists():
        return
    try:
        learned = run.learned.find()
        made = predict(registry, plan, profile, limits, learned and learned.footer)
    except EvenkeelError:
        # A torn record of the past must not stop a plan, above all one that goes back.
        return
    file.create(made)


def _batches(plan: Plan, most: BatchLimit, tables: int) -> tuple[Batch, ...]:
    """Return the batches of a plan; the rows of split keys follow in one of their own."""
    whole = [m for m in plan.moves if m.kind != "share"]
    shares = [m for m in plan.moves if m.kind == "share"]
    if most == BatchLimit():
        parts: list[list[Move]] = [whole]
    else:
        parts = [[m for m in part if m.kind != "share"] for part in batches(plan, most)]
    return tuple(
        Batch(
            rows=sum(m.rows for m in part),
            bytes=sum(m.bytes for m in part),
            # Each task reads one channel, and writes one file for each channel that its rows go to.
            files=len({(m.source, m.target) for m in part if m.rows > 0}) * tables,
        )
        for part in (*parts, shares)
        if sum(m.rows for m in part)
    )


def _less_wait(registry: Registry, plan: Plan) -> float:
    """Return how much less load a window waits for, in loads of a channel of mean weight.

    A window waits for the channel with the most load over its weight, as the weight stands for
    speed. Windows were measured on the weights before the plan, so their mean is the measure.
    """
    old = new = plan.function.capacities
    with suppress(EvenkeelError):
        old = registry.epoch(plan.parent_epoch).function.capacities
    mean = old[old > 0].mean()
    before = _slowest(plan.loads_before, old, new, mean)
    return before - _slowest(plan.loads_after, new, old, mean)


def _slowest(loads: Sequence[float], weights: Floats, others: Floats, mean: float) -> float:
    """Return the most load over weight; a closed channel counts with its other weight."""
    found = np.full(len(loads), mean)
    for known in (others, weights):
        at = np.flatnonzero(known > 0)
        found[at] = known[at]
    return float((np.array(loads) * mean / found).max())


def _footer(measured: list[MigrationCost], footer: float | None) -> float:
    """Return the bytes of a file that hold no state.

    The footers of earlier migrations come first, then those of the present files, then the maximum.
    Files of few rows are mostly footer, so a small move writes far more than it moves.
    """
    files = sum(m.files for m in measured)
    if not files:
        return float(FILE_OVERHEAD if footer is None else min(footer, FILE_OVERHEAD))
    return max(0.0, sum(m.written - m.moved for m in measured)) / files
