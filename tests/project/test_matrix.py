"""The matrix of versions: its table keeps other cells, and a group over its time ends alone."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from evenkeel import extras
from tests.matrix import __main__ as matrix
from tests.matrix.cells import CELLS, GROUPS
from tests.matrix.page import BEGIN, END, NOT_RUN, Result, results_of, with_results


def result(spark: str, migrate: str, dags: str = NOT_RUN) -> Result:
    versions = {"Python": "3.11.7", "Spark": spark, "Delta": "4.4.0", "Airflow": "3.1.8"}
    outcomes = dict.fromkeys(GROUPS, NOT_RUN) | {"migrate": migrate, "DAGs": dags}
    return Result(versions, outcomes, True)


def outcomes(page: str) -> list[tuple[str, str]]:
    return [(r.outcomes["migrate"], r.outcomes["DAGs"]) for r in results_of(page)]


EMPTY = f"before\n{BEGIN}\n{END}\nafter\n"


def test_a_cell_that_runs_again_leaves_the_columns_of_the_others() -> None:
    page = with_results(EMPTY, [result("4.2.0", "7 passed"), result("4.0.4", "5 passed")])
    page = with_results(page, [result("4.0.4", "6 passed")])
    assert page.startswith("before\n") and page.endswith("\nafter\n")
    assert [(r.versions["Spark"], r.outcomes["migrate"]) for r in results_of(page)] == [
        ("4.0.4", "6 passed"), ("4.2.0", "7 passed"),
    ]  # fmt: skip


def test_one_group_alone_keeps_the_other_unless_a_version_has_changed() -> None:
    page = with_results(EMPTY, [result("4.0.4", "5 passed", "3 passed")])
    assert outcomes(with_results(page, [result("4.0.4", "6 passed")])) == [("6 passed", "3 passed")]
    assert outcomes(with_results(page, [result("4.0.5", "6 passed")])) == [("6 passed", NOT_RUN)]


def test_an_outcome_names_its_day_and_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d, [0-9a-f]{7,}\+?", matrix.stamp())
    # Without a repository the day alone.
    monkeypatch.setattr(matrix, "ROOT", tmp_path)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", matrix.stamp())


def test_a_group_that_the_page_does_not_have_was_not_run() -> None:
    page = with_results(EMPTY, [result("4.0.4", "5 passed", "3 passed")])
    without = "".join(line for line in page.splitlines(True) if not line.startswith("| DAGs"))
    assert outcomes(without) == [("5 passed", NOT_RUN)]


TESTED = {
    "Python": extras.TESTED_PYTHON,
    "Spark": extras.TESTED_SPARK,
    "Delta": extras.TESTED_DELTA,
    "Airflow": extras.TESTED_AIRFLOW,
}


#: Groups that show that a version works: of Airflow those of its DAGs, of others those of jobs.
STATE = [g for g, files in GROUPS.items() if "evenkeel_spark" in files[0] and "Iceberg" not in g]


#: An outcome in which no test failed, or could not begin.
GREEN = re.compile(r"\d+ passed(, \d+ (skipped|deselected|xfailed|warnings?))*, \d+ s( \(.+\))?")


def ran(column: Result, name: str) -> bool:
    """Whether groups that show it have run in a column, and none of them has failed."""
    shown = [column.outcomes[g] for g in (["DAGs"] if name == "Airflow" else STATE)]
    outcomes = [outcome for outcome in shown if outcome != NOT_RUN]
    return bool(outcomes) and all(map(GREEN.fullmatch, outcomes))


def series(version: str) -> str:
    return ".".join(version.split(".")[:2])


@pytest.mark.parametrize("name", TESTED)
def test_the_versions_that_code_takes_for_tested_are_those_of_the_page(name: str) -> None:
    """And those of the cells, so that a column can be written again."""
    tested = list(TESTED[name])
    columns = [c for c in results_of(matrix.PAGE.read_text()) if ran(c, name)]
    assert sorted({series(column.versions[name]) for column in columns}) == tested
    assert sorted({series(getattr(cell, name.lower())) for cell in CELLS}) == tested


def test_a_column_in_which_nothing_of_it_ran_shows_no_version() -> None:
    (dags,) = results_of(with_results(EMPTY, [result("4.2.0", NOT_RUN, "182 passed, 8 s")]))
    assert (ran(dags, "Spark"), ran(dags, "Airflow")) == (False, True)
    for said in ("1 failed, 6 passed, 9 s", "6 passed, 1 error, 9 s"):
        (failed,) = results_of(with_results(EMPTY, [result("4.2.0", said)]))
        assert not ran(failed, "Spark")


def test_each_group_has_a_row() -> None:
    table = matrix.PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert re.findall(r"^\| ([^|]*\w) \|", table, re.M) == list(GROUPS)


def test_the_page_says_in_words_what_its_table_has() -> None:
    page = matrix.PAGE.read_text()
    assert f"Python {TESTED['Python'][0]} to {TESTED['Python'][-1]} " in page
    lock = (matrix.ROOT / "requirements.lock").read_text()
    spark, delta, airflow = (
        re.findall(rf"^{name}==([\d.]+)", lock, re.M)[0]
        for name in ("pyspark", "delta-spark", "apache-airflow")
    )
    assert f"A checkout installs Spark {spark}, Delta {delta} and Airflow {airflow}," in page


def test_every_file_that_a_group_names_is_there() -> None:
    named = [matrix.ROOT / file for files in GROUPS.values() for file in files]
    assert named and [file for file in named if not file.is_file()] == []


def cell(folder: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """Make a cell whose group `migrate` is one file."""
    program = folder / ".venv/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setitem(matrix.GROUPS, "migrate", [file])


def test_what_is_printed_after_the_summary_is_not_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell(tmp_path, monkeypatch, "test_short.py")
    (tmp_path / "test_short.py").write_text(
        "import atexit\n\n\ndef test_short():\n    atexit.register(print, 'later')\n"
    )
    assert matrix.pytest(tmp_path, "migrate") == (0, "1 passed")


def test_a_group_over_its_time_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell(tmp_path, monkeypatch, "test_long.py")
    (tmp_path / "test_long.py").write_text(
        "import subprocess, time\n\n\ndef test_long():\n"
        "    code = \"import time; time.sleep(9); open('late', 'w')\"\n"
        "    subprocess.Popen(['python3', '-c', code])\n"
        "    open('started', 'w').close()\n    time.sleep(60)\n"
    )
    code, said = matrix.pytest(tmp_path, "migrate", longest=6)
    assert (code, said) == (1, "ended after 6 s")
    assert (tmp_path / "started").exists(), (tmp_path / "migrate.log").read_text()
    time.sleep(9)
    assert not (tmp_path / "late").exists()
