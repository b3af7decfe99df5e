"""Several runs of one benchmark: the median of each printed ratio, and its spread."""

from pathlib import Path

import pytest

from benchmarks import __main__ as running

SCRIPT = """
from pathlib import Path
count = Path(__file__).with_name("count")
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
print(f"ours, 5 rows: 1.0 s; theirs: 2.0 s; ratio {number / 2:.3f} (of 3: 0.1 to 9.0)")
print("no ratio here")
raise SystemExit(number == 2)
"""


def test_the_spread_of_runs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "made_up.py").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(running, "module_of", lambda name: name)
    # The second run has failed.
    assert running.run("made_up", 3) == 1
    said = capsys.readouterr().out
    assert said.count("== made_up") == 3 and said.count("no ratio here") == 3
    assert said.endswith("ours, 5 rows: median of 3 runs 1.000 (0.500 to 1.500)\n")


def test_one_run_has_no_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "made_up.py").write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(running, "module_of", lambda name: name)
    assert running.run("made_up", 1) == 0
    assert "median" not in capsys.readouterr().out
