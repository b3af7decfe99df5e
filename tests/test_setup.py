"""Set-up: which Java it takes, what it says where there is none, and that it runs once."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: What the script needs besides Java; apt is not among them.
TOOLS = ("bash", "sed", "id", "true")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of commands without Java, and one of Javas that is empty."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "jvms").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    return tmp_path


def install(machine: Path, version: str, name: str) -> Path:
    """A java that tells its version and home as a real one does; returns its home."""
    home = machine / name
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    java.chmod(0o755)
    return home


def found(machine: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "setup" / "java.sh")],
        env={"PATH": str(machine / "bin"), "JVMS": str(machine / "jvms"), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_first_java_that_is_new_enough_is_taken(machine: Path) -> None:
    other = install(machine, "21", "jvms/java-21")
    assert found(machine).stdout.strip() == str(other)
    old = install(machine, "1.8", "old")
    (machine / "bin" / "java").symlink_to(old / "bin" / "java")
    assert found(machine).stdout.strip() == str(other)
    own = install(machine, "17", "own")
    assert found(machine, JAVA_HOME=str(own)).stdout.strip() == str(own)
    assert found(machine, JAVA_HOME=str(old)).stdout.strip() == str(other)


def test_without_java_or_apt_one_line_says_what_to_install(machine: Path) -> None:
    old = install(machine, "11", "jvms/java-11")
    (machine / "bin" / "java").symlink_to(old / "bin" / "java")
    done = found(machine)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("Spark needs Java 17 or newer: install one")


@pytest.mark.skipif(not (ROOT / ".jars" / ".ready").exists(), reason="installed without set-up")
def test_a_second_set_up_has_nothing_to_do() -> None:
    done = subprocess.run(
        ["make", "-q", "setup"], cwd=ROOT, env={**os.environ, "MAKEFLAGS": ""}, timeout=60
    )
    assert done.returncode == 0
