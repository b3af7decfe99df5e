"""The table of results in docs/COMPATIBILITY.md: one column a cell, read back and merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.matrix.cells import GROUPS

#: Lines of the page between which the table stands.
BEGIN, END = "<!-- make matrix -->", "<!-- end of make matrix -->"
VERSIONS = ["Python", "Spark", "Delta", "Airflow"]
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
    head = [" ", *(", ".join(f"{k} {v}" for k, v in r.versions.items()) for r in results)]
    rows = [[group, *(r.outcomes[group] for r in results)] for group in GROUPS]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def results_of(page: str) -> list[Result]:
    """Read the results back from the page; a group that the page does not have was not run."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()
    ]
    results = []
    for column, named in enumerate(lines[0] if lines else []):
        if column:
            versions = dict(version.split() for version in named.split(", "))
            found = {row[0]: row[column] for row in lines[2:]}
            outcomes = {group: found.get(group, NOT_RUN) for group in GROUPS}
            results.append(Result(versions, outcomes, passed=True))
    return results


def with_results(page: str, results: Sequence[Result]) -> str:
    """Return the page with the new results in the place of older ones of the same cells.

    A group that did not run now keeps its older outcome, if all versions are the same.
    """
    found = {result.series: result for result in results_of(page)}
    for new in results:
        old = found.get(new.series)
        if old is not None and old.versions == new.versions:
            kept = {g: old.outcomes[g] if o == NOT_RUN else o for g, o in new.outcomes.items()}
            new = Result(new.versions, kept, new.passed)
        found[new.series] = new
    before, _, rest = page.partition(BEGIN)
    table = table_of([found[series] for series in sorted(found, key=_order)])
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def _order(series: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, version.split("."))) for version in series)
