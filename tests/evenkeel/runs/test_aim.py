"""The aim of a plan: what somebody chose counts, and the default gives way to chance."""

from dataclasses import replace

import pytest

from evenkeel.runs.planning import aim_of
from evenkeel.spec.run_params import Params
from evenkeel.spec.table_spec import TableSpec
from partitioning.streams.zipf_stream import zipf_profile

SPEC = {
    "table": "words",
    "key": ["word"],
    "input": {"path": "events", "format": "parquet"},
    "state": {"words": {"path": "words", "columns": {"n": {"merge": "count"}}}},
    "registry": "registry",
    "channels": 4,
}


@pytest.mark.parametrize(
    ("spec", "asked", "chance", "aim"),
    [
        ({}, None, 0.0, 1.05),
        ({}, None, 0.5, 1.105),  # the default would move state for chance
        ({"max_imbalance": 1.05}, None, 0.5, 1.05),
        ({"max_imbalance": None}, None, 0.0, 1.005),
        ({"max_imbalance": None}, None, 0.5, 1.105),
        ({}, 1.01, 0.5, 1.01),
    ],
)
def test_the_aim(spec, asked, chance, aim):
    profile = replace(zipf_profile(100, 1.0, slots=16), chance=chance)
    found = aim_of(TableSpec.model_validate(SPEC | spec), Params(max_imbalance=asked), profile)
    assert found == pytest.approx(aim)
