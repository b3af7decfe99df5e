"""Windows of a backtest: exact loads by rows and by time, from Parquet, CSV and text."""

from __future__ import annotations

import pandas as pd
import pytest

from evenkeel.backtest.scoring import backtest
from evenkeel.backtest.windows import read_series
from partitioning.function.hashing import KeyColumn, key_hash
from tests.support.worlds.word_counts import by_hand, loads


def test_windows_of_rows_are_exact(words, frame):
    series = read_series(words, ["word"], rows=700)
    assert [w.label for w in series.windows] == ["0", "1", "2", "3"]
    assert series.notes == ("the last 200 rows do not fill a window and are left out",)
    for i in range(4):
        assert loads(series, i) == by_hand(frame[700 * i : 700 * (i + 1)])
    assert series.keys == frame.word.nunique()
    assert len(read_series(words, ["word"], rows=500, limit=1200).windows) == 2


def test_windows_of_time_are_exact_and_weighted(words, frame):
    series = read_series(words, ["word"], time="at", every="1d", weight="count")
    assert [w.label for w in series.windows] == ["2024-05-01", "2024-05-02", "2024-05-03"]
    first = frame[frame["at"] < "2024-05-02"]
    assert loads(series, 0) == by_hand(first, "count")
    assert series.windows[0].rows == len(first)
    hours = read_series(words, ["word"], time="at", every="6h")
    assert hours.windows[0].label == "2024-05-01T06:00:00"


def test_order_of_rows_does_not_matter_for_time(words, frame, tmp_path):
    frame.sample(frac=1, random_state=1).to_parquet(tmp_path / "mixed.parquet")
    mixed = read_series(str(tmp_path / "mixed.parquet"), ["word"], time="at", every="7h")
    series = read_series(words, ["word"], time="at", every="7h")
    assert [loads(mixed, i) for i in range(3)] == [loads(series, i) for i in range(3)]


def test_csv_and_text_say_the_same_as_parquet(words, frame, tmp_path):
    frame.to_csv(tmp_path / "words.csv", index=False)
    (tmp_path / "words.txt").write_text("\n".join(frame.word) + "\n")
    expected = read_series(words, ["word"], rows=1000)
    for path, key in (("words.csv", "word"), ("words.txt", "line")):
        series = read_series(str(tmp_path / path), [key], rows=1000)
        assert [loads(series, i) for i in range(3)] == [loads(expected, i) for i in range(3)]
    timed = read_series(str(tmp_path / "words.csv"), ["word"], time="at", every="1d")
    assert [w.label for w in timed.windows] == ["2024-05-01", "2024-05-02", "2024-05-03"]


def test_csv_keys_are_taken_as_written(tmp_path):
    (tmp_path / "k.csv").write_text("a,b\n007,x\n7,x\n,x\n7,NA\n")
    series = read_series(str(tmp_path / "k.csv"), ["a"], rows=1)
    assert series.keys == 2
    assert series.notes == ("rows with a null key, left out: 1",)
    assert read_series(str(tmp_path / "k.csv"), ["a", "b"], rows=1).keys == 3


def test_composite_keys_hash_as_the_function_does(tmp_path):
    frame = pd.DataFrame({"a": [1, 1, 2, 2], "b": ["x", "y", "x", "x"], "c": [1.0, 2.0, None, 4.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    series = read_series(str(tmp_path / "t.parquet"), ["a", "b"], rows=2)
    assert series.key == (KeyColumn("a", "bigint"), KeyColumn("b", "string"))
    assert loads(series, 1) == {int(key_hash([[2], ["x"]], ["bigint", "string"])[0]): 2.0}
    # What pandas makes of whole numbers with gaps is still a whole number.
    series = read_series(str(tmp_path / "t.parquet"), ["c"], rows=1)
    assert series.key == (KeyColumn("c", "bigint"),) and len(series.windows) == 3


def test_an_empty_window_is_reported_and_left_out(tmp_path):
    frame = pd.DataFrame({"k": list("aabb"), "t": pd.to_datetime(["2024-01-01"] * 4)})
    frame.loc[2:, "t"] = pd.Timestamp("2024-01-09")
    frame.to_parquet(tmp_path / "gap.parquet")
    series = read_series(str(tmp_path / "gap.parquet"), ["k"], time="t")
    assert [w.label for w in series.windows] == ["2024-01-01", "2024-01-09"]
    (note,) = series.notes
    assert note.startswith("7 windows have no load and are left out: 2024-01-02, 2024-01-03")
    (score,) = backtest(series, ["uniform"], [1])
    assert (score.window, score.next_window, score.imbalance) == ("2024-01-01", "2024-01-09", 1.0)
    # A second is no reason to count through ten years of them.
    frame.loc[2:, "t"] = pd.Timestamp("2034-01-09")
    frame.to_parquet(tmp_path / "gap.parquet")
    series = read_series(str(tmp_path / "gap.parquet"), ["k"], time="t", every="1s")
    assert len(series.windows) == 2 and len(series.notes[0]) < 300


@pytest.mark.parametrize(
    ("days", "told"),
    [
        (["01T09", "01T20", "02T10", "02T19", "03T00"], True),  # cut off on the third day
        (["01T09", "01T20", "02T10", "02T19", "03T13"], False),  # an early evening
        (["01T00", "02T00", "03T00"], False),  # dates without an hour are never silent early
    ],
)
def test_a_last_window_that_seems_cut_off_is_told(tmp_path, days, told):
    """Three rows of a next day made the worst window 5.33 times the mean, not 1.42."""
    at = pd.to_datetime([f"2024-01-{day}:30" for day in days])
    pd.DataFrame({"k": "a", "t": at}).to_parquet(tmp_path / "t.parquet")
    series = read_series(str(tmp_path / "t.parquet"), ["k"], time="t")
    told_of = "the last window, 2024-01-03, has rows in its first 2% alone"
    assert [n.startswith(told_of) for n in series.notes] == [True] * told
    assert series.cut_off is told
