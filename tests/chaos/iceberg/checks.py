"""Whether all is well with Iceberg tables after a fault."""

from __future__ import annotations

from pyspark.sql import Row, SparkSession

from evenkeel.registry.epochs import Epoch
from evenkeel_spark.tables.iceberg.table import IcebergTable
from evenkeel_spark.tables.table_properties import BEFORE_PROPERTY
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import key_hash, slot_of
from tests.chaos.iceberg.copies import opened
from tests.chaos.iceberg.rows import Content, contents
from tests.conftest import World


def check_tables(spark: SparkSession, world: World, epoch: Epoch) -> None:
    """See that tables admit writers by an epoch, that each row is where it has it, now and in the
    snapshots that it was published with, and that no branch is left."""
    spark, world = opened(spark, world)
    for name, part in world.table.spec.state.items():
        one = IcebergTable(spark, part.path)
        one.refresh()
        assert one.epoch() == epoch.number, f"{name}: its column is of epoch {one.epoch()}"
        assert list(one.refs()) == ["main"], f"{name}: branches are left: {one.refs()}"
        # Epoch 0 of an adoption is published before the first row is placed. A table may have
        # joined since.
        is_known = name in epoch.tables and (epoch.number or not part.plain)
        published = [epoch.tables[name].version] if is_known else []
        for at in (None, *published):
            stray = misplaced(epoch.function, one.rows(at).collect())
            assert not stray, f"{name}, snapshot {at}: misplaced: {len(stray)}: {stray[:3]}"


def misplaced(function: PartitioningFunction, rows: list[Row]) -> list[Row]:
    """Return the rows whose slot or channel is not their key's."""
    hashes = key_hash([[r["dest"] for r in rows]], [c.type for c in function.key])
    channels = function.lookup_hashes(hashes).tolist()
    slots = slot_of(hashes, function.row_slots).tolist()
    places = zip(rows, slots, channels, strict=True)
    return [r for r, slot, channel in places if (r["slot"], r["channel"]) != (slot, channel)]


def check_team(spark: SparkSession, world: World, step: str, expected: Content) -> None:
    """See that an adoption or a release is done, and that nothing is lost."""
    assert contents(spark, world) == expected, "rows lost or doubled"
    registry = world.table.registry
    assert registry.files.released.exists() == (step == "release")
    assert registry.numbers() == [0]
    if step == "adopt":
        check_tables(spark, world, registry.current())
        return
    spark, world = opened(spark, world)
    for name, part in world.table.spec.state.items():
        one = IcebergTable(spark, part.path)
        one.refresh()
        assert one.epoch() is None, f"{name}: has the column slot_{one.epoch()}"
        assert list(one.refs()) == ["main"], f"{name}: branches are left: {one.refs()}"
        assert one.partitions() == (["day"] if name == "orders" else [])
        # The channel is left to a table with partitions of its own, with a note of whose it is.
        left = [BEFORE_PROPERTY] if "channel" in one.schema().names else []
        assert [p for p in one.properties() if "evenkeel" in p] == left
        assert name == "orders" or not left
