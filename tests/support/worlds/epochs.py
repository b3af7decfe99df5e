"""Functions of two epochs, one after the other, and the versions of a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenkeel.registry.epochs import TableVersion
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn

TABLES = {"t": TableVersion("state/t", 3)}


def first():
    return PartitioningFunction(
        (KeyColumn("k", "string"),), numbered_channels(2), np.arange(8) % 2, strategy="uniform"
    )


def after(function, slots=None):
    return replace(
        function,
        epoch=function.epoch + 1,
        parent=function.digest,
        slots=function.slots if slots is None else slots,
    )
