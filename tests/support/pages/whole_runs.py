"""A run from its plan to its report, whose migration has cost something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenkeel.pipeline import steps
from evenkeel.render.formatting import bytes_text, count_text, seconds_text
from partitioning.function.canonical import canonical_json
from partitioning.planning.plan import Plan
from tests.support.plugin_site import profile, run_name
from tests.support.raw_json import table_moved, write_json
from tests.support.worlds.shop import SPEC, Shop

#: Title on pages -> name in JSON, and how it is written.
KINDS = {
    "rows of state": ("rows", count_text),
    "bytes of state": ("bytes_moved", bytes_text),
    "bytes of files": ("bytes_written", bytes_text),
    "files": ("files", count_text),
    "commits": ("commits", count_text),
    "time": ("seconds", seconds_text),
}


@dataclass(frozen=True)
class Shape:
    """What sets a random table apart from others.

    Parameters
    ----------
    spec : changes of its spec
    asked : Params of its run
    heaviest : how many times heavier than usual its heaviest key is
    """

    spec: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    heaviest: float = 1.0


def _two_tables() -> dict[str, Any]:
    last = {"path": "last", "columns": {"at": {"merge": "max", "of": "at"}}}
    return {"state": {**SPEC["state"], "last": last}}


def _weights(rng: np.random.Generator, count: int) -> list[float]:
    """Weights of channels, one of which is closed."""
    found = [round(float(w), 2) for w in rng.uniform(0.5, 3, count)]
    found[int(rng.integers(count))] = 0.0
    return found


#: Name -> the shape that a random number generator makes of it.
SHAPES: dict[str, Callable[[np.random.Generator], Shape]] = {
    "plain": lambda rng: Shape(),
    "weights": lambda rng: Shape(asked={"capacities": _weights(rng, 4)}),
    "more channels": lambda rng: Shape(asked={"channels": int(rng.integers(6, 12))}),
    "fewer channels": lambda rng: Shape(asked={"channels": 3}),
    "split": lambda rng: Shape({"split": {"by": "id"}}, heaviest=float(rng.uniform(3, 6))),
    "two tables": lambda rng: Shape(_two_tables()),
    "all": lambda rng: Shape(
        {"split": {"by": "id"}, **_two_tables()},
        {"capacities": _weights(rng, int(rng.integers(6, 12)))},
        float(rng.uniform(3, 6)),
    ),
}


def whole_run(shop: Shop, number: int, seed: int, shape: Shape | None = None) -> str:
    """A run whose migration has cost something at random, from its plan to its report."""
    rng, shape = np.random.default_rng(seed), shape or Shape()
    name = run_name(number)
    learn = shop.learn_row if "split" in shape.spec else shop.learn
    learn(name, profile(seed, heaviest=shape.heaviest))
    rate = int(rng.integers(10, 10**6))
    shop.plan(name, force=True, max_imbalance=1.005, rate=rate, **shape.asked)
    steps.validate_plan(shop.spec, name)
    folder = shop.registry.run(name)
    plan = steps.read_plan(folder)
    tables = {table: _cost(rng, plan, version) for table, version in shop.versions(1).items()}
    record = {"digest": plan.digest, "epoch": plan.function.epoch, "tables": tables}
    write_json(folder, "migration.json", record)
    shop.verified(name)
    steps.publish(shop.spec, name)
    steps.report(shop.spec, name)
    return name


def _cost(rng: np.random.Generator, plan: Plan, version: int) -> dict[str, Any]:
    """What moving one state table has cost, from that version on."""
    files, seconds = int(rng.integers(1, 30)), float(rng.uniform(0.5, 9))
    return table_moved(
        before=version,
        after=version + 3,
        rows=int(sum(m.rows for m in plan.moves) * rng.uniform(0.8, 1.2)),
        bytes=int(plan.bytes + files * rng.integers(1000, 6000)),
        files=files,
        commits=[version + 1, version + 2, version + 3],
        seconds=round(seconds, 3),
        elapsed=round(seconds * rng.uniform(1, 50), 3),
    )


def windows_worked(shop: Shop, seed: int) -> None:
    """What the fold leaves of two windows: rows and seconds of each channel's task."""
    rng, count = np.random.default_rng(seed), len(shop.registry.current().function.channels)
    for end in ("2013-01-02", "2013-01-03"):
        work = [
            {
                "channel": c,
                "rows": int(rng.integers(1, 10**6)),
                "seconds": float(rng.uniform(0, 99)),
            }
            for c in range(count)
        ]
        shop.registry.store.write(f"windows/{end}.json", canonical_json({"channels": work}))
