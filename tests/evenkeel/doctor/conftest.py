"""A program that stands for the `airflow` command."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.doctor import airflow_setup


@pytest.fixture
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stands for the airflow command; each test writes what it says."""
    program = tmp_path / "airflow"
    program.touch(0o755)
    monkeypatch.setattr(airflow_setup, "airflow_program", lambda: str(program))
    return program


def answers(program: Path, text: str, code: int = 0) -> None:
    stream = 2 if code else 1
    program.write_text(f"#!/bin/sh\ncat >&{stream} <<'END'\n{text}\nEND\nexit {code}\n")
