"""What a run of many cases keeps in a folder, so that a later one goes on where it was ended."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partitioning.errors import InputError
from tests.chaos.cases import Case, Flow, Points, Stage
from tests.conftest import World


@dataclass(frozen=True)
class Kept:
    """A folder with the rehearsed stages, and a line for each case that has ended well.

    Parameters
    ----------
    asked : format, number of cases, seed and steps, by which cases have their numbers
    """

    folder: Path
    asked: tuple[Any, ...]

    def rehearsed(self) -> tuple[dict[Stage, World], Points] | None:
        """Return what an earlier run has rehearsed; None: it had not done so to the end.

        Raises
        ------
        InputError : it was asked for other cases
        """
        if not self._rehearsed.exists():
            return None
        found: Any = json.loads(self._rehearsed.read_text())
        if found["asked"] != [*self.asked]:
            raise InputError(
                f"has cases of {found['asked']}, expected {[*self.asked]}",
                str(self.folder),
                "Give another folder, or the options that it was made with",
            )
        stages = {(table, stage): World(Path(folder)) for table, stage, folder in found["stages"]}
        points: dict[Flow, list[str]] = {(t, g, p): seen for t, g, p, seen in found["points"]}
        return stages, points

    def keep(self, stages: dict[Stage, World], points: Points) -> None:
        """Keep what is rehearsed."""
        listed = [[*stage, str(world.folder)] for stage, world in stages.items()]
        seen = [[*flow, labels] for flow, labels in points.items()]
        found = {"asked": [*self.asked], "stages": listed, "points": seen}
        self._rehearsed.write_text(json.dumps(found))

    def well(self, case: Case, met: bool) -> None:
        """Note a case that has ended well, and whether it has met its fault."""
        with self._done.open("a") as file:
            file.write(json.dumps([case.number, case.kind, met]) + "\n")

    def done(self) -> dict[int, tuple[str, bool]]:
        """Return kind, and whether the fault was met, of each case that has ended well."""
        if not self._done.exists():
            return {}
        lines = map(json.loads, self._done.read_text().splitlines())
        return {number: (kind, met) for number, kind, met in lines}

    def told(self) -> str:
        """Say how many cases have ended well so far."""
        done = self.done().values()
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(Counter(k for k, _ in done).items()))
        late = sum(not met for _, met in done)
        return f"{len(done)} cases have ended well in all runs ({kinds}); {late} were over before"

    @property
    def _rehearsed(self) -> Path:
        return self.folder / "rehearsed.json"

    @property
    def _done(self) -> Path:
        return self.folder / "done.jsonl"
