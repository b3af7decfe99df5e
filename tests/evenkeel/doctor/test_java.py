"""The doctor's row on Java, which must be one that Spark and its Hadoop start on."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.doctor import Status, packages


def java_that_says(folder: Path, text: str) -> None:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ('openjdk version "17.0.12" 2024-07-16', Status.ok),
        ('openjdk version "21" 2023-09-19', Status.ok),
        ('java version "1.8.0_392"', Status.wrong),
        ("not a Java", Status.wrong),
    ],
)
def test_java_is_17_or_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: Status
) -> None:
    java_that_says(tmp_path, said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert packages.java().status is status
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    gone = packages.java()
    assert gone.status is Status.wrong and "Install Java 17" in gone.fix
    (tmp_path / "spark-env.sh").touch()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    unseen = packages.java()
    assert unseen.status is Status.warning and f"{tmp_path}/spark-env.sh" in unseen.fix


@pytest.mark.parametrize(
    ("version", "hadoop", "status"),
    [
        ("25", (3, 4, 2), Status.wrong),
        ("23", (3, 4, 2), Status.wrong),
        ("22", (3, 4, 2), Status.ok),
        ("25", (3, 5, 0), Status.ok),
        ("25", None, Status.ok),
    ],
)
def test_hadoop_may_not_start_on_a_newer_java(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    hadoop: tuple[int, ...] | None,
    status: Status,
) -> None:
    java_that_says(tmp_path, f'openjdk version "{version}" 2026-01-01')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    row = packages.java(hadoop)
    assert row.status is status
    assert ("Hadoop 3.4.2 does not start on it" in row.found) is (status is Status.wrong)
