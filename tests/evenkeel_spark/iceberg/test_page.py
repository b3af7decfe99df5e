"""The steps of docs/how-to/formats/iceberg.md, run as they stand in the environment of this test.

tests/project/pages/test_how_to.py runs them from the wheel, with the section that installs it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.docs.steps import run
from tests.support.wheel import ROOT, Venv

# Each snippet in a process of its own: minutes.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2400)]


def test_the_page_does_what_it_says(lake: SparkSession, tmp_path: Path) -> None:
    """`lake` skips this test where there is no runtime of Iceberg."""
    page = ROOT / "docs" / "how-to" / "formats" / "iceberg.md"
    run(page, tmp_path, Venv(Path(sys.prefix)).environment(), without=r"1\. Get Spark 4\.1")
