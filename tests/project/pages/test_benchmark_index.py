"""The index of the benchmarks says what its pages say, and leaves no missed target out."""

import re
from collections.abc import Iterator

import pytest

from tests.support.docs.figures import FOLDER, Place, only, row
from tests.support.wheel import ROOT

MISSED = "**missed**"
NUMBER = r"(?P<result>[\d.]+%?)"
LOST = rf"\*\*missed\*\*: {NUMBER}"


def fire(label: str, batches: int, result: str = LOST) -> Place:
    """Return the place in the table of a writer that does not stop."""
    return row("moving", label, (r"[^|\n]* \| " if batches == 1 else "") + result)


WHERE_WE_LOSE = {
    "routing a row, string keys, over a plain hash": row(
        "routing", r"routing by 4,096 slots .* string keys", LOST
    ),
    "routing a row, bigint keys, over a plain hash": row("routing", "the same, bigint keys", LOST),
    "routing a row beside split keys, the slower, over a plain hash": row(
        "routing", "the same, with 20 split keys", rf"\*\*missed\*\*: [\d.]+ to {NUMBER} "
    ),
    "learning a day, over a plain count by key": row("routing", "learn's two passes", LOST),
    "reading state with split keys, the slowest, over the plain read": row(
        "routing", "the same, 1 or 20 keys split", rf"[\d.]+ to {NUMBER} "
    ),
    "adopting a Delta table, over `CREATE TABLE AS SELECT`": row("moving", "adopt 5M rows", LOST),
    "moving 10% of the slots on Iceberg, over a full rewrite": row(
        "moving", "migrate on Iceberg, 5M rows, 10% of slots", LOST
    ),
    "adopting Iceberg tables, over `CREATE TABLE AS SELECT`": row(
        "skew", "the same: time of adopting", LOST
    ),
    "a join with one hot key, whole keys, over the mean": Place(
        "skew", rf"by hash, (?P<aim>[\d.]+) by adaptive execution, {NUMBER} by ours with whole"
    ),
    "CPU seconds of the slowest task over the mean, beside other work": row(
        "skew", "the same: CPU seconds, slowest task over mean", LOST
    ),
    "a key that turns hot in a stream: seconds of the slowest task over the mean": Place(
        "skew",
        rf"\| the same: rows and seconds from onset on[^\n]* in rows, {NUMBER} in seconds"
        r"(?s:.*?)in rows and (?P<aim>[\d.]+) in seconds\. By hashing",
    ),
    "a join of Iceberg tables, on an idle machine, over `bucket`": row(
        "skew", "the same: time over that by `bucket", rf"[^|\n]*; {NUMBER} in one pair on an idle"
    ),
    "migrate beside a MERGE, one batch (the default), over alone": fire("migrate, beside", 1),
    "migrate beside a MERGE, five batches, over alone": fire("migrate, beside", 5),
    "verify and publish beside a MERGE, one batch, over alone": fire("verify and publish", 1),
    "verify and publish beside a MERGE, five batches, over alone": fire("verify and publish", 5),
    "tries of a MERGE that lost while rows move in five batches": fire(
        "MERGE while rows move: tries", 5
    ),
    "time of a MERGE while rows move in five batches, over idle": fire(
        "MERGE while rows move: median", 5, NUMBER
    ),
    "appends refused while an epoch is verified, one batch": fire("append while the epoch", 1),
    "appends refused while an epoch is verified, five batches": fire("append while the epoch", 5),
    "seconds of `make run`, after set-up": row("airflow", "`make run` after set-up", LOST),
    "seconds of the first rebalance in a Spark that stays up": row(
        "airflow", "a rebalance of flights", LOST
    ),
    "seconds of the DAG processor for a thousand tables": Place(
        "airflow",
        r"\| the same in the DAG processor[^|\n]* \| [\d.]+ s, (?P<aim>[^|\n]*) "
        rf"\| [\d.]+ s, {LOST}",
    ),
    "strategies that have fewer copies of split keys": Place(
        "splitting", rf"\| the same: copies \|.*\*\*missed\*\* beside {NUMBER} of them"
    ),
    "excess of the fullest channel, split keys, row by row": Place(
        "splitting",
        r"under (?P<aim>[^|\n]*) \|.*\n.*\n"
        rf"\| the same, row by row[^|\n]*\|[^|\n]*\| \*\*missed\*\*: [\d.]+ to {NUMBER}",
    ),
    "bytes for an imbalance, over a linear program, at most": row(
        "frontier", "all five problems, least bytes", rf"\*\*missed\*\*: up to {NUMBER}"
    ),
    "rows of real data, of 43, on which a rival is better": Place(
        "unseen", rf"rule on 22 of 43 rows \(\*\*missed\*\* on {NUMBER}\)"
    ),
    "generated streams, of nine, on which a rival is better": Place(
        "unseen", rf"rule on 2 of 9 rows \(\*\*missed\*\* on {NUMBER}\)"
    ),
    "generated weekdays: sum over the last window's": Place(
        "unseen", rf"\| weekdays, N = 10[^|\n]*\|[^|\n]*\|[^|\n]*\| \+{NUMBER} "
    ),
    "cost of `decide` over the least in hindsight, weekdays, the worst of 24 sets": Place(
        "unseen",
        r"forecast\*\* `decide` has at most (?P<aim>[\d.]+) on \d+ sets(?s:.{1,80}?)"
        rf"It is worst on\s+weekdays \({NUMBER}\)",
    ),
    "sets, of 24, on which a stale forecast costs more than twice that least": Place(
        "unseen", rf"`decide` is on {NUMBER} sets \(\*\*missed\*\*\)"
    ),
    "a hot key that moves in each window: imbalance over `mixed`, at most": Place(
        "unseen", rf"\| YCSB latest \| \*\*\+{NUMBER} ±"
    ),
}
IN_SHORT = {
    "rows of the slowest task over the mean": row(
        "skew", "a stateful job over 1M keys, Zipf 0.9, 16 channels: rows", NUMBER
    ),
    "time of the UPDATE that moves 10% of the slots": row(
        "moving", "migrate, 5M rows, 10% of slots", NUMBER
    ),
    "bytes written for a byte moved": row("moving", "migrate, 10% of slots: bytes", NUMBER),
    "faults that lost something": row("moving", "200 faults", rf"{NUMBER} of (?P<base>200) "),
    "CPU seconds to plan": Place(
        "frontier", rf"\| 1M items x 10 channels[^|\n]*\| (?P<base>\d+) s \| {NUMBER} s"
    ),
    "time to learn the newest day of 28": row("routing", "learn's newest day", NUMBER),
}


