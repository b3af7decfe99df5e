"""The console finds the same tables by name as Airflow and the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evenkeel.spec import catalog
from evenkeel.spec.catalog import load_catalog
from evenkeel.spec.loading import check_enough_slots, find_spec, load_spec
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import InputError, SetupError
from tests.support.cases.specs import write


def test_a_file_that_ends_with_yml_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    file = write(tmp_path).rename(tmp_path / "flights.yml")
    assert find_spec("flights") == file
    with pytest.raises(SetupError, match=r"there is no table 'trips'.*Known: flights\. Set"):
        find_spec("trips")


def test_a_file_of_another_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy whose field `table` was not changed: its state is the other table's."""
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    copy = write(tmp_path).rename(tmp_path / "copy.yaml")
    write(tmp_path)
    said = r"copy\.yaml: table: expected 'copy', as its file is named \(got 'flights'\)"
    with pytest.raises(InputError, match=said):
        find_spec("copy")
    assert find_spec(str(copy)) == copy
    assert find_spec("flights") == tmp_path / "flights.yaml"


def test_a_file_of_any_name_is_found_by_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    file = write(tmp_path).rename(tmp_path / "01-flights.yaml")
    (tmp_path / "torn.yaml").write_text("table: [")
    assert find_spec("flights") == file
    with pytest.raises(SetupError, match=r"Known: flights, torn\. Set"):
        find_spec("trips")


def test_an_empty_variable_counts_as_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENKEEL_TABLES", "")
    (tmp_path / "tables").mkdir()
    write(tmp_path / "tables")
    assert find_spec("flights") == Path("tables/flights.yaml")


@pytest.mark.parametrize("named", [True, False])
def test_a_folder_that_is_not_there_is_named_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENKEEL_TABLES", "specs" if named else "")
    folder = tmp_path / ("specs" if named else "tables")
    with pytest.raises(SetupError) as caught:
        find_spec("trips")
    said = f"{folder}: expected a folder with the spec of table 'trips', found none"
    assert str(caught.value).startswith(f"{said}. Set EVENKEEL_TABLES to the folder of your specs")
    folder.mkdir()
    with pytest.raises(SetupError) as caught:
        find_spec("trips")
    assert str(caught.value).startswith(f"{folder}: there is no table 'trips'. Known: none. Set")


@pytest.mark.parametrize("channels", [6, [{"name": name} for name in "abcdef"]])
def test_fewer_slots_than_channels_are_refused(tmp_path: Path, channels: object) -> None:
    said = r"slots: must be at least as many as the channels, 6 \(got 5\)\. Leave `slots` out"
    with pytest.raises(InputError, match=said):
        check_enough_slots(load_spec(write(tmp_path, channels=channels, slots=5)), "flights.yaml")
    check_enough_slots(load_spec(write(tmp_path, channels=channels, slots=6)), "flights.yaml")


def test_a_channel_that_gets_nothing_needs_no_slot(tmp_path: Path) -> None:
    channels = [{"name": "a"}, {"name": "drained", "capacity": 0}]
    check_enough_slots(load_spec(write(tmp_path, channels=channels, slots=1)), "flights.yaml")


def test_a_folder_that_cannot_be_looked_at_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is too long fails for root, too, as a closed folder does for others."""
    closed = tmp_path / ("n" * 300) / "tables"
    monkeypatch.setenv("EVENKEEL_TABLES", str(closed))
    with pytest.raises(SetupError, match="expected a folder with the spec of table 'flights'"):
        find_spec("flights")
    found = load_catalog(closed)
    assert not found.specs
    assert "there is no such folder" in str(found.problems[0])


def test_a_fault_about_one_file_takes_no_other_table_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    wrong = "strategy: fronteer\noptions: {resources: }\n"
    (tmp_path / "two_mistakes.yaml").write_text(f"table: two_mistakes\n{wrong}")
    found = load_catalog(tmp_path)
    assert [spec.table for spec in found.specs.values()] == ["flights"]
    (problem,) = found.problems
    assert re.search(r"two_mistakes\.yaml: .*found 'fronteer', which is no strategy", str(problem))

    def fails(file: Path) -> TableSpec:
        if file.stem == "two_mistakes":
            raise TypeError("nobody foresaw it")
        return load_spec(file)

    monkeypatch.setattr(catalog, "load_unchanged", fails)
    found = load_catalog(tmp_path)
    (problem,) = found.problems
    assert len(found.specs) == 1 and "two_mistakes.yaml: TypeError: nobody" in str(problem)
