"""Show a replay: the progress of each table, and the results at the end."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from evenkeel.demo.table_run import Round, TableRun
from partitioning.planning.decide import Decision
from partitioning.strategies.hashing import uniform
from partitioning.workload.bounds import floor
from partitioning.workload.metrics import imbalance_of
from partitioning.workload.profile import Profile


@dataclass(frozen=True)
class RunResult:
    """Result of one run; None means not measured, or nothing moved.

    Parameters
    ----------
    hashing, before, after, floor : imbalances on the window that the run learned from
    next : imbalance of the run's placement on the following window, which it had not seen
    bytes, share : state that changed channel, in bytes and as a share of all state
    written : bytes that Delta wrote to move it
    migrate_seconds : time of the UPDATEs alone
    seconds : time of the round, with all its processes
    """

    window_end: str
    epoch: int | None
    hashing: float
    before: float
    after: float | None
    floor: float
    next: float | None
    bytes: float
    share: float
    written: int
    migrate_seconds: float | None
    seconds: float
    reason: str
    gates: bool
    report: str | None


@dataclass(frozen=True)
class TableSummary:
    """Result of the replay of a table.

    Parameters
    ----------
    passed : every run and every gate passed
    whole : floor of the last window without splitting keys; None if the spec splits no keys
    plans : of the join of a team's own tables, before they were adopted and as they are
    """

    table: str
    lines: tuple[RunResult, ...]
    passed: bool
    whole: float | None = None
    plans: dict[str, list[str]] | None = None


def summarize(table_run: TableRun) -> TableSummary:
    """Return the results of a table's rounds."""
    unseen = [_decided(r).imbalance for r in table_run.rounds[1:]]
    lines = tuple(
        _line(table_run, r, following)
        for r, following in zip(table_run.rounds, [*unseen, None], strict=False)
    )
    passed = table_run.error is None and all(line.gates for line in lines)
    whole = None
    if table_run.rounds and table_run.table.spec.split is not None:
        whole = floor(
            _profile(table_run, table_run.rounds[-1]), table_run.table.spec.channel_list()
        )
    return TableSummary(table_run.name, lines, passed, whole, table_run.plans)


def _line(table_run: TableRun, run: Round, following: float | None) -> RunResult:
    parts, decision = run.parts, _decided(run)
    plan, moved = parts.plan, parts.migration
    tables = moved.tables.values() if moved else ()
    gates = [g for g in (parts.gate_plan, parts.gate_tables) if g]
    return RunResult(
        window_end=run.end.isoformat(),
        epoch=parts.published,
        hashing=_hashing(table_run, _profile(table_run, run)),
        before=decision.imbalance,
        after=plan.imbalance_after if plan else None,
        floor=decision.floor,
        next=following,
        bytes=plan.bytes if plan else 0.0,
        share=plan.bytes / plan.state_bytes if plan and plan.state_bytes else 0.0,
        written=sum(t.bytes for t in tables),
        migrate_seconds=sum(t.seconds for t in tables) if moved else None,
        seconds=run.seconds,
        reason=decision.reason,
        gates=all(gate.success for gate in gates),
        report=run.report,
    )


def _decided(run: Round) -> Decision:
    assert run.parts.decision is not None
    return run.parts.decision


def _profile(table_run: TableRun, run: Round) -> Profile:
    return table_run.table.registry.run(run.parts.run).profile.read()


def _hashing(table_run: TableRun, profile: Profile) -> float:
    """Return the imbalance of hashing alone on a run's window."""
    function = uniform(profile, None, table_run.table.spec.channel_list())
    return imbalance_of(function, profile)


def print_json(found: list[TableSummary], seconds: float) -> None:
    """Print all results as JSON."""
    value = {"seconds": round(seconds, 1), "tables": [asdict(o) for o in found]}
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


