"""Merges of a deployment's own: an error names the field, and says what is allowed."""

import pytest
import yaml

from evenkeel.spec.custom_merges import MERGES_VARIABLE
from evenkeel.spec.loading import load_spec
from partitioning.errors import InputError
from tests.support.cases.specs import write


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"fold": "max({of})"}, "flags.pair: is missing; flags.every: is missing"),
        ({"fold": 1, "pair": "{a}{b}", "every": "{x}"}, "flags.fold: must be text, got 1"),
        ({"fold": "{of}", "pair": "{a}{b}", "every": "{x}", "types": []}, "1 entry or more, got"),
        ({"fold": "{of}", "pair": "{a}{b}", "every": "{x}", "code": 1}, "code: there is no such f"),
    ],
)
def test_a_wrong_merge_of_ones_own_is_said_in_our_words(tmp_path, monkeypatch, fields, message):
    file = tmp_path / "merges.yaml"
    file.write_text(yaml.safe_dump({"flags": fields}))
    monkeypatch.setenv(MERGES_VARIABLE, str(file))
    with pytest.raises(InputError, match=message):
        load_spec(write(tmp_path))