def index() -> str:
    """Return the text of the index."""
    return (ROOT / "docs" / "BENCHMARKS.md").read_text()


def rows_of(part: str) -> Iterator[list[str]]:
    """Yield the cells of each row of a table, without its head."""
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    for line in lines[1:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def first_number(cell: str) -> str:
    """Return the first number of a cell; "none" without one."""
    found = re.search(r"\d[\d.]*%?", cell)
    return found[0] if found else "none"


def test_each_row_of_the_index_has_the_figures_of_its_place() -> None:
    part = index().split("## In short\n")[1].split("### Where we lose")[0]
    found = {cells[0]: cells[1:] for cells in rows_of(part)}
    assert list(found) == list(IN_SHORT)
    for claim, (result, baseline, *_, command) in found.items():
        match = only(IN_SHORT[claim])
        assert result == match["result"], claim
        assert command in match.string, claim
        if "base" in match.groupdict():
            assert first_number(baseline) == match["base"], claim
    hashing = only(Place("skew", rf"`repartition\(16, key\)` has {NUMBER} in rows and"))
    assert found["rows of the slowest task over the mean"][1] == f"{hashing['result']} by hashing"


def test_each_loss_of_the_index_has_the_figures_of_its_place() -> None:
    part = index().split("### Where we lose\n")[1].split("## The pages")[0]
    found = list(rows_of(part))
    assert [cells[0] for cells in found] == list(WHERE_WE_LOSE)
    for claim, result, aim, link in found:
        place = WHERE_WE_LOSE[claim]
        match = only(place)
        assert result == match["result"], claim
        if "aim" in match.groupdict():
            assert aim == first_number(match["aim"]), claim
        assert re.fullmatch(rf"\[.*\]\(benchmarks/{place.page}\.md(#.*)?\)", link), claim


def test_each_missed_target_of_the_pages_is_among_the_losses() -> None:
    told = set()
    for place in WHERE_WE_LOSE.values():
        match = only(place)
        at = match.string.rfind(MISSED, match.start(), match.start("result"))
        after = match.string.find(MISSED, match.end("result"), match.end())
        told |= {(place.page, spot) for spot in (at, after) if spot >= 0}
    marked = {
        (page.stem, found.start())
        for page in FOLDER.glob("*.md")
        for found in re.finditer(r"\*\*missed\*\*", page.read_text(), re.I)
    }
    assert len(marked) > 15
    assert {
        (page, (FOLDER / f"{page}.md").read_text()[at : at + 60]) for page, at in marked - told
    } == set()


@pytest.mark.parametrize(
    ("pattern", "share", "least"),
    [
        (r"([\d.]+) \(([\d.]+) s over ([\d.]+) s\)", 1, 4),
        (r"([\d.]+)% \((\d+) of (\d+)\)", 100, 6),
    ],
)
def test_quotients_of_the_writers_table_are_right(pattern: str, share: int, least: int) -> None:
    found = re.findall(pattern, (FOLDER / "moving.md").read_text())
    assert len(found) >= least
    for told, above, below in found:
        places = len(told.partition(".")[2])
        assert abs(float(told) - share * float(above) / float(below)) <= 0.51 * 10**-places


def test_a_cell_of_the_index_has_one_number() -> None:
    part = index().split("## In short\n")[1].split("## The pages")[0]
    several = [
        cell
        for cells in rows_of(part)
        # A command and a link have what they need.
        for cell in cells
        if not cell.startswith(("`", "["))
        and len(re.findall(r"(?<![\w.])\d[\d.]*", re.sub(r"`[^`]*`", "", cell))) > 1
    ]
    assert several == []
