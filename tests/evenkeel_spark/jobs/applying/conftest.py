"""Merges of a deployment's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from evenkeel.spec.custom_merges import MERGES_VARIABLE


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Register merges: a mapping, or the text of the file."""

    def register(given: Any) -> None:
        file = tmp_path / "merges.yaml"
        file.write_text(given if isinstance(given, str) else yaml.safe_dump(given))
        monkeypatch.setenv(MERGES_VARIABLE, str(file))

    return register
