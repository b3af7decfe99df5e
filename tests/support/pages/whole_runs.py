"""A run from its plan to its report, whose migration has cost something."""

from __future__ import annotations

import numpy as np

from evenkeel.pipeline import steps
from evenkeel.render.formatting import bytes_text, count_text, seconds_text
from tests.support.plugin_site import Site, profile, run_name
from tests.support.raw_json import table_moved, write_json

#: Title on pages -> name in JSON, and how it is written.
KINDS = {
    "rows of state": ("rows", count_text),
    "bytes of state": ("bytes_moved", bytes_text),
    "bytes of files": ("bytes_written", bytes_text),
    "files": ("files", count_text),
    "commits": ("commits", count_text),
    "time": ("seconds", seconds_text),
}


def whole_run(site: Site, number: int, seed: int) -> str:
    """A run whose migration has cost something at random, from its plan to its report."""
    rng = np.random.default_rng(seed)
    name = run_name(number)
    site.shop.learn(name, profile(seed))
    site.shop.plan(name, force=True, max_imbalance=1.005, rate=int(rng.integers(10, 10**6)))
    steps.validate_plan(site.shop.spec, name)
    folder = site.registry.run(name)
    plan = steps.read_plan(folder)
    rows = int(sum(m.rows for m in plan.moves) * rng.uniform(0.8, 1.2))
    files = int(rng.integers(1, 30))
    seconds = float(rng.uniform(0.5, 9))
    cost = table_moved(
        before=1,
        after=4,
        rows=rows,
        bytes=int(plan.bytes + files * rng.integers(1000, 6000)),
        files=files,
        commits=[2, 3, 4],
        seconds=round(seconds, 3),
        elapsed=round(seconds * rng.uniform(1, 50), 3),
    )
    record = {"digest": plan.digest, "epoch": plan.function.epoch, "tables": {"counts": cost}}
    write_json(folder, "migration.json", record)
    site.shop.verified(name)
    steps.publish(site.shop.spec, name)
    steps.report(site.shop.spec, name)
    return name
