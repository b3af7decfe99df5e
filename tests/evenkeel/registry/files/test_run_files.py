"""Files of a run: what earlier and later releases wrote is read, and what is damaged is named."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenkeel.registry.epochs import Registry
from evenkeel.registry.files.migration_records import RolledBack
from evenkeel.registry.files.run_files import RunFiles
from evenkeel.registry.files.stored_file import StoredFile, parse
from partitioning.errors import DamagedError, InputError
from partitioning.function.channels import numbered_channels
from partitioning.function.hashing import KeyColumn
from partitioning.planning.plan import Plan, make_plan
from partitioning.strategies.hashing import consistent
from partitioning.workload.profile import profile_of_keys
from tests.support.raw_json import read_json, write_json


def a_plan() -> dict[str, Any]:
    """The values of a plan that splits a key, of a run, from a doubtful load."""
    key, hashes = (KeyColumn("k", "string"),), np.arange(6, dtype=np.int64) * 10**17
    profile = profile_of_keys(key, hashes, np.arange(6.0) ** 3, 16, threshold=5.0)
    previous = consistent(profile, None, numbered_channels(3))
    row = KeyColumn("id", "bigint")
    plan = make_plan("t", profile, previous, numbered_channels(3), budget=1e9, row=row)
    plan = replace(plan, run="r", uncertain="one day", tables={"counts": 9})
    assert plan.moves and plan.curve and plan.bound and len(plan.function.split)
    return json.loads(plan.to_bytes())


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
    "question": (lambda run: run.question, {"digest": "d"}),
    "approval": (
        lambda run: run.approval,
        {"approved": False, "by": "vic", "when": "2026-01-01T00:00:00+00:00", "digest": "d"},
    ),
    "plan": (lambda run: run.plan, a_plan()),
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
    if isinstance(read, Plan):
        assert json.loads(read.to_bytes()) == values
    else:
        assert {name: getattr(read, name) for name in values} == values
    file.remove()
    assert file.create(read)
    assert read_json(run, file.name) == values
    assert not file.create(read)


@pytest.mark.parametrize(("of", "values"), [v for n, v in FILES.items() if n != "plan"])
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
    advice = "Plan again" if file.name == "plan.json" else "Restore the file from a backup"
    assert advice in str(error.value)


@every_file
def test_a_field_of_another_type_is_named(run: RunFiles, of: Any, values: dict[str, Any]) -> None:
    file = of(run)
    for name, value in values.items():
        for wrong in ([[1]], {"a": [1]}, "yes" if not isinstance(value, str) else 1):
            write_json(run, file.name, {**values, name: wrong})
            with pytest.raises(DamagedError) as error:
                file.read()
            if name == "function" and isinstance(wrong, dict):
                assert "not a partitioning function" in str(error.value)
            else:
                assert re.search(rf"{name}\S*: expected .*, found ", str(error.value))
            assert file.path in str(error.value)


def test_a_plan_is_read_whole_or_not_at_all(run: RunFiles) -> None:
    """Its digest is over every field, and inner fields have types, too."""
    values = FILES["plan"][1]
    # Release 0.1.0 wrote neither of these.
    write_json(run, "plan.json", {k: v for k, v in values.items() if k not in ("run", "uncertain")})
    assert (run.plan.read().run, run.plan.read().uncertain) == ("", "")
    write_json(run, "plan.json", {**values, "later": [1]})
    with pytest.raises(DamagedError, match=r"later"):
        run.plan.read()
    for list_, field in (("moves", "load"), ("moves", "source"), ("curve", "bytes")):
        first = {**values[list_][0], field: "much"}
        write_json(run, "plan.json", {**values, list_: [first, *values[list_][1:]]})
        with pytest.raises(DamagedError, match=rf"{list_}\.0\.{field}: expected .*, found 'much'"):
            run.plan.read()


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
