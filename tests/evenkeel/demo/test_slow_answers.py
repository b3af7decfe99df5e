"""A slow answer of Airflow on a busy machine ends nothing of `make up`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenkeel.demo.airflow import up
from evenkeel.demo.airflow.client import TIMEOUT, ApiError
from evenkeel.demo.progress import View
from partitioning.errors import InputError


class Busy:
    """An API of which every answer but each third, or each of another number, is too slow."""

    asked = 0
    status = 0
    answers = 3

    def __init__(self, *_: Any) -> None:
        pass

    def _answer(self, value: Any) -> Any:
        Busy.asked += 1
        if Busy.asked % Busy.answers:
            raise ApiError(Busy.status, "timed out", "here")
        return value

    def dags(self) -> list[str]:
        return list(self._answer(["rebalance_words"]))

    def trigger(self, dag: str, **_: Any) -> str:
        return "run"

    def state(self, dag: str, run: str) -> str:
        return str(self._answer("success"))


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr(up, "Api", Busy)
    monkeypatch.setattr(up.time, "sleep", lambda _: None)
    Busy.asked, Busy.status, Busy.answers = 0, 0, 3
    return SimpleNamespace(
        url="http://here", logs=tmp_path, check=lambda: None, waiting_for=lambda: []
    )


def test_waiting_outlives_answers_that_do_not_come(busy: Any) -> None:
    up._wait(busy, ["words"], {"admin": "x"}, View())
    assert Busy.asked == 3


def test_waiting_outlives_ten_answers_in_a_row(busy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with other work, each takes as long as a request may."""
    Busy.answers = 11
    monkeypatch.setattr(up.time, "monotonic", lambda: float(Busy.asked * TIMEOUT))
    up._wait(busy, ["words"], {"admin": "x"}, View())
    assert Busy.asked == 11


def test_waiting_ends_where_nothing_answers(busy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Busy.answers = 10**9
    monkeypatch.setattr(up.time, "monotonic", lambda: float(Busy.asked * TIMEOUT))
    with pytest.raises(InputError, match="Airflow is not ready after .* an answer of the api-ser"):
        up._wait(busy, ["words"], {"admin": "x"}, View())


def test_dry_runs_outlive_answers_that_do_not_come(
    busy: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    up._look(busy, "x", ["words"], View())
    assert Busy.asked == 3


def test_a_refusal_is_an_error_still(busy: Any) -> None:
    Busy.status = 403
    with pytest.raises(ApiError):
        up._wait(busy, ["words"], {"admin": "x"}, View())
