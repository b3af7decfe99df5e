"""Figures that other pages take from the benchmarks are those of the pages they link to."""

import re

import numpy as np
import pytest

from tests.support.docs.figures import Place, only, row
from tests.support.docs.readme import ROOT, TEXT

NUMBER = r"(?P<result>\d+\.\d+)"
#: A second figure of the same place.
OTHER = r"(?P<other>\d+\.\d+)"
COST, RIVALS = "docs/explanation/cost.md", "docs/explanation/comparison.md"
JOB = r"the same at Zipf 0.9 by rivals \(2\): rows"
JOIN = "a join to one row a key, Zipf 1.5"
ICEBERG_TIME = "the same: time over that by `bucket"
#: Page, its words around one or two figures -> the place that has them.
CITED = {
    (COST, rf"\[{NUMBER}\]\(\S+\) of a full rewrite at 5 million"): row(
        "moving", "migrate, 5M rows, 10% of slots", NUMBER
    ),
    (COST, rf"rows, and {NUMBER} at 20 million"): row(
        "moving", "migrate, 20M rows of 2 GB, 10% of slots", NUMBER
    ),
    (COST, rf"a hundredth of the slots it is {NUMBER} and"): row(
        "moving", "5M rows, 1% of slots", NUMBER
    ),
    (COST, rf"a hundredth of the slots it is [\d.]+ and {NUMBER}"): row(
        "moving", "20M rows, 1% of slots: UPDATE", NUMBER
    ),
    (COST, rf"bytes written for a byte moved \| \[{NUMBER}\]"): row(
        "moving", "migrate, 10% of slots: bytes", NUMBER
    ),
    (COST, rf"\[{NUMBER} times\]\(\S+\) with 500 pinned keys"): row(
        "routing", r"routing by 4,096 slots .* string keys", rf"\*\*missed\*\*: {NUMBER}"
    ),
    (COST, rf"\[{NUMBER} times\]\(\S+\) an append"): row("moving", "append of 5M rows", NUMBER),
    (COST, rf"\[{NUMBER} to {OTHER} times\]\(\S+\) the plain read"): row(
        "routing", "the same, 1 or 20 keys split", rf"{NUMBER} to {OTHER} "
    ),
    ("docs/SPLITTING.md", rf"This took {NUMBER} to {OTHER} times as long"): row(
        "routing", "the same, 1 or 20 keys split", rf"{NUMBER} to {OTHER} "
    ),
    (COST, rf"part of a run \| \[{NUMBER} s\]"): row("airflow", "Airflow's part of a run", NUMBER),
    ("docs/explanation/limits.md", rf"Airflow's own took \[{NUMBER} s\]"): row(
        "airflow", "Airflow's part of a run", NUMBER
    ),
    (RIVALS, rf"reads {NUMBER} times the mean of rows by hash, and {OTHER} times with"): row(
        "skew", JOIN, rf"{NUMBER} by hash, {OTHER} by adaptive execution"
    ),
    (RIVALS, rf"has {NUMBER} with whole keys, and {OTHER} with split"): row(
        "skew", JOIN, rf".* {NUMBER} by ours with whole keys, {OTHER} by ours with split"
    ),
    (RIVALS, rf"{NUMBER} times the mean of rows with adaptive execution, {OTHER} with"): row(
        "skew", JOB, rf"[^|]*, {OTHER} by `repartition\(16, key\)`, {NUMBER} by adaptive"
    ),
    (RIVALS, rf"`repartition\(16, key\)`, and {NUMBER} with Evenkeel"): row(
        "skew", "a stateful job over 1M keys, Zipf 0.9, 16 channels: rows", NUMBER
    ),
    (RIVALS, rf"{OTHER} times the mean of rows by `bucket.*?`, and {NUMBER} with Evenkeel"): row(
        "skew", "the same: rows, slowest task over mean", rf"{NUMBER}; {OTHER} by `bucket"
    ),
    (RIVALS, rf"takes {NUMBER} of the time, and on an idle machine {OTHER}"): row(
        "skew", ICEBERG_TIME, rf"{NUMBER} [^|]*; {OTHER} in one pair on an idle"
    ),
    (RIVALS, rf"took {NUMBER} of the time of `OPTIMIZE \.\.\. ZORDER`"): Place(
        "moving",
        r"migrate, 5M rows, 10% of slots[^\n]*\n"
        rf"\| the same, over `OPTIMIZE \.\.\. ZORDER` \| [^|]* \| {NUMBER} ",
    ),
    (RIVALS, rf"fullest of 10 channels {NUMBER} to {OTHER} times the mean"): Place(
        "../../README", rf"hashing gives one task {NUMBER} to {OTHER} times"
    ),
    ("README.md", rf"has {NUMBER} times the mean of rows, where plain hashing has {OTHER} "): Place(
        "skew",
        r"16 channels: rows, slowest task over mean \(1\) \| [^|]* "
        rf"\| {NUMBER} (?s:.*)\| {JOB} \| none \| [^|]* {OTHER} by `repartition",
    ),
}
#: Figures of an example, of the table that is worked out below, and the release of a page.
OWN = {COST: {"1.75", "1.05", "3.4", "1.8", "0.66"}, RIVALS: {"3.3"}}


