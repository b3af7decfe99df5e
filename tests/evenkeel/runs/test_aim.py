"""The aim of a plan: what somebody chose counts, and the default gives way to chance. Epoch 0."""

from dataclasses import replace

import numpy as np
import pytest

from evenkeel.runs.planning import aim_of, function_of_epoch_0
from evenkeel.spec.run_params import Params
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError
from partitioning.function.channels import numbered_channels
from partitioning.strategies.hashing import uniform
from partitioning.streams.zipf_stream import KEY, zipf_profile
from partitioning.workload.profile import profile_of_keys

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
        ({}, None, 0.5, 1.105),  # no state moves for chance
        ({"max_imbalance": 1.05}, None, 0.5, 1.05),
        ({}, None, 0.0, 1.005),
        ({}, 1.01, 0.5, 1.01),
    ],
)
def test_the_aim(spec, asked, chance, aim):
    profile = replace(zipf_profile(1000, 1.0, slots=256), chance=chance)
    assert aim_found(spec, profile, asked) == pytest.approx(aim)


def aim_found(spec, profile, asked=None) -> float:
    channels = numbered_channels(2)
    made, before = TableSpec.model_validate(SPEC | spec), uniform(profile, None, channels)
    return aim_of(made, Params(max_imbalance=asked), profile, before, channels)


def test_the_default_leaves_a_gain_below_the_part_of_the_state_that_moves() -> None:
    """Two keys would change places, 0.45 of the state, to gain 0.1."""
    profile = profile_of_keys(KEY, np.arange(4), np.array([60.0, 40, 50, 50]), 4)
    assert aim_found({}, profile) == pytest.approx(1.1)
    # As much of the state moves for five times the gain, by one of ten light keys.
    profile = profile_of_keys(KEY, np.arange(20), np.full(20, 10.0) + np.eye(20)[0] * 10, 20)
    assert aim_found({}, profile) < 1.05


@pytest.mark.parametrize(
    ("spec", "aim"),
    [
        ({}, 1.055),
        ({"max_imbalance": 1.05}, 1.05),
        ({"split": {"by": "line"}}, 1.005),
        ({"options": {"seconds": 1}}, 1.005),
    ],
)
def test_the_default_leaves_what_is_not_worth_its_bytes(spec, aim):
    """Two keys would change places, half of the state, to gain 0.025."""
    load = np.array([57.0, 48.5, 48.5, 46.0])
    profile = profile_of_keys(KEY, np.arange(4), load, 4)
    assert aim_found(spec, profile) == pytest.approx(aim)


def test_an_aim_alone_may_be_over_the_trigger_of_the_defaults() -> None:
    assert TableSpec.model_fields["trigger"].default < 1.5
    profile = zipf_profile(100, 1.0, slots=16)
    assert aim_found({"max_imbalance": 1.5}, profile) == 1.5


def test_no_epoch_0_has_fewer_slots_than_channels() -> None:
    few = TableSpec.model_validate({**SPEC, "channels": 5, "slots": 4})
    with pytest.raises(InputError, match=r"the channels, 5 \(got 4\)"):
        function_of_epoch_0(few, KEY)
    made = function_of_epoch_0(few.model_copy(update={"channels": 4}), KEY)
    assert (made.epoch, len(made.channels), len(made.slots)) == (0, 4, 4)
