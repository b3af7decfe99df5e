"""What happens to a table beside its runs: a late writer, RESTORE, maintain, backup, disaster."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from pyspark.sql import functions as F

from evenkeel.registry.pruning import NEWEST_RUNS
from evenkeel.table import Table
from evenkeel_spark.jobs import maintain as maintaining
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.tables.delta import commits, constraints, state
from partitioning.errors import EvenkeelError
from partitioning.function.hashing import key_hash
from tests.chaos.home import STATEMENTS, misplaced
from tests.soak import calendar
from tests.soak.asked import WINDOW
from tests.soak.changes import Changes
from tests.soak.stream import INPUT_DAYS, content, difference, the_day, truth
from tests.soak.year import Different, Year

#: Bytes of a state table's folder, with its log, after maintain: some 20 days of rewritten files.
MAX_STATE = 12_000_000
#: Bytes of the registry after maintain: what stays of an epoch, and all that goes.
EPOCH, REST = 40_000, 2_000_000
#: Commits to a state table and runs of one day at most, over `keep` days.
COMMITS_A_DAY, RUNS_A_DAY = 16, 1
#: Pages of Data Docs of a run at most. They stay as long as the run.
PAGES_A_RUN = 3
#: Bytes of any other folder of the registry.
OTHER = 100_000


@dataclass(frozen=True)
class Accidents:
    """Accidents and chores of the year's table."""

    year: Year

    def late_writer(self) -> None:
        """A writer that still routes by an earlier epoch: where a key has moved it is refused."""
        table = self.year.world.table
        numbers = table.registry.numbers()
        if len(numbers) < 2:
            return
        before, now = table.epoch(numbers[-2]).function, table.epoch().function
        path = table.spec.state["totals"].path
        rows = self.year.spark.read.format("delta").load(path).collect()
        hashes = key_hash([[row["dest"] for row in rows]], [c.type for c in now.key])
        old, new = before.lookup_hashes(hashes), now.lookup_hashes(hashes)
        moved = (
            (old != new) & ~np.isin(hashes, now.split.keys) & ~np.isin(hashes, before.split.keys)
        )
        for at in np.flatnonzero(moved)[:1]:
            key = rows[at]["dest"]
            late = (
                self.year.spark.read.format("delta")
                .load(path)
                .where(F.col("dest") == key)
                .withColumn(state.CHANNEL, F.lit(int(old[at])).cast("int"))
            )
            try:
                late.write.format("delta").mode("append").save(path)
            except STATEMENTS as error:
                if constraints.OURS not in str(error):
                    raise
                self.year.happened.append("late writers refused")
            else:
                raise Different(f"{key} got in at channel {old[at]}; it lives on {new[at]}")

    def restore(self, day: int) -> None:
        """RESTORE some state tables to before the window of some days ago."""
        table, rng = self.year.world.table, self.year.draw(day, "RESTORE of")
        first, known = day + 1 - rng.randint(1, 3), table.epoch().tables
        # A table that has left the spec is not looked after any more.
        there = sorted(set(known) & set(table.spec.state))
        for name in rng.sample(there, rng.randint(1, len(there))):
            path = table.spec.state[name].path
            to = self._version_before(path, first, known[name].version)
            if to is not None:
                Changes(self.year).taken_back([name], first)
                self.year.spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF {to}")
                self.year.happened.append("tables brought back by RESTORE")

    def _version_before(self, path: str, day: int, epoch: int) -> int | None:
        """The version just before the window of that day, if the epoch in force is as old."""
        for commit in commits.history_since(self.year.spark, path, epoch):
            meta = commit.meta
            if meta.get("step") == "apply_window" and meta.get("start") == f"{the_day(day)}":
                return commit.version - 1
        return None

    def windows_again(self, day: int) -> None:
        """Apply what may be missing: a window that is in is passed over."""
        for earlier in range(max(WINDOW, day - INPUT_DAYS + 2), day + 1):
            try:
                self.apply(earlier)
            except EvenkeelError as error:
                # It is in, with later ones.
                if "would count events twice" not in str(error):
                    raise

    def apply(self, day: int) -> None:
        apply_window(self.year.spark, self.year.world.table, the_day(day), the_day(day + 1))

    def maintain(self) -> None:
        """Compact, and remove what is older than `keep` days of the year's own clock."""
        calendar.date_files(self.year.world.folder)
        before = self._data_files()
        # By the file system, this process's clock is days ahead, and nothing would be removed.
        with patch.object(maintaining, "check_writable", lambda *_: time.time()):
            maintaining.maintain(self.year.spark, self.year.world.table)
        if before - self._data_files():
            self.year.happened.append("maintains that removed files")
        self._clean_logs()
        wrong = above(self.year.world.table)
        if wrong is not None:
            raise Different(wrong)

    def _data_files(self) -> set[Path]:
        state_dirs = (Path(part.path) for part in self.year.world.table.spec.state.values())
        return {file for path in state_dirs for file in path.glob("channel=*/*.parquet")}

    def _clean_logs(self) -> None:
        """Let Delta clean its logs, whose files have the year's dates now.

        By itself it would do so at any commit, and take a new one for as old as the machine says.
        """
        spark = self.year.spark
        calendar.date_files(self.year.world.folder)
        for part in self.year.world.table.spec.state.values():
            log = state.delta_log(spark, part.path)
            defaults = (getattr(log, f"cleanUpExpiredLogs$default${n}")() for n in (2, 3, 4))
            log.cleanUpExpiredLogs(state.snapshot(spark, part.path), *defaults)

    def backup(self, day: int) -> None:
        """Copy state and registry while nobody writes."""
        kept, unfinished = self.year.folder / "backup", self.year.folder / "backup.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(self.year.world.folder, unfinished)
        (unfinished / "day").write_text(f"{day}")
        shutil.rmtree(kept, ignore_errors=True)
        unfinished.rename(kept)

    def disaster(self, day: int) -> None:
        """State and registry are lost; the backup of up to ten days ago takes their place.

        Half the time the tables are clones of it, with its files in their place.
        """
        kept, world, spark = self.year.folder / "backup", self.year.world.folder, self.year.spark
        if not kept.exists():
            return
        clones, names = (
            self.year.folder / f"clones-{day}",
            [p.name for p in (kept / "state").iterdir()],
        )
        Changes(self.year).taken_back(names, int((kept / "day").read_text()) + 1)
        for part in ("state", "registry"):
            shutil.rmtree(world / part, ignore_errors=True)
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        shutil.copytree(kept / "registry", world / "registry")
        if self.year.draw(day, "clones").random() < 0.5:
            shutil.copytree(kept / "state", world / "state")
            self.year.happened.append("disasters, with copies brought back")
            return
        shutil.rmtree(clones, ignore_errors=True)
        shutil.copytree(kept / "state", clones)
        for name in names:
            spark.sql(
                f"CREATE TABLE delta.`{world / 'state' / name}` SHALLOW CLONE "
                f"delta.`{clones / name}`"
            )
        self.year.happened.append("disasters, with clones brought back")

    def compare(self, day: int) -> None:
        """Hold every state table against pandas, and each row's place against the epoch."""
        wanted = truth(self.year.seed, day + 1, Changes(self.year).asked)
        function = self.year.world.table.epoch().function
        for name, part in self.year.world.table.spec.state.items():
            rows = self.year.spark.read.format("delta").load(part.path).collect()
            wrong = [row["dest"] for row in misplaced(function, rows)]
            places = Counter((row["dest"], row[state.CHANNEL]) for row in rows)
            doubled = [place for place, count in places.items() if count > 1]
            if wrong or doubled:
                raise Different(f"day {day}, {name}: misplaced {wrong}, doubled {doubled}")
            found = difference(content(rows), wanted[name])
            if found is not None:
                raise Different(f"day {day}, {name}: {found}")


