"""SQL conditions on the place of state rows, those of the moving constraint among them."""

from __future__ import annotations

from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.spec.table_spec import TableSpec
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import Hashes
from partitioning.function.slot_fence import slot_fence_sql
from partitioning.function.sql import check_sql, slot_sql
from partitioning.moves.partial_rows import listed_sql, settled_sql, shared_keys


def of_keys_sql(function: PartitioningFunction, hashes: Hashes) -> str:
    """Write SQL (BOOLEAN) for the state rows of some keys, int64 (K,), at least one."""
    return listed_sql(function.key, function.row_slots, hashes, SLOT)


def belongs_sql(function: PartitioningFunction) -> str:
    """Write SQL (INT) for the channel where a state row belongs."""
    return settled_sql(function, SLOT, CHANNEL)


def rule(*functions: PartitioningFunction) -> str:
    """Write that a row is in place: the channel is one of the functions', and the slot is right."""
    owners = ", ".join(check_sql(f, SLOT) for f in functions)
    slot = slot_sql(functions[0].key, functions[0].row_slots)
    one = f"{CHANNEL} = {owners}" if len(functions) == 1 else f"{CHANNEL} IN ({owners})"
    return f"{one} AND {SLOT} = {slot}"


def misplaced_sql(function: PartitioningFunction) -> str:
    """Write that a row is not in place, or has no slot or channel."""
    return f"NOT coalesce({rule(function)}, false)"


def fence_rule(spec: TableSpec, *functions: PartitioningFunction) -> str:
    """Write the CHECK expression of a table at rest, or while its rows move.

    With `fence: slot` it admits more than `rule`, because it does not see the key. While no row
    may be out of place, jobs therefore put `rule` on such a table, too: `rule` admits less.
    """
    return slot_fence_sql(*functions) if spec.fence == "slot" else rule(*functions)


def moving_rules(
    spec: TableSpec, before: PartitioningFunction, after: PartitioningFunction
) -> list[str]:
    """List the expressions that the moving constraint of a plan may have.

    It admits both functions, or one alone once it is closed to the other, or only what a move
    writes while that holds other writers off.
    """
    shared = shared_keys(before, after)
    return [
        fence_rule(spec, before, after),
        rule(before),
        rule(after),
        held_rule(before, after, shared),
        held_rule(after, before, shared),
    ]


def held_rule(source: PartitioningFunction, target: PartitioningFunction, shared: Hashes) -> str:
    """Write the CHECK expression that admits what a move from one function to another writes.

    These are rows of whole keys away from where the source puts them, and rows of shared keys. So
    it refuses every other writer's rows of keys that do not move, and those routed by the source.

    Parameters
    ----------
    shared : int64 (K,), keys that either function splits
    """
    moved = f"{CHANNEL} <> {check_sql(source.unsplit, SLOT)}"
    if len(shared):
        moved = f"({moved} OR {of_keys_sql(target, shared)})"
    return f"{rule(target)} AND {moved}"
