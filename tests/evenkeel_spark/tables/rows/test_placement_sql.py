"""The text of CHECK constraints: tables have it, so a text that changes is one no job knows."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import yaml

from evenkeel.spec.loading import load_spec
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.tables.rows.placement_sql import fence_rule, moving_rules, rule
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from partitioning.function.split import Split
from tests.conftest import SPEC

KEY = (KeyColumn("key", "string"),)
ONE = PartitioningFunction(
    KEY,
    numbered_channels(300),
    np.arange(1000) % 300,
    np.array([-7, 6]),
    np.array([2, 299]),
    Split.of({9: {1: 1.0, 4: 1.0}}),
    row=KeyColumn("id", "bigint"),
)
TWO = PartitioningFunction(KEY, numbered_channels(300), np.arange(1000) % 299)


def spec_with(folder: Path, **fields: str) -> TableSpec:
    (folder / "flights.yaml").write_text(yaml.safe_dump({**SPEC, **fields}))
    return load_spec(folder / "flights.yaml")


@pytest.mark.parametrize(
    ("functions", "begins"),
    [((ONE,), "884664f50f3d2262"), ((TWO,), "fad75121a208fecb"), ((ONE, TWO), "fe5e4ff4d079453d")],
)
def test_the_text_without_a_fence_in_the_spec_is_that_of_before(
    tmp_path: Path, functions: tuple[PartitioningFunction, ...], begins: str
) -> None:
    """The digests are those of the texts of commit ef9214a."""
    text = fence_rule(spec_with(tmp_path), *functions)
    assert text == rule(*functions) == fence_rule(spec_with(tmp_path, fence="key"), *functions)
    assert hashlib.sha256(text.encode()).hexdigest().startswith(begins)


def test_only_constraints_at_rest_and_an_open_one_leave_the_key_out(tmp_path: Path) -> None:
    spec = spec_with(tmp_path, fence="slot")
    for functions in ((ONE,), (TWO,), (ONE, TWO)):
        assert "xxhash64" not in fence_rule(spec, *functions)
    opened, *closed = moving_rules(spec, ONE, TWO)
    assert opened == fence_rule(spec, ONE, TWO)
    assert all("xxhash64" in sql for sql in closed)
    # Text by either fence is never taken for the other's.
    assert len({opened, *closed, fence_rule(spec, ONE), fence_rule(spec, TWO)}) == 7
