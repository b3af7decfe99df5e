"""Copies of the clients for tests, the tools that these need, and an epoch for them to read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.clients.vectors import FILE

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


def of_epoch(function: str, format: int = 1) -> str:
    """Return an epoch.json with the JSON of a function."""
    return f'{{"format":{format},"number":3,"function":{function},"digest":"x"}}'
