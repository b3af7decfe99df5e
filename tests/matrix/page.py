"""The table of results in docs/COMPATIBILITY.md: one row a cell, read back and merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.matrix.cells import GROUPS

#: Lines of the page between which the table stands.
BEGIN, END = "<!-- make matrix -->", "<!-- end of make matrix -->"
VERSIONS = ["Python", "Spark", "Delta", "Airflow"]
HEAD = [*VERSIONS, *GROUPS]
NOT_RUN = "not run"


@dataclass(frozen=True)
class Result:
    """What one cell is made of, and what came of each group."""

    versions: dict[str, str]
    outcomes: dict[str, str]
    passed: bool

    @property
    def series(self) -> tuple[str, ...]:
        """Return what names its cell: the series of Python, Spark and Airflow."""
        named = (self.versions[name] for name in ("Python", "Spark", "Airflow"))
        return tuple(".".join(version.split(".")[:2]) for version in named)


def table_of(results: Sequence[Result]) -> str:
    """Return the results as a table in Markdown."""
    rows = [[*r.versions.values(), *r.outcomes.values()] for r in results]
    lines = [HEAD, ["---"] * len(HEAD), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def results_of(page: str) -> list[Result]:
    """Read the results back from the page."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in table.strip().splitlines()[2:]
    ]
    split = len(VERSIONS)
    return [
        Result(
            dict(zip(VERSIONS, row[:split], strict=True)),
            dict(zip(GROUPS, row[split : len(HEAD)], strict=True)),
            passed=True,
        )
        for row in rows
    ]


def with_results(page: str, results: Sequence[Result]) -> str:
    """Return the page with the new results in the place of older ones of the same cells.

    A group that did not run now keeps its older outcome, if all versions are the same.
    """
    rows = {result.series: result for result in results_of(page)}
    for new in results:
        old = rows.get(new.series)
        if old is not None and old.versions == new.versions:
            kept = {g: old.outcomes[g] if o == NOT_RUN else o for g, o in new.outcomes.items()}
            new = Result(new.versions, kept, new.passed)
        rows[new.series] = new
    before, _, rest = page.partition(BEGIN)
    table = table_of([rows[series] for series in sorted(rows, key=_order)])
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def _order(series: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, version.split("."))) for version in series)
