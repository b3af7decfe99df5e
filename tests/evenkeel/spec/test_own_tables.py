"""Specs of a team's own tables: `rows` in place of `columns`."""

import pytest

from evenkeel.spec.loading import load_spec
from evenkeel.watch.forecast import spec_limits
from partitioning.errors import InputError
from tests.support.cases.specs import write

TOTALS = {"path": "s", "columns": {"n": {"merge": "count"}}}
OWN = {"path": "o", "rows": "many"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": {"s": {**TOTALS, "rows": "one"}}}, "state.s: expected either .*; got both"),
        ({"state": {"s": {"path": "s"}}}, "state.s: expected either .*; got neither"),
        ({"state": {"s": {**TOTALS, "partitions": ["d"]}}}, "partitions: allowed with `rows` only"),
        ({"state": {"s": TOTALS, "o": OWN}}, "expected `columns` in all tables or `rows` in all"),
        ({"state": {"o": OWN}, "split": {"by": "id"}}, "split: needs state tables .*merges"),
        ({"state": {"o": {**OWN, "partitions": ["Slot"]}}}, "state.o: .*'Slot'.* are names of"),
    ],
)
def test_a_table_is_ours_or_the_teams(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        load_spec(write(tmp_path, **changes))


def test_the_watch_moves_whole_keys_of_the_teams_own_tables(tmp_path):
    spec = load_spec(write(tmp_path, state={"o": OWN}, watch={"every": 15}))
    assert spec.watch.every == 15 and not spec_limits(spec, spec.watch).splitting


def test_the_teams_own_tables(tmp_path):
    spec = load_spec(write(tmp_path, state={"o": {**OWN, "partitions": ["d"]}}))
    assert spec.plain and spec.state["o"].plain and not spec.state["o"].copied
    assert not load_spec(write(tmp_path)).plain