def words_of(page: str) -> str:
    """Return the text of a page, without its line ends."""
    return " ".join((ROOT / page).read_text().split())


@pytest.mark.parametrize(("page", "words"), CITED)
def test_a_figure_is_that_of_its_place(page: str, words: str) -> None:
    (cited,) = re.finditer(words, words_of(page))
    place = only(CITED[page, words]).groupdict()
    assert cited.groupdict().items() <= place.items()


@pytest.mark.parametrize("page", OWN)
def test_no_figure_of_these_pages_is_without_a_place(page: str) -> None:
    text = words_of(page)
    held = {
        found.span(group)
        for cited, words in CITED
        if cited == page
        for found in re.finditer(words, text)
        for group in found.groupdict()
    }
    # In the text that a link shows, too; not in its address.
    bare = re.sub(r"\]\([^)]*\)", lambda link: "]" + " " * (len(link[0]) - 1), text)
    rest = {found for found in re.finditer(r"\d+\.\d+", bare) if found.span() not in held}
    assert {found[0] for found in rest} == OWN[page]


def test_the_whole_runs_of_the_page_of_costs_are_those_of_the_operations() -> None:
    line = re.compile(r"^\| (\d+M) \| [\d,MK]+ \| (.*) \|$", re.M)
    seconds = {
        rows: [int(s) for s in re.findall(r"(\d+) s,", cells)]
        for rows, cells in line.findall((ROOT / "docs/OPERATIONS.md").read_text())
    }
    assert list(seconds) == ["1M", "10M", "100M"]
    told = {
        rows: (int(bootstrap), [int(s) for s in steps.split(", ")], int(whole), over)
        for rows, bootstrap, steps, whole, over in re.findall(
            r"^\| (\d+M) \| (\d+) \| ([\d, ]+) \| (\d+) \| ([\d.]+) \|$",
            (ROOT / COST).read_text(),
            re.M,
        )
    }
    assert told == {
        rows: (bootstrap, steps, sum(steps), f"{sum(steps) / bootstrap:.2g}")
        for rows, (bootstrap, *steps) in seconds.items()
    }
    # The rule: two thirds for a large table, a few times for a small one.
    shares = [float(over) for *_, over in told.values()]
    assert 2 < shares[0] < 4 and abs(shares[-1] - 2 / 3) < 0.02


def test_the_first_screen_of_the_readme_rounds_what_make_run_printed() -> None:
    rows = [
        [float(cell.strip("%")) for cell in re.findall(r"(?<= )\d+\.\d+%?", line)]
        for line in TEXT.split("flights: imbalance")[1].split("report:")[0].splitlines()[2:]
    ]
    assert len(rows) == 3
    hashing, moved = [cells[0] for cells in rows], [cells[-2] for cells in rows]
    first = TEXT.split("![Rows of the slowest")[0]
    assert f"{min(hashing):.2f} to {max(hashing):.2f} times the work of the mean" in first
    told = " ".join(first.split("**Result.**")[1].split())
    unseen = max(cells[4] for cells in rows[:-1])
    after = f"it is {rows[0][2]:.2f} on the days learned and {unseen:.2f} on the next ones"
    assert f"{after}, in place of {hashing[0]:.2f} (`make run`)" in told
    later = sum(moved[1:]) / 2
    assert f"{moved[0]:.0f}% of the state moved at first, then about {later:.0f}% a month" in told


def test_the_page_of_unseen_windows_counts_the_rows_of_its_table() -> None:
    text = (ROOT / "docs/benchmarks/unseen.md").read_text()
    words = " ".join(text.split())
    rows = [line.split(" | ") for line in re.findall(r"^\| .+, N = \d+, .*", text, re.M)][:43]
    halves = {h: [r for r in rows if r[0].endswith(h)] for h in ("choice", "report")}
    kept, told, moves_less = [], [], 0
    for of_half in halves.values():
        less = [tuple(map(float, re.findall(r"[+-]?\d\.\d{4}", r[2])[:2])) for r in of_half]
        # The last cell names the rivals that the planner is above by more than one error.
        kept.append(sum(not r[-1].strip(" |") for r in of_half))
        higher = sum("reference" in r[-1] for r in of_half)
        lower = sum(mean < -error for mean, error in less)
        told.append((lower, len(of_half) - lower - higher, higher))
        moves_less += sum(
            float(r[1].split()[-1][:-1]) < float(r[2].split()[-1][:-1]) for r in of_half
        )
    choices, others = map(len, halves.values())
    assert f"the rule on {sum(kept)} of 43 rows (**missed** on {43 - sum(kept)})" in words
    assert f"{kept[0]} of {choices} for choices, and {kept[1]} of {others} that are" in words
    counted = "on {} rows for choices, level on {} and higher on {}. ".format(*told[0])
    assert (
        counted
        + "In the other half it is lower on {}, level on {} and higher on {}.".format(*told[1])
        in words
    )
    assert f"It moves less than the reference on {moves_less} of the 43 rows" in words
    hardest = [r for r in halves["report"] if "tailnum, day, N = 20" in r[0]]
    without = np.array([float(r[2].split()[0]) for r in halves["report"] if r not in hardest])
    error = without.std(ddof=1) / np.sqrt(len(without))
    assert f"Without it, it is {without.mean():+.4f} ±{error:.4f}." in words
