"""Copies of the clients for tests, the tools that these need, and an epoch for them to read."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark
import pytest

from tests.clients.vectors import FILE
from tests.support.wheel import ROOT

CLIENTS = FILE.parent
#: If it is set, a missing tool is a failure: the workflow "test" has all of them.
ALL = "EVENKEEL_ALL_CLIENTS"


def copied(tmp_path: Path, language: str) -> Path:
    """Copy a client and the vectors, so that what a compiler leaves stays out of the tree."""
    shutil.copy(FILE, tmp_path)
    return shutil.copytree(CLIENTS / language, tmp_path / language)


def need(tool: str) -> None:
    """Skip the test if a tool is missing; fail if all of them are asked for."""
    if shutil.which(tool) is None:
        assert not os.environ.get(ALL), f"{tool} is not installed, and {ALL} asks for it"
        pytest.skip(f"{tool} is not installed")


def jars(organisation: str, module: str, version: str) -> str:
    """Return a class path of a library and all that it needs, fetched once into .jars/clients.

    Skip the test if they cannot be had, as without a network; fail if all clients are asked for.
    PySpark brings the Ivy that fetches them, so nothing needs Maven.
    """
    folder = ROOT / ".jars/clients" / f"{module}-{version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            fetched, failure = _fetch(organisation, module, version, Path(made))
            if failure:
                reason = f"cannot fetch {organisation}:{module}:{version}: {failure}"
                assert not os.environ.get(ALL), f"{reason}, and {ALL} asks for it"
                pytest.skip(reason)
            # Another process may have been faster.
            if not folder.exists():
                fetched.rename(folder)
    return f"{folder}/*"


def _fetch(organisation: str, module: str, version: str, folder: Path) -> tuple[Path, str]:
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    settings = os.environ.get("IVY_SETTINGS")
    command = ["java", "-jar", str(ivy), "-dependency", organisation, module, version]
    command += ["-confs", "default", "-types", "jar", "bundle", "-cache", str(folder / "cache")]
    command += ["-retrieve", f"{folder}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    command += ["-settings", settings] if settings else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return folder / "jars", "" if done.returncode == 0 else said[-1].strip()


def of_epoch(function: str, format: int = 1) -> str:
    """Return an epoch.json with the JSON of a function."""
    return f'{{"format":{format},"number":3,"function":{function},"digest":"x"}}'
