"""Repair: bring tables to rest from wherever they stand, under a constraint of its own.

It is a job of no run (spark_jobs/evenkeel_spark/migration/repair.py, placement.py). It leads to the
epoch in force; to the next one if a run is decided to publish.
"""

from __future__ import annotations

from tests.model.protocols.protocol import Step
from tests.model.protocols.repair import runs, tables
from tests.model.protocols.repair.runs import start_repair

__all__ = ["REPAIR", "start_repair"]

REPAIR: dict[str, Step] = {
    "decide": runs.decide,
    "settle": runs.settle,
    "mark": runs.mark,
    "bring": tables.bring,
    "look": tables.look,
    "put": tables.put,
    "ask": tables.ask,
    "take back": tables.take_back,
    "drop look": tables.drop_look,
    "drop": tables.drop,
    "strip look": tables.strip_look,
    "strip": tables.strip,
    "next": tables.next_table,
    "place": tables.place,
    "update": tables.update,
    "merge": tables.merge,
    "finish": tables.finish,
    "last look": runs.last_look,
    "create": runs.create,
    "look again": runs.look_again,
    "done": runs.done,
}
