"""Evenkeel: keeps keyed state evenly spread.

>>> import evenkeel                                     # doctest: +SKIP
>>> epoch = evenkeel.open_table("flights").epoch()      # doctest: +SKIP
>>> epoch.lookup(["ORD", "JFK"])                        # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenkeel.registry.consistent_read import Snapshot
    from evenkeel.registry.epochs import Epoch
    from evenkeel.table import Table, open_table
    from partitioning.function.function import PartitioningFunction

#: Between releases that of the next one, with .dev0: a wheel from main is not taken for a release.
__version__ = "0.2.0.dev0"

__all__ = ["Epoch", "PartitioningFunction", "Snapshot", "Table", "__version__", "open_table"]

#: Public name -> its module. A scheduler parses DAG files every few seconds, and each of them
#: imports this package: NumPy and Arrow are imported on first use.
_MODULES = {
    "Epoch": "evenkeel.registry.epochs",
    "PartitioningFunction": "partitioning.function.function",
    "Snapshot": "evenkeel.registry.consistent_read",
    "Table": "evenkeel.table",
    "open_table": "evenkeel.table",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """List the public names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
