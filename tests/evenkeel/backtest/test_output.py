"""What a backtest prints, and its page with charts."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys

import pytest

from evenkeel.backtest.page import write_page
from evenkeel.backtest.scoring import Score, backtest
from evenkeel.backtest.windows import read_series
from partitioning.errors import InputError


def test_the_console_answers_in_lines_and_in_a_table(words):
    command = [sys.executable, "-c", "from evenkeel.cli import main; main()", "backtest", words]
    command += ["--key", "word", "--rows", "700", "--channels", "3,4", "--strategy", "scan,uniform"]
    answer = subprocess.run(
        [*command, "--format", "jsonl"], capture_output=True, text=True, timeout=60, check=True
    )
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert len(lines) == 3 * 2 * 2
    assert {line["strategy"] for line in lines} == {"scan", "uniform"}
    assert set(lines[0]) == set(Score.__dataclass_fields__)
    assert answer.stderr == "evenkeel: the last 200 rows do not fill a window and are left out\n"
    table = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "imbalance" in table.stdout and table.stdout.count("uniform") == 2
    assert table.stderr == answer.stderr, "no bar where no terminal is"


def test_on_a_terminal_a_bar_goes_ahead_of_the_table_and_the_page_is_written(words, tmp_path):
    """The real command on a pseudo-terminal."""
    page, (ours, its) = tmp_path / "page.html", pty.openpty()
    command = [sys.executable, "-c", "from evenkeel.cli import main; main()", "backtest", words]
    command += ["--key", "word", "--rows", "700", "--channels", "3", "--strategy", "scan,uniform"]
    with subprocess.Popen(
        [*command, "--html", str(page)], stdout=subprocess.PIPE, stderr=its, text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as running:  # fmt: skip
        os.close(its)
        shown = ""
        # The end of a pseudo-terminal is an error.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                shown += part.decode(errors="replace")
        table = running.communicate(timeout=60)[0]
    os.close(ours)
    assert running.returncode == 0 and table.count("uniform") == 1
    assert "uniform, 3 channels" in shown and "100%" in shown
    assert page.read_text().count("<svg") == 2 * 2


def test_the_console_passes_a_gap_over_and_refuses_what_cannot_be(tmp_path):
    """The real command: a gap is told on stderr, bad input is one line and exit 2."""
    path, at = tmp_path / "gap.csv", ["01", "01", "02", "09", "09", "10"]
    path.write_text("k,w,t\n" + "".join(f"k{i % 2},1,2024-01-{d}\n" for i, d in enumerate(at)))
    weights = tmp_path / "weights.csv"
    weights.write_text("k,w,t\na,inf,2024-01-01\nb,1,2024-01-02\n")
    command = [sys.executable, "-c", "from evenkeel.cli import main; main()", "backtest"]

    def run(file, *more):
        arguments = [str(file), "--key", "k", "--time", "t", "--channels", "2", *more]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60)

    answer = run(path, "--format", "jsonl")
    windows = [json.loads(line)["window"] for line in answer.stdout.splitlines()]
    assert (answer.returncode, windows) == (0, ["2024-01-01", "2024-01-02", "2024-01-09"])
    assert answer.stderr.startswith("evenkeel: 6 windows have no load and are left out: 2024-01")
    answer = run(weights, "--weight", "w")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1, "one line, no traceback"
    assert "1 weights are null, negative or not finite; the first is inf" in answer.stderr


def test_the_page_shows_every_strategy_and_is_whole(words, tmp_path):
    series = read_series(words, ["word"], rows=700)
    scores = list(backtest(series, ["uniform", "clb", "frontier"], [1, 5]))
    write_page(str(tmp_path / "page.html"), scores, "Strategies on <b>words</b>")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 2 * 2 * 2
    assert "&lt;b&gt;words" in page and "<b>words" not in page
    assert "http" not in page.replace("http://www.w3.org", "")
    for name in ("uniform", "clb", "frontier"):
        assert page.count(f">{name}</text>") == 8 and page.count(f"<td>{name}</td>") == 2
    with pytest.raises(InputError, match="cannot be written"):
        write_page(str(tmp_path), scores, "a folder")
