"""How even a function is on a profile."""

from partitioning.workload.metrics import channel_loads, imbalance


def reached(profile, function) -> float:
    return imbalance(channel_loads(function, profile), function.capacities)
