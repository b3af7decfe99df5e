"""Merges of a deployment's own: the state that they make, and what of them is refused."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pytest

from evenkeel.registry.state_view import COLUMNS_PROPERTY
from evenkeel.spec.custom_merges import MERGES_VARIABLE, merges
from evenkeel.spec.loading import load_spec
from evenkeel_spark.evolving.changes import Intent
from evenkeel_spark.evolving.evolve import evolve
from evenkeel_spark.jobs.apply_window import apply_window
from evenkeel_spark.jobs.bootstrap import bootstrap
from evenkeel_spark.migration.split_state import unmerged_columns
from evenkeel_spark.tables.delta import state
from partitioning.errors import InputError
from tests.conftest import World
from tests.support.worlds.windows import day, rows, versions

pytestmark = pytest.mark.spark

FLAGS = {"fold": "bit_or({of})", "pair": "{a} | {b}", "every": "bit_or({x})", "types": ["int"]}


def test_a_registered_merge_makes_state(spark, world: World, registered):
    registered({"flags": FLAGS})
    columns = {"bits": {"merge": "flags", "of": "miles"}}
    world.respec(state={"totals": {"path": "state/totals", "columns": columns}})
    bootstrap(spark, world.table, datetime.date(2013, 1, 8))
    apply_window(spark, world.table, datetime.date(2013, 1, 8), datetime.date(2013, 1, 15))
    found = world.table.state("totals", spark=spark).toPandas().set_index("dest")["bits"]
    wanted = world.events.groupby("dest")["miles"].agg(np.bitwise_or.reduce)
    assert found.sort_index().tolist() == wanted.tolist()
    assert merges()["flags"].pair("a", "b") == (
        "IF(a IS NULL OR b IS NULL, coalesce(a, b), coalesce((a | b), "
        "raise_error('evenkeel cannot merge: pair gives null of a and b')))"
    )


#: The mean of a column, and its one value or the text `several`: neither keeps a null a null.
MEAN = {
    "fold": "named_struct('s', sum({of}), 'n', count({of}))",
    "pair": "named_struct('s', {a}.s + {b}.s, 'n', {a}.n + {b}.n)",
    "every": "named_struct('s', sum({x}.s), 'n', sum({x}.n))",
}
ONE = {
    "fold": "if(min({of}) = max({of}), max({of}), if(max({of}) IS NULL, NULL, 'several'))",
    "pair": "if({a} = {b}, {a}, 'several')",
    "every": "if(min({x}) = max({x}), max({x}), if(max({x}) IS NULL, NULL, 'several'))",
}


def test_a_registered_merge_is_not_asked_about_nulls(spark, registered):
    registered({"mean": MEAN, "one": ONE})
    value = "named_struct('s', 5L, 'n', 2L)"
    none = "CAST(NULL AS struct<s: bigint, n: bigint>)"
    mean, one = merges()["mean"].pair, merges()["one"].pair
    tried = [mean(none, value), mean(value, none), mean(none, none), mean(value, value)]
    tried += [one("NULL", "'x'"), one("'x'", "NULL"), one("'x'", "'x'"), one("'x'", "'y'")]
    found = spark.sql(f"SELECT {', '.join(f'{sql} AS c{i}' for i, sql in enumerate(tried))}")
    (row,) = found.collect()
    sums = [(5, 2), (5, 2), None, (10, 4)]
    assert [*row] == [*sums, "x", "x", "x", "several"]


def test_a_column_that_is_new_gets_the_windows_of_a_registered_merge(
    spark, ready: World, registered
):
    """It is null in the rows that are there."""
    registered({"mean": {**MEAN, "pair": MEAN["pair"]}})
    columns = ready.table.spec.model_dump(mode="json", exclude_none=True)["state"]["totals"]
    ready.with_columns({**columns["columns"], "far": {"merge": "mean", "of": "miles"}})
    evolve(spark, ready.table, Intent.of())
    for number in (8, 9):
        apply_window(spark, ready.table, day(number), day(number + 1))
    events = ready.events
    events = events[(events["at"] >= "2013-01-08") & (events["at"] < "2013-01-10")]
    found = rows(spark, ready, "totals")["far"].dropna()
    wanted = events.groupby("dest")["miles"].agg(["sum", "count"])
    assert {k: (v["s"], v["n"]) for k, v in found.items()} == {
        k: tuple(v) for k, v in wanted.iterrows()
    }


def test_an_edited_registered_merge_is_refused_until_a_person_says_that_it_is_the_same(
    spark, ready: World, registered
):
    registered({"flags": FLAGS})
    columns = ready.table.spec.model_dump(mode="json", exclude_none=True)["state"]["totals"]
    ready.with_columns({**columns["columns"], "bits": {"merge": "flags", "of": "miles"}})
    evolve(spark, ready.table, Intent.of())
    apply_window(spark, ready.table, day(8), day(9))
    before = versions(spark, ready)
    registered({"flags": {**FLAGS, "pair": "{b} | {a}"}})
    for act in (
        lambda: apply_window(spark, ready.table, day(9), day(10)),
        lambda: ready.table.state("totals", spark=spark),
        lambda: unmerged_columns(spark, ready.table.spec, "totals"),
        lambda: evolve(spark, ready.table, Intent.of()),
    ):
        with pytest.raises(InputError, match="flags@.*, the spec says flags@.*was edited") as error:
            act()
    assert versions(spark, ready) == before
    # A person says that both give the same values, by the statement of the error.
    (statement,) = re.findall(r"same values: (ALTER TABLE .*)", str(error.value))
    spark.sql(statement)
    assert evolve(spark, ready.table, Intent.of()) == []
    apply_window(spark, ready.table, day(9), day(10))
    # Tables of earlier versions note the name alone.
    path = ready.table.spec.state["totals"].path
    noted = state.properties(spark, path)[COLUMNS_PROPERTY]
    plain = re.sub(r"@\w+", "", noted)
    assert plain != noted
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{COLUMNS_PROPERTY}' = '{plain}')")
    apply_window(spark, ready.table, day(10), day(11))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{", "merges.yaml: not YAML"),
        ("- a", "expected a mapping of merges by name"),
        ({"sum": FLAGS}, "'sum' cannot name a custom merge"),
        ({"flags": {**FLAGS, "pair": "{a} | {c}"}}, "flags: .*pair lacks {b}"),
        ({"flags": {**FLAGS, "code": "x"}}, "flags.code: there is no such field, got"),
        ({"flags": {"fold": "max({of})"}}, "flags.pair: is missing"),
        ({"other": FLAGS}, "merge: there is no such merge; allowed: .*, other .got 'flags'"),
        ({"flags": {**FLAGS, "types": ["date"]}}, "is int. Allowed: date, for flags"),
        ({"flags": {**FLAGS, "fold": "no_such({of})"}}, "merge 'flags' .* does not do for column"),
        ({"flags": {**FLAGS, "fold": "bit_or({of}"}}, "merge 'flags' .* does not do for column"),
        (
            {
                "flags": {
                    "fold": "map(max({of}), 1)",
                    "pair": "map_concat({a}, {b})",
                    "every": "first({x})",
                }
            },
            "makes map<int,int> of column 'miles': rows with a map",
        ),
        ({"flags": {**FLAGS, "every": "avg({x})"}}, "changes the type .*fold int, .*every double"),
    ],
)
def test_a_wrong_registered_merge_is_one_error(spark, world: World, registered, given, message):
    registered(given)
    columns = {"bits": {"merge": "flags", "of": "miles"}}
    world.respec(state={"totals": {"path": "state/totals", "columns": columns}})
    with pytest.raises(InputError, match=message) as caught:
        bootstrap(spark, world.table)
    assert "\n" not in str(caught.value)


def test_registered_merges_that_are_not_there(tmp_path, world: World, monkeypatch):
    monkeypatch.setenv(MERGES_VARIABLE, str(tmp_path / "none.yaml"))
    with pytest.raises(InputError, match="none.yaml: cannot be read"):
        load_spec(world.spec_path)
