"""Draw how a key finds its task: key, slot, channel, partition, task."""

from __future__ import annotations

import numpy as np

from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn, key_hash, slot_of
from setup.docs.drawings.canvas import Canvas

KEYS = ("lamp", "teapot", "kettle", "mug", "plate", "vase", "spoon")
HEAVY = "teapot"
SLOTS, CHANNELS = 16, 4
#: Left edge of each column: keys, slots, channels, partitions, tasks.
COLUMNS = (28, 268, 420, 570, 790)
TOP = 92


def example() -> PartitioningFunction:
    """Return a function of four channels: one slot and one heavy key have moved."""
    slots = np.arange(SLOTS) * CHANNELS // SLOTS
    slots[5] = 3
    (heavy,) = key_hash([[HEAVY]], ["string"])
    return PartitioningFunction(
        (KeyColumn("product", "string"),),
        numbered_channels(CHANNELS),
        slots,
        np.array([heavy]),
        np.array([0]),
    )


def draw() -> Canvas:
    """Return the drawing."""
    told = (
        "Each key is hashed to a slot. A slot belongs to a channel. A heavy key has its own arrow."
    )
    sheet = Canvas(900, 470, "From a key to its task", told)
    heads = ("key", "slot", "channel", "partition", "task")
    for x, head in zip(COLUMNS, heads, strict=True):
        sheet.text(x, 34, head, size=17, bold=True)
    notes = (
        "a product, a customer",
        f"hash mod {SLOTS}",
        "the plan decides",
        "of each state table",
        "of your job",
    )
    for x, note in zip(COLUMNS, notes, strict=True):
        sheet.text(x, 56, note, "muted", size=12)
    function = example()
    _keys(sheet, function)
    _channels(sheet, function)
    sheet.text(
        COLUMNS[0],
        448,
        f"{HEAVY} is heavy, so it is pinned. Slot 5 has moved to channel 3. All else stays "
        "where it was.",
        "muted",
        size=12.5,
    )
    return sheet


def _slot_y(slot: int) -> float:
    return TOP + 21 * slot + 9


def _channel_y(channel: int) -> float:
    return TOP + 84 * channel + 40


def _keys(sheet: Canvas, function: PartitioningFunction) -> None:
    """Draw the keys, in the order of their slots, each with a line to its slot or its channel."""
    hashes = key_hash([list(KEYS)], ["string"])
    slots, owners = slot_of(hashes, SLOTS), function.lookup(list(KEYS))
    heavy = KEYS.index(HEAVY)
    order = [heavy, *(at for at in np.argsort(slots, kind="stable").tolist() if at != heavy)]
    for place, at in enumerate(order):
        y, slot, owner = TOP + 49 * place + 16, int(slots[at]), int(owners[at])
        sheet.box(COLUMNS[0], y - 15, 96, 30)
        sheet.text(COLUMNS[0] + 12, y, KEYS[at], bold=KEYS[at] == HEAVY, mono=True)
        if KEYS[at] == HEAVY:
            over = (COLUMNS[1] + 21, TOP - 12)
            sheet.curve((COLUMNS[0] + 98, y), over, f"c{owner}", thick=3)
            sheet.curve(
                over, (COLUMNS[2] - 3, _channel_y(owner) - 14), f"c{owner}", thick=3, arrow=True
            )
        else:
            end = (COLUMNS[1] - 3, _slot_y(slot))
            sheet.curve((COLUMNS[0] + 98, y), end, f"c{owner}", arrow=True)


def _channels(sheet: Canvas, function: PartitioningFunction) -> None:
    """Draw slots, channels, partitions and tasks."""
    for slot, owner in enumerate(function.slots.tolist()):
        y = _slot_y(slot)
        sheet.curve((COLUMNS[1] + 42, y), (COLUMNS[2] - 3, _channel_y(owner)), f"c{owner}", thick=1)
        sheet.box(COLUMNS[1], y - 9, 42, 18, f"c{owner}", round=3)
        sheet.text(COLUMNS[1] + 21, y, str(slot), "paper", size=11, anchor="middle", bold=True)
    for channel in range(CHANNELS):
        y, color = _channel_y(channel), f"c{channel}"
        sheet.box(COLUMNS[2], y - 26, 92, 52, color)
        sheet.text(COLUMNS[2] + 46, y, f"channel {channel}", "paper", anchor="middle", bold=True)
        sheet.line([(COLUMNS[2] + 94, y), (COLUMNS[3] - 4, y)], color, arrow=True)
        sheet.box(COLUMNS[3], y - 26, 150, 52, "panel", line=color)
        sheet.text(COLUMNS[3] + 14, y - 9, f"channel={channel}/", color, mono=True, bold=True)
        for at in range(5):
            sheet.box(COLUMNS[3] + 14 + 25 * at, y + 6, 20, 10, color, round=2, faint=0.35)
        sheet.line([(COLUMNS[3] + 152, y), (COLUMNS[4] - 4, y)], color, arrow=True)
        sheet.box(COLUMNS[4], y - 26, 84, 52, "panel", line=color, round=26)
        sheet.text(COLUMNS[4] + 42, y, f"task {channel}", color, anchor="middle", bold=True)
