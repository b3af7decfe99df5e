"""Evenkeel: keeps keyed state evenly spread.

>>> import evenkeel                                     # doctest: +SKIP
>>> epoch = evenkeel.open_table("flights").epoch()      # doctest: +SKIP
>>> epoch.lookup(["ORD", "JFK"])                        # doctest: +SKIP
"""

from evenkeel.table import Table, open_table

__all__ = ["Table", "open_table"]
