"""What every job's `main` has in common."""

from __future__ import annotations

import pytest

from evenkeel_spark.jobs import adopt, repair
from evenkeel_spark.runtime.command import add_switch, parser


@pytest.mark.parametrize(
    ("given", "on"),
    [([], False), (["--older"], True), (["--older", "yes"], True), (["--older", "no"], False)],
)
def test_no_is_not_yes(given: list[str], on: bool):
    arguments = parser("a job")
    add_switch(arguments, "--older", "give up what is there")
    assert arguments.parse_args(["--spec", "s", *given]).older is on


@pytest.mark.parametrize("value", ["", "maybe", "true"])
def test_a_switch_that_is_neither_is_refused(capsys, value: str):
    arguments = parser("a job")
    add_switch(arguments, "--older", "give up what is there")
    with pytest.raises(SystemExit) as ended:
        arguments.parse_args(["--spec", "s", "--older", value])
    assert ended.value.code == 2
    assert f"expected yes or no, found {value!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job", "names"),
    [
        (adopt, ("dry_run", "release", "drop_columns", "registry_lost")),
        (repair, ("dry_run", "registry_older")),
    ],
)
def test_what_gives_something_up_is_a_switch(monkeypatch: pytest.MonkeyPatch, job, names):
    asked = []
    monkeypatch.setattr(job, "run_job", lambda arguments, body, argv: asked.append(arguments) or 0)
    assert job.main([]) == 0
    given = [f"--{name.replace('_', '-')}" for name in names]
    off = asked[0].parse_args(["--spec", "s", *(part for flag in given for part in (flag, "no"))])
    assert [getattr(off, name) for name in names] == [False] * len(names)
