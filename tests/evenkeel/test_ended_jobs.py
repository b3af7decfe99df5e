"""A job whose process a signal ends: it leaves no line of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.submit import submit


@pytest.mark.parametrize(
    ("ends", "code", "told"),
    [("kill -KILL $$", 137, True), ("exit 137", 137, True), ("exit 130", 130, False)],
)
def test_a_job_that_a_signal_ends_leaves_a_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ends: str,
    code: int,
    told: bool,
) -> None:
    """Spark's launcher, or the Python below it, whose end is a code of the launcher."""
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{ends}\n")
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("EVENKEEL_SPARK", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert submit("learn", [], {}) == code
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == told
    if told:
        assert "the job learn was ended from outside (Killed)" in lines[0]
