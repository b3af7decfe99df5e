"""The year of one table: its folder and seed, its Spark session, and what went wrong on purpose."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tests.conftest import World

#: A step of a day: its name in the diary, and what it does.
Step = tuple[str, Callable[[], None]]


class Different(AssertionError):
    """State is not what a fold of all events gives, or a job failed for no reason."""


@dataclass
class Year:
    """The table of one seed, and the Spark session that its jobs use.

    Parameters
    ----------
    folder : of the table, the diary and the backup
    killed : an earlier process was killed on the day that is played
    refused : errors that something done to the table explains
    happened : effects that commits and epochs do not tell
    """

    folder: Path
    seed: int
    spark: SparkSession
    killed: bool = False
    refused: list[str] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)

    @property
    def world(self) -> World:
        """The table with its registry."""
        return World(self.folder / "table")

    def draw(self, day: int, what: str) -> random.Random:
        """Return the random numbers of one event of a day."""
        return random.Random(f"{self.seed} {day} {what}")

    def chance(self, day: int, what: str, every: int) -> bool:
        """Return whether it happens on this day: once in so many days, in the mean."""
        return self.draw(day, what).random() < 1 / every
