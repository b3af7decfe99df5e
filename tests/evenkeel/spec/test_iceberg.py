"""Specs of Iceberg tables: their names stay as they are, and what Delta alone has is refused."""

import pytest
import yaml

from evenkeel.spec.loading import load_spec
from evenkeel.watch.forecast import spec_limits
from partitioning.errors import InputError

ORDERS = {"path": "lake.sales.orders", "format": "iceberg", "rows": "many"}
MADE = {"path": "lake.sales.o", "format": "iceberg", "columns": {"n": {"merge": "count"}}}
SPEC = {
    "table": "customers",
    "key": ["customer"],
    "input": {"path": "clicks", "time": "at"},
    "state": {"orders": ORDERS},
    "registry": "registry",
    "channels": 4,
}


def load(tmp_path, **changes):
    file = tmp_path / "customers.yaml"
    file.write_text(yaml.safe_dump({**SPEC, **changes}))
    return load_spec(file)


def test_a_name_in_a_catalog_is_no_path(tmp_path):
    spec = load(tmp_path)
    assert spec.iceberg and spec.plain
    assert spec.state["orders"].path == "lake.sales.orders"
    assert spec.registry == str(tmp_path / "registry")


def test_evenkeel_may_make_it_from_events(tmp_path):
    spec = load(tmp_path, state={"o": MADE})
    assert spec.iceberg and not spec.plain


@pytest.mark.parametrize("state", [{"orders": ORDERS}, {"o": MADE}])
def test_the_watch_moves_whole_keys(tmp_path, state):
    spec = load(tmp_path, state=state, watch={"every": 15})
    assert spec.watch.every == 15 and not spec_limits(spec, spec.watch).splitting


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": {"orders": {**ORDERS, "path": "sales.orders"}}}, "with catalog and namespace"),
        ({"state": {"orders": {**ORDERS, "path": "../orders"}}}, "with catalog and namespace"),
        ({"state": {"orders": {**ORDERS, "partitions": ["day"]}}}, "keeps those that it has"),
        (
            {"state": {"orders": ORDERS, "profiles": {"path": "profiles", "rows": "one"}}},
            "expected one format",
        ),
        ({"state": {"a": ORDERS, "b": ORDERS}}, "lake.sales.orders is given twice"),
        ({"key": ["slot_3"]}, r"key: \['slot_3'\] are names of columns that Evenkeel adds"),
        (
            {"state": {"o": {**MADE, "columns": {"Slot_12": {"merge": "count"}}}}},
            r"state\.o: \['Slot_12'\] are names of",
        ),
        ({"batch": 1000}, "batch: is for Delta tables"),
        ({"rate_rows": 5}, "rate_rows: is for Delta tables"),
        ({"fence": "slot"}, "fence: is for Delta tables"),
        ({"split": {"by": "day"}}, "split: is for Delta tables"),
        ({"state": {"o": MADE}, "split": {"by": "day"}}, "split: is for Delta tables"),
        ({"state": {"o": MADE}, "watch": {}, "split": {"by": "id"}}, "split: is for Delta tables"),
    ],
)
def test_what_delta_alone_has_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        load(tmp_path, **changes)
