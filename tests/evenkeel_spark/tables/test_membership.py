"""A spec with other state tables than the registry knows, and how each of them may leave."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from evenkeel.registry.epochs import TableVersion
from evenkeel_spark.tables.membership import check_members
from partitioning.errors import InputError
from partitioning.function.hashing import KeyColumn
from partitioning.strategies.hashing import first_function
from tests.conftest import SEEN, SPEC, World

COLUMNS = {"totals": SPEC["state"]["totals"]["columns"], "seen": SEEN["columns"]}


def made(folder: Path, iceberg: bool, plain: bool) -> World:
    """Publish an epoch of two tables, and leave one of them out of the spec."""

    def part(name: str) -> dict[str, object]:
        holds: dict[str, object] = {"rows": "one"} if plain else {"columns": COLUMNS[name]}
        where = {"path": f"lake.db.{name}", "format": "iceberg"}
        return {**holds, **(where if iceberg else {"path": f"state/{name}"})}

    world = World(folder)
    Path(world.spec_path).write_text(yaml.safe_dump(SPEC))
    world.respec(state={name: part(name) for name in COLUMNS})
    table = world.table
    function = first_function(
        (KeyColumn("dest", "string"),), table.spec.slots, table.spec.channel_list()
    )
    versions = {name: TableVersion(p.path, 0) for name, p in table.spec.state.items()}
    table.registry.publish(function, versions)
    return world.respec(state={"totals": part("totals")})


@pytest.mark.parametrize(
    ("iceberg", "plain", "way"),
    [
        (False, False, "evolve trips --drop seen`, or for a table that was adopted `evenkeel rel"),
        (False, True, "evolve trips --drop seen`, or for a table that was adopted `evenkeel rel"),
        (True, False, "evolve trips --drop seen`, or for a table that was adopted `evenkeel rel"),
        (True, True, "To let it go: `evenkeel release` with a spec of that table alone"),
    ],
)
def test_a_table_that_is_there_may_not_be_left_out(
    tmp_path: Path, iceberg: bool, plain: bool, way: str
) -> None:
    spec = made(tmp_path, iceberg, plain).table.spec
    with pytest.raises(InputError, match="'seen', and the spec has not") as refused:
        check_members(spec, lambda path: "trips")
    assert way in str(refused.value)


@pytest.mark.parametrize("iceberg", [False, True])
def test_a_table_that_was_released_is_not_missed(tmp_path: Path, iceberg: bool) -> None:
    check_members(made(tmp_path, iceberg, True).table.spec, lambda path: None)


@pytest.mark.parametrize("iceberg", [False, True])
def test_a_table_that_evenkeel_made_does_not_leave_by_itself(tmp_path: Path, iceberg: bool) -> None:
    """Evolve alone lets it go."""
    with pytest.raises(InputError, match="'seen', and the spec has not"):
        check_members(made(tmp_path, iceberg, False).table.spec, lambda path: None)
