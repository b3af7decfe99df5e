"""The site of this checkout, built once for the tests of this folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.wheel import ROOT

BIN = ROOT / ".venv/docs/bin"


def run(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the docs' environment; `make docs` makes it, and so does `make test`."""
    assert (BIN / program).exists(), "run `make docs` first"
    path = os.pathsep.join([str(BIN), os.environ["PATH"]])
    given = {**os.environ, "PATH": path, "NO_MKDOCS_2_WARNING": "1"}
    command = [str(BIN / program), *arguments]
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True)


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout."""
    folder = tmp_path_factory.mktemp("site")
    built = run(ROOT, "mkdocs", "build", "-d", str(folder))
    assert built.returncode == 0, built.stderr
    return folder
