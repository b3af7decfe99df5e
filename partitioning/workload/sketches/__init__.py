"""Sketches of a stream: the keys that carry most of it, in little memory, within a bound.

Each takes batches of key hashes and their load, is merged with others of its kind, and gives a
`partitioning.workload.profile.Sketch`, as exact counting does.
"""

from partitioning.workload.sketches.key_counter import KeyCounter
from partitioning.workload.sketches.lossy import LossyCounting
from partitioning.workload.sketches.space_saving import SpaceSaving

__all__ = ["KeyCounter", "LossyCounting", "SpaceSaving"]
