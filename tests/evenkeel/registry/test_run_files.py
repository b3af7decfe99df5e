"""Files of a run: what earlier and later releases wrote is read, and what is damaged is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.migration_records import RolledBack
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.files.stored_file import StoredFile, parse
from partitioning.errors import DamagedError, InputError
from tests.support.raw_json import read_json, write_json

FILES: dict[str, tuple[Any, dict[str, Any]]] = {
    "rolled_back": (lambda run: run.rolled_back, {"digest": "d", "attempt": 2, "done": True}),
    "attempt": (lambda run: run.attempt("d" * 64, 2), {"digest": "d", "attempt": 2}),
    "verdict": (
        lambda run: run.verdict("d" * 64, 2),
        {"digest": "d", "attempt": 2, "verdict": "publish"},
    ),
    "profile": (
        lambda run: run.learned,
        {"epoch": 3, "tables": {"counts": 9}, "seconds": 1.5},
    ),
    "asked": (lambda run: run.asked, {"digest": "d"}),
    "approval": (
        lambda run: run.approval,
        {"approved": False, "by": "vic", "when": "2026-01-01T00:00:00+00:00", "digest": "d"},
    ),
}
every_file = pytest.mark.parametrize(("of", "values"), FILES.values(), ids=FILES)


@pytest.fixture
def run(tmp_path: Path) -> RunFiles:
    return Registry(str(tmp_path)).run("r")


@every_file
def test_a_file_is_written_as_it_was_read(run: RunFiles, of: Any, values: dict[str, Any]) -> None:
    file: StoredFile[Any] = of(run)
    assert file.find() is None
    with pytest.raises(InputError, match=f"{file.name} is missing"):
        file.read()
    write_json(run, file.name, values)
    read = file.read()
    assert {name: getattr(read, name) for name in values} == values
    file.remove()
    file.create(read)
    assert read_json(run, file.name) == values
    with pytest.raises(FileExistsError):
        file.create(read)


@every_file
def test_fields_of_a_later_release_are_ignored(
    run: RunFiles, of: Any, values: dict[str, Any]
) -> None:
    file = of(run)
    write_json(run, file.name, {**values, "later": [1]})
    assert file.read() == type(file.read())(**values)


@every_file
@pytest.mark.parametrize("damage", [b"", b"{torn", b"[]", b"1", b"{}", b"[" * 200_000])
def test_a_damaged_file_is_named(run: RunFiles, of: Any, values: Any, damage: bytes) -> None:
    file = of(run)
    run.write(file.name, damage)
    with pytest.raises(DamagedError) as error:
        file.find()
    assert file.path in str(error.value) and "\n" not in str(error.value)
    assert "Restore the file from a backup" in str(error.value)


@every_file
def test_a_field_of_another_type_is_named(run: RunFiles, of: Any, values: dict[str, Any]) -> None:
    file = of(run)
    for name, value in values.items():
        for wrong in ([1], {"a": [1]}, "yes" if not isinstance(value, str) else 1):
            write_json(run, file.name, {**values, name: wrong})
            with pytest.raises(DamagedError, match=rf"{name}\S*: expected .*, found "):
                file.read()


@pytest.mark.parametrize("row", [{"name": "id"}, {"name": "id", "type": "colour"}, "id"])
def test_a_row_column_that_is_none_is_named(run: RunFiles, row: Any) -> None:
    write_json(run, "profile.json", {"epoch": 0, "tables": {}, "row": row})
    with pytest.raises(DamagedError, match=r"profile\.json: row"):
        run.learned.read()
    write_json(run, "profile.json", {"epoch": 0, "tables": {}, "row": {"name": "i", "type": "int"}})
    column = run.learned.read().column
    assert column is not None and (column.name, column.type) == ("i", "int")


def test_a_mark_of_release_0_1_0_is_of_the_first_attempt() -> None:
    assert parse(RolledBack, b'{"digest": "d", "done": false}', "x").attempt == 1