#: Heading of each column -> text of its cell.
COLUMNS: dict[str, Callable[[RunResult], str]] = {
    "epoch": lambda line: "as before" if line.epoch is None else str(line.epoch),
    "window to": lambda line: line.window_end,
    "hashing alone": lambda line: _number(line.hashing),
    "before": lambda line: _number(line.before),
    "after": lambda line: _number(line.after),
    "floor": lambda line: _number(line.floor),
    "next window": lambda line: _number(line.next),
    "bytes moved": lambda line: f"{line.bytes:,.0f}",
    "written": lambda line: f"{line.written:,}",
    "of state": lambda line: f"{line.share:.1%}",
    "migrate s": lambda line: _number(line.migrate_seconds, 1),
    "round s": lambda line: _number(line.seconds, 0),
}


def print_tables(found: list[TableSummary], seconds: float) -> None:
    """Print one table of results for each table, then the paths of the reports."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    for each in found:
        whole = "" if each.whole is None else f"; {each.whole:.3f} at best without splitting keys"
        grid = Grid(
            title=f"{each.table}: imbalance of load over channels (1 is perfect{whole})",
            title_justify="left",
        )
        for name in COLUMNS:
            # Headings may wrap, values may not.
            grid.add_column(name.replace(" ", "\n"), justify="right")
        for line in each.lines:
            grid.add_row(*(shown(line) for shown in COLUMNS.values()))
        console.print()
        console.print(grid)
        for line in each.lines:
            if line.epoch is None:
                console.print(f"  {line.window_end}: not rebalanced, {line.reason}", style="dim")
        if each.plans is not None:
            console.print(_plans(each))
        for line in each.lines[-1:]:
            console.print(f"  report: {line.report}", soft_wrap=True, highlight=False)
    passed = all(o.passed for o in found)
    console.print()
    console.print(
        f"{'Every run and gate passed' if passed else 'FAILED'}, {seconds:.0f} s in total",
        style="bold green" if passed else "bold red",
    )


def _plans(of: TableSummary) -> Grid:
    """Return both plans of a join, side by side, with the shuffles of each."""
    assert of.plans is not None
    grid = Grid(title=f"{of.table}: its tables joined by key, same rows", title_justify="left")
    texts = []
    for name, lines in of.plans.items():
        shuffles = sum("Exchange" in line for line in lines)
        grid.add_column(f"{name}: {shuffles} shuffles")
        texts.append(Text("\n".join(lines)))
    grid.add_row(*texts)
    return grid


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


class View:
    """Show progress: on a terminal one live line per table, else one line per finished step.

    Parameters
    ----------
    quiet : write plain lines to stderr, because stdout is for machines
    """

    def __init__(self, quiet: bool = False) -> None:
        self._console = Console(stderr=quiet)
        self._moving = self._console.is_terminal and not quiet
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._now: dict[str, tuple[str, float]] = {}

    def note(self, text: str) -> None:
        """Print one line with the time since the start."""
        self._console.print(f"[{self._elapsed():4.0f} s] {text}", markup=False, highlight=False)

    def say(self, table: str, step: str, seconds: float | None) -> None:
        """Show a table's current step and the time of its last one; threads may call it.

        Parameters
        ----------
        step : what the table does now; "" if nothing for the moment
        seconds : time of the step before; None if there was none
        """
        with self._lock:
            before = self._now.get(table)
            if seconds is not None and before and before[0] and not self._moving:
                self.note(f"{table:<12} {before[0]:<28} {seconds:5.1f} s")
            if step or seconds is not None:
                self._now[table] = (step, time.monotonic())
            if step in ("done", "failed", "stopped"):
                self.note(f"{table:<12} {step}")

    @contextmanager
    def live(self) -> Iterator[None]:
        """Update the lines on a terminal until the block ends."""
        if not self._moving:
            yield
            return
        with Live(
            console=self._console,
            refresh_per_second=4,
            transient=True,
            get_renderable=self._grid,
        ):
            yield

    def _grid(self) -> Any:
        grid = Grid.grid(padding=(0, 2))
        now = time.monotonic()
        with self._lock:
            for table, (step, began) in self._now.items():
                grid.add_row(table, step, f"{now - began:.0f} s")
        grid.add_row("", "", f"{self._elapsed():.0f} s in total")
        return grid

    def _elapsed(self) -> float:
        return time.monotonic() - self._began
