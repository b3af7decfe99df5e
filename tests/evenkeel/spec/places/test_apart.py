"""Places of specs: none inside of a state table, whose vacuum would remove it."""

from pathlib import Path

import pytest

from evenkeel.spec.catalog import load_catalog
from evenkeel.spec.loading import load_spec
from partitioning.errors import InputError
from tests.support.cases.specs import GOOD, write


@pytest.mark.parametrize("registry", ["{}/_registry", "{}/.kept/registry", "{}s", "."])
def test_what_a_vacuum_passes_over_or_never_meets_may_be_there(registry, tmp_path):
    path = GOOD["state"]["flights"]["path"]
    assert load_spec(write(tmp_path, registry=registry.format(path))).registry


@pytest.mark.parametrize(
    ("state", "registry", "wrong"),
    [
        ("s3a://lake/t", "s3://lake/t/evenkeel", "registry: is inside of state.flights.path"),
        ("file://{}/t", "{}/t/evenkeel", "registry: is inside of state.flights.path"),
        ("{}/t", "{}/link/evenkeel", "registry: is inside of state.flights.path"),
        # A vacuum goes through the link.
        ("{}", "{}/link", "registry: is inside of state.flights.path"),
        ("gs://lake/t", "gcs://lake/x/../t", "registry: is that of state.flights.path"),
        ("abfss://c@a/t", "abfs://c@a/t/", "registry: is that of state.flights.path"),
        ("s3a://lake/t", "s3://lake/t/_evenkeel", None),
        ("s3a://lake/t", "gs://lake/t/evenkeel", None),
        ("s3a://lake/t", "s3://lake/t/../registry", None),
    ],
)
def test_places_are_compared_and_not_their_texts(state, registry, wrong, tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    table = {**GOOD["state"]["flights"], "path": state.format(tmp_path)}
    file = write(tmp_path, registry=registry.format(tmp_path), state={"flights": table})
    if wrong is None:
        assert load_spec(file).table == "flights"
        return
    with pytest.raises(InputError, match=wrong):
        load_spec(file)


def test_a_registry_of_two_tables_is_found_by_its_place(tmp_path):
    write(tmp_path, registry="s3://lake/r")
    (tmp_path / "flights.yaml").rename(tmp_path / "a.yaml")
    write(tmp_path, table="other", registry="s3a://lake/r").rename(tmp_path / "b.yaml")
    (problem,) = load_catalog(tmp_path).problems
    assert "registry: s3a://lake/r is already that of a.yaml" in str(problem)


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        ("lake/t/landing", True),
        ("lake/t/landing/*.parquet", True),
        ("lake/t", False),
        ("lake/t/_landing", False),
        ("lake/tt", False),
    ],
)
def test_an_input_in_a_folder_of_a_state_table_would_be_vacuumed_away(events, wrong, tmp_path):
    asked = {"input": {"path": events, "time": "t"}, "state": placed("lake/t")}
    if not wrong:
        assert load_spec(write(tmp_path, **asked)).input.path == str(tmp_path / events)
        return
    with pytest.raises(InputError, match=r"input.path: is inside of state.flights.path"):
        load_spec(write(tmp_path, **asked))


def placed(path: str) -> dict:
    return {"flights": {**GOOD["state"]["flights"], "path": path}}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"registry": "lake/a/eu"}, "registry: is inside of state.flights.path of a.yaml"),
        ({"state": placed("lake/a/eu")}, "path: is inside of state.flights.path of a.yaml"),
        ({"state": placed("lake/a")}, "state.flights.path: is that of state.flights.path of a"),
        ({"registry": "lake/a"}, "registry: is that of state.flights.path of a.yaml"),
        ({"input": {"path": "lake/a/eu", "time": "t"}}, "input.path: is inside of state.flights"),
        # A table may be another one's input, and a vacuum passes over hidden folders.
        ({"input": {"path": "lake/a", "time": "t"}}, None),
        ({"registry": "lake/a/_eu"}, None),
        ({"registry": "lake/ab"}, None),
    ],
)
def test_no_table_has_a_place_in_another_ones_folder(other, said, tmp_path):
    """The other's maintain would remove its epochs, after some weeks and without a word."""
    asked = {"registry": "r/b", "state": placed("lake/b"), **other}
    write(tmp_path, table="b", **asked).rename(tmp_path / "b.yaml")
    write(tmp_path, table="a", registry="r/a", state=placed("lake/a")).rename(tmp_path / "a.yaml")
    found = load_catalog(tmp_path)
    if said is None:
        assert [file.name for file in found.specs] == ["a.yaml", "b.yaml"]
        return
    # The table around it goes on, as it may be half moved: but without its vacuum.
    assert {file.name for file in found.specs} == {file.name for file in found.around} == {"a.yaml"}
    (problem,) = found.problems
    assert said in str(problem) and Path(problem.where).name == "b.yaml"
