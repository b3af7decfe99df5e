"""Wrong input of a backtest: one clear error each, before anything is read where that can be."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from evenkeel.backtest.arguments import parse_channels
from evenkeel.backtest.inputs import microseconds
from evenkeel.backtest.scoring import check_inputs
from evenkeel.backtest.windows import read_series
from partitioning.errors import InputError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--key", "nope"], "no column 'nope'. Columns found: word, count, at"),
        (["--weight", "nope"], "no column 'nope'"),
        (["--weight", "word"], "weights must be numbers, got type string"),
        (["--weight", "delta"], "negative or not finite; the first is -1"),
        (["--time", "count"], "times must be dates, timestamps or ISO text"),
        (["--rows", "0"], "rows: must be at least 1, got 0"),
        (["--rows", "99999"], "0 windows of 99,999 rows have load, in "),
        (["--limit", "0"], "limit: must be at least 1, got 0"),
        (["--rows", ""], "need either --rows or --time"),
        (["--rows", "9" * 20], "0 windows of "),
        (["--every", "soon", "--time", "at"], "must be a number and s, m, h, d or w, got 'soon'"),
        (["--every", "\u0661d", "--time", "at"], "must be a number and s, m, h, d or w"),
        (["--every", "1d", "--rows", "5"], "goes with --time, got --rows"),
        (["--time", "far"], "outside of the years 1 to 9999"),
        (["--weight", "huge"], "a weight of 1e+308 is out of range"),
        (["--weight", "tiny"], "is out of range"),
        (["--channels", "0"], "channels must be at least 1, got 0"),
        (["--channels", "ten"], "must be whole numbers, got 'ten'"),
        (["--channels", "5,--5"], "must be whole numbers, got '5,--5'"),
        (["--channels", "5,9999"], "9999 channels for"),
        (["--strategy", "best"], "no strategy 'best'. Allowed: uniform, "),
        (
            ["--option", "frontier.speed=1"],
            "no option 'speed'. It has: max_imbalance",
        ),
        (["--option", "frontier.budget=much"], "frontier.budget cannot be 'much'"),
        (["--option", "frontier.excluded=a1"], "frontier.excluded cannot be 'a1'"),
        (["--option", "frontier.budget=Infinity"], "frontier.budget cannot be inf"),
        (["--option", "frontier.budget=" + "9" * 400], "frontier.budget cannot be 999"),
        (["--option", "scan.sigma=1"], "strategy 'scan' is not in --strategy"),
        (["--option", "sigma"], "must be NAME.k=v"),
        (["--html", "/nowhere/page.html"], "the folder of this file does not exist"),
        (["--html", "/"], "/: must be a file, found a folder"),
        (["--strategy", "scan", "--option", "scan.sigma=7"], "strategy scan, sigma: expected"),
    ],
)
def test_bad_input_is_one_clear_error(frame, tmp_path, arguments, message, capsys, monkeypatch):
    path = tmp_path / "words.parquet"
    far = np.full(len(frame), "20000-01-01", dtype="datetime64[ms]")
    frame.assign(delta=-1, huge=1e308, tiny=1e-320, far=far).to_parquet(path)
    given = {"--key": "word", "--channels": "3", "--rows": "1000"}
    given |= dict(zip(arguments[::2], arguments[1::2], strict=True))
    if "--time" in given or not given["--rows"]:
        del given["--rows"]
    fails(monkeypatch, capsys, [str(path), *(a for pair in given.items() for a in pair)], message)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("latin.txt", "one\ntwo\nna\xefve\n".encode("latin-1"), "line 3 is not UTF-8"),
        ("latin.csv", "line\none\nna\xefve\n".encode("latin-1"), "cannot be read"),
        ("torn.parquet", b"PAR1 and no more", "cannot be read"),
        ("empty.txt", b"", "0 windows of 1 rows have load"),
        ("empty.csv", b"", "cannot be read"),
        ("head.csv", b"line\n", "0 windows of 1 rows have load"),
        ("ragged.csv", b"line,b\na,b\nc\n", "cannot be read"),
    ],
)
def test_bad_files_are_one_clear_error(tmp_path, name, content, message, capsys, monkeypatch):
    (tmp_path / name).write_bytes(content)
    arguments = [str(tmp_path / name), "--key", "line", "--rows", "1", "--channels", "1"]
    fails(monkeypatch, capsys, arguments, message)
    arguments[0] = str(tmp_path / "missing") + name
    fails(monkeypatch, capsys, arguments, "there is no such file")
    # Before its columns are looked for.
    arguments[2] = "nope"
    fails(monkeypatch, capsys, arguments, "there is no such file")


def test_a_delta_table_is_not_read_as_its_files(frame, tmp_path, capsys, monkeypatch):
    (tmp_path / "table/_delta_log").mkdir(parents=True)
    frame.to_parquet(tmp_path / "table/part-0.parquet")
    asked = [str(tmp_path / "table"), "--key", "word", "--rows", "1000", "--channels", "3"]
    fails(monkeypatch, capsys, asked, "expected Parquet files, found a Delta table")


def fails(monkeypatch, capsys, arguments, message) -> None:
    from evenkeel.cli import main

    monkeypatch.setattr(sys, "argv", ["evenkeel", "backtest", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    told = capsys.readouterr()
    assert stop.value.code == 2 and told.out == ""
    assert message in told.err and told.err.count("\n") == 1


@pytest.mark.parametrize("kind", ["double", "bool", "timestamp", "list"])
def test_columns_that_cannot_be_keys_are_refused(tmp_path, kind):
    values = {
        "double": [1.5, 2.0],
        "bool": [True, False],
        "timestamp": pd.to_datetime(["2024-01-01"] * 2),
        "list": [[1], [2]],
    }
    pd.DataFrame({"k": values[kind]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="key"):
        read_series(str(tmp_path / "t.parquet"), ["k"], rows=1)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -0.5])
def test_weights_must_be_finite_and_not_negative(tmp_path, value):
    pd.DataFrame({"k": list("abc"), "w": [1.0, value, 2.0]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="1 weights are null, negative or not finite"):
        read_series(str(tmp_path / "t.parquet"), ["k"], rows=1, weight="w")


def test_times_that_no_microsecond_counts_are_refused():
    far = pa.chunked_array([pa.array([10**13], pa.timestamp("s"))])
    with pytest.raises(InputError, match="outside of the years 1 to 9999"):
        microseconds(far, "at")


def test_what_needs_no_data_is_checked_before_reading(capsys, monkeypatch):
    arguments = ["nowhere.parquet", "--key", "k", "--rows", "1", "--channels", "0"]
    fails(monkeypatch, capsys, arguments, "channels must be at least 1, got 0")
    assert parse_channels("5, 10,5") == [5, 10]
    check_inputs(["uniform"], [1], {})