def stated(channels: int, slots: int, days: int, window: int, epochs: int) -> dict[str, int]:
    """Return the bytes that each part of a small table has at most after maintain.

    docs/OPERATIONS.md states them. A part of a state table is of each of them.

    Parameters
    ----------
    channels : the most of any epoch
    days : for which versions and runs stay
    window : days that plans learn from
    """
    commits, runs = COMMITS_A_DAY * days, NEWEST_RUNS + RUNS_A_DAY * days
    return {
        "state": (1 + commits) * channels * 6_000,
        "_delta_log": (1 + commits) * (6_000 + 2_000 * channels + 16 * slots),
        "sketches": (window + days + 2) * (8_000 + 128 * slots),
        "runs": runs * (40_000 + 2_000 * channels + 100 * slots),
        "data_docs": (1 + PAGES_A_RUN * runs) * (50_000 + 2_000 * channels),
        "epochs": epochs * (30_000 + 1_000 * channels + 100 * slots),
        "windows": (window + days + 2) * 2_000,
    }


def above(table: Table) -> str | None:
    """Which part is larger than stated, in words; None: none is."""
    numbers, spec = table.registry.numbers(), table.spec
    channels = max(len(table.epoch(n).function.channels) for n in numbers)
    most = stated(channels, spec.slots, spec.keep + 1, spec.window, len(numbers))
    registry, states = Path(spec.registry), [Path(part.path) for part in spec.state.values()]
    # Parts first: their name says more than that of the whole.
    sizes = [(p, size(p), most.get(p.name, OTHER)) for p in registry.iterdir() if p.is_dir()]
    sizes.append((registry, size(registry), REST + len(numbers) * EPOCH))
    for path in states:
        log = path / "_delta_log"
        rows = size(path) - size(log)
        sizes += [
            (path, size(path), MAX_STATE),
            (path / "channel=*", rows, most["state"]),
            (log, size(log), most[log.name]),
        ]
    for part, found, kept in sizes:
        if found > kept:
            return f"{part} has {found:,} bytes, more than the {kept:,} that are stated"
    return None


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
