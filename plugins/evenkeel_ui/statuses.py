"""Status of every table for the overview, read again as far as time allows.

To read a table's files takes a millisecond or two, so to read a thousand tables takes seconds. Each
request reads tables for a limited time, and shows all of them. First come those that may stand half
moved: a run of theirs goes on or has failed. Then come those that were never read, for longer, and
those that were read longest ago. So a few tables are always read again, and the page says how old
each table's figures are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock

from evenkeel.inspect.half_moved import HalfMoved
from evenkeel.inspect.load_history import over_since
from evenkeel.inspect.status import table_status
from evenkeel.quality.data_docs import Page
from evenkeel.spec.table_spec import TableSpec
from evenkeel.table import Table
from partitioning.errors import EvenkeelError

#: Tables that each request reads at least, whatever the time.
MIN_TABLES = 1
#: Seconds of reading, first of urgent tables and then of others, after which a request shows the
#: rest as they were read before.
SECONDS = 0.3
#: The same for tables that were never read: it is enough for a thousand of them on a local disk.
FIRST_SECONDS = 2.0
#: Before any moment: when something happened that never has.
NEVER = datetime.min.replace(tzinfo=UTC)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d)[-:](\d\d)[-:](\d\d)")


@dataclass(frozen=True)
class TableRow:
    """Figures of a table that the overview shows; None: there is none.

    Parameters
    ----------
    share : load of the fullest channel over its fair share
    planned : bytes that the plan of the epoch moves
    learned : when the newest profile was learned
    unreadable : a file is damaged, or the store does not answer
    since : when this process first found it unreadable, UTC; None: it can be read
    over : whether its imbalance wants a rebalance, as `TableStatus.limit` has it
    over_since : end of the first window since which every one was over that limit, as text
    read : when the files were read, UTC
    """

    spec: TableSpec
    epoch: int | None = None
    published: str | None = None
    imbalance: float | None = None
    floor: float | None = None
    fullest: str | None = None
    share: float | None = None
    planned: float | None = None
    state: float | None = None
    learned: datetime | None = None
    gates: tuple[Page, ...] = ()
    problems: tuple[str, ...] = ()
    half: HalfMoved | None = None
    unreadable: bool = False
    since: datetime | None = None
    over: bool = False
    over_since: str | None = None
    read: datetime | None = None

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.spec.table

    @property
    def updated(self) -> datetime | None:
        """When its figures came up: with the newest profile, else with the epoch."""
        return self.learned or (_moment(self.published) if self.published else None)

    @property
    def measured(self) -> bool:
        """Whether the imbalance is known."""
        return self.imbalance is not None


class Statuses:
    """The newest rows of all tables, kept in this process."""

    def __init__(self) -> None:
        self._rows: dict[str, TableRow] = {}
        self._lock = Lock()

    def rows(
        self,
        specs: Sequence[TableSpec],
        seconds: float = SECONDS,
        first: float = FIRST_SECONDS,
        urgent: Collection[str] = (),
    ) -> list[TableRow]:
        """Return a row of each table; those not read yet have no figures.

        Parameters
        ----------
        seconds : of reading, for urgent tables and again for others; then older rows are shown
        first : the same, while there are tables that were never read
        urgent : tables that are read before the others, as are those that were half moved
        """
        with self._lock:
            known = dict(self._rows)
        # The same name in an edited spec is another table.
        known = {s.table: r for s in specs if (r := known.get(s.table)) and r.spec == s}
        urgent = {*urgent, *(name for name, row in known.items() if row.half)}
        count = 0
        oldest = sorted(specs, key=lambda s: _read(known.get(s.table)))
        for group in (
            [s for s in oldest if s.table in urgent],
            [s for s in oldest if s.table not in urgent],
        ):
            began = time.monotonic()
            for spec in group:
                allowed = seconds if spec.table in known else first
                if count >= MIN_TABLES and time.monotonic() - began > allowed:
                    break
                row = _since(_row_or_error(spec), known.get(spec.table))
                with self._lock:
                    self._rows[spec.table] = known[spec.table] = row
                count += 1
        return [known.get(spec.table) or TableRow(spec) for spec in specs]


def _read(row: TableRow | None) -> datetime:
    return NEVER if row is None or row.read is None else row.read


def _since(row: TableRow, before: TableRow | None) -> TableRow:
    """Return the row with the moment since when it is known that it cannot be read."""
    return replace(row, since=(before and before.since) or row.read) if row.unreadable else row


def _row_or_error(spec: TableSpec) -> TableRow:
    """Return the row of a table; if reading it fails, a row that says why.

    No exception about one table may take the rows of the others away.
    """
    try:
        return _row(spec)
    except Exception as error:
        why = str(error) if isinstance(error, EvenkeelError) else f"{type(error).__name__}: {error}"
        return TableRow(spec, problems=(why,), unreadable=True, read=datetime.now(UTC))


def _row(spec: TableSpec) -> TableRow:
    """Read a table's files."""
    table = Table(spec)
    now = table_status(table)
    epoch, learned, fullest = now.epoch, now.learned, now.fullest
    over = now.imbalance is not None and now.imbalance > now.limit
    return TableRow(
        spec,
        epoch=epoch.number if epoch else None,
        published=epoch.published if epoch else None,
        imbalance=now.imbalance,
        floor=now.floor,
        fullest=epoch.function.channels[fullest].name if epoch and fullest is not None else None,
        share=now.shares[fullest] if now.shares and fullest is not None else None,
        planned=now.plan.bytes if now.plan else None,
        state=float(learned.profile.bytes.sum()) if learned else None,
        learned=_moment(learned.at or learned.source) if learned else None,
        gates=now.gates,
        problems=now.problems,
        half=now.half,
        unreadable=now.unreadable,
        over=over,
        over_since=over_since(table.registry, now.limit) if over else None,
        read=datetime.now(UTC),
    )


def _moment(text: str) -> datetime | None:
    """Return the moment in a run's name, of a profile or of an epoch; all are in UTC."""
    found = _MOMENT.search(text)
    if found is None:
        return None
    day, *clock = found.groups()
    return datetime.fromisoformat(f"{day}T{':'.join(clock)}").replace(tzinfo=UTC)


#: Those of this process.
STATUSES = Statuses()
