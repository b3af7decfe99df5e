"""What people ask of the table beside its runs: other columns, another table, a key forgotten."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import yaml

from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.forgetting.forget import forget
from evenkeel_spark.tables.delta import state
from evenkeel_spark.tables.membership import known_tables
from tests.soak.asked import KEEP, Asked
from tests.soak.stream import INPUT_DAYS, KEYS, the_day, write_day
from tests.soak.year import Different, Year

_FARES = ("fares", "paid")


@dataclass(frozen=True)
class Changes:
    """Changes of the year's table, and what was asked for until now, in a file beside it."""

    year: Year

    @property
    def asked(self) -> Asked:
        """What was asked for until now."""
        return Asked.read(self.year.folder)

    def ask(self, day: int) -> None:
        """Write another spec: a column or a table comes or goes, or a column has another name."""
        asked, rng = self.asked, self.year.draw(day, "change")
        if asked.changed != day:
            begin = day + 1
            wanted = rng.choice(["column", "name", "table"])
            if wanted == "column":
                asked = replace(asked, longest=None if asked.longest else begin)
            elif wanted == "name":
                asked = replace(asked, fares=_FARES[asked.fares == _FARES[0]])
            else:
                asked = replace(asked, third=None if asked.third else (f"last_{day}", begin))
            replace(asked, changed=day).write(self.year.folder)
        self.write_spec()

    def write_spec(self) -> None:
        """Have the spec say what was asked for."""
        text = yaml.safe_dump(self.asked.spec(), sort_keys=False)
        Path(self.year.world.spec_path).write_text(text)

    def evolve(self) -> None:
        """Bring the tables to the spec, with the options that a person reads off its errors."""
        table, fares = self.year.world.table, self.asked.fares
        renames, drops = list[str](), list[str]()
        known = known_tables(table.registry)
        drops += [name for name in known if name not in table.spec.state]
        columns = self._columns("totals")
        if "longest" in columns and "longest" not in table.spec.state["totals"].columns:
            drops.append("totals.longest")
        if fares not in columns:
            renames += [f"totals.{old}={fares}" for old in _FARES if old in columns]
        evolve(self.year.spark, table, Intent.of(renames, drops))
        left = evolve(self.year.spark, table, Intent.of(renames, drops), dry_run=True)
        if left:
            raise Different(f"evolve has left {left}")
        for folder in (self.year.world.folder / "state").iterdir():
            if folder.name not in table.spec.state:
                shutil.rmtree(folder)

    def _columns(self, name: str) -> list[str]:
        path = self.year.world.table.spec.state[name].path
        return state.schema(self.year.spark, path).fieldNames()

    def taken_back(self, tables: Iterable[str], day: int) -> None:
        """Rows of some tables are those of before the window of a day: what came since comes again.

        Parameters
        ----------
        day : the first window that the tables lack
        """
        asked = self.asked
        if "totals" in tables and asked.longest:
            asked = replace(asked, longest=min(asked.longest, day))
        if asked.third and asked.third[0] in tables:
            asked = replace(asked, third=(asked.third[0], min(asked.third[1], day)))
        asked.write(self.year.folder)

    def forget_one(self, day: int) -> None:
        """Forget one more key, for good: it has no more events either."""
        keys, gone = [f"D{k:03d}" for k in range(KEYS)], self.asked.gone
        # A process that died in the middle of it has noted the key.
        begun = [key for key, at in gone.items() if at == day]
        drawn = self.year.draw(day, "forget").choice([k for k in keys if k not in gone])
        self._forget(begun or [drawn], day)

    def forget_again(self, day: int) -> None:
        """Forget keys whose rows an older version may have brought back."""
        late = [k for k, at in self.asked.gone.items() if at > day - INPUT_DAYS]
        if late:
            self._forget(late, day)

    def _forget(self, keys: list[str], day: int) -> None:
        replace(self.asked, gone=self.asked.gone | dict.fromkeys(keys, day)).write(self.year.folder)
        events = self.year.world.folder / "events"
        for earlier in range(max(0, day - INPUT_DAYS), day + 1):
            if (events / f"{the_day(earlier)}.parquet").exists():
                write_day(events, self.year.seed, earlier, self.asked.gone)
        forget(self.year.spark, self.year.world.table, keys)

    def check_gone(self, day: int) -> None:
        """See that no file has a key that was forgotten longer ago than versions are kept.

        Raises
        ------
        Different : names the file
        """
        gone = [key for key, at in self.asked.gone.items() if at < day - KEEP]
        for file, keys in holding(self.year.world.folder, gone):
            raise Different(f"{file} still has {keys}")
        self.year.happened.extend("keys that no file has any more" for _ in gone)


def holding(folder: Path, keys: Sequence[str]) -> Iterator[tuple[Path, list[str]]]:
    """Yield the files of a table and its registry that hold one of the keys, with these keys."""
    for file in (folder / "state").rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            column = next(c for c in pq.read_schema(file).names if c == "dest" or c[:4] == "col-")
            there = set(pq.read_table(file, columns=[column])[column].to_pylist())
            if found := [key for key in keys if key in there]:
                yield file, found
    for file in (folder / "registry").rglob("*"):
        if file.is_file():
            text = _text_of(file)
            if found := [key for key in keys if key in text]:
                yield file, found


def _text_of(file: Path) -> str:
    """All text of a file of the registry."""
    if file.suffix != ".npz":
        return file.read_text(errors="replace")
    with np.load(file) as arrays:
        texts = [arrays[name] for name in arrays.files if arrays[name].dtype.kind == "U"]
    return " ".join(" ".join(text.ravel().tolist()) for text in texts)
