"""The registry that version 0.1.0 wrote, unpacked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evenkeel.spec.loading import load_spec
from evenkeel.table import Table

ARCHIVE = Path(__file__).resolve().parents[2] / "fixtures" / "registry_0.1.0.tar.xz"


@pytest.fixture
def spec_path(tmp_path: Path) -> str:
    """The old table, in a folder of its own."""
    shutil.unpack_archive(ARCHIVE, tmp_path)
    return str(tmp_path / "trips" / "trips.yaml")


@pytest.fixture
def old(spec_path: str) -> Table:
    return Table(load_spec(spec_path))
