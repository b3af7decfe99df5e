"""Commands of the console about runs: what became of each, and what it cost."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from evenkeel.registry.profiles import run_names
from evenkeel.render.answer_format import As, Format, answer
from evenkeel.render.formatting import bytes_text, imbalance_text
from evenkeel.runs.figures import break_even, numbers
from evenkeel.runs.record import RunParts, headline, read_run
from evenkeel.spark_commands import TableName
from evenkeel.table import Table, open_table
from partitioning.errors import InputError

#: Title of a column of names, which a narrow console must not cut: they are there to be copied.
_RUN_TITLE = "run, and its result"


def runs(
    table: TableName,
    last: Annotated[int, typer.Option(min=1, metavar="N", help="list the newest N runs")] = 20,
    format: As = Format.table,
) -> None:
    """List a table's runs, newest first, and what became of each."""
    found = open_table(table)
    problems: list[str] = []
    names = run_names(found.registry)[:last]
    facts = [_summary(_read(found, name, problems)) for name in names]
    # A run with a damaged file hides no other one.
    sys.stderr.writelines(f"evenkeel: note: {text}\n" for text in dict.fromkeys(problems))
    rows = [[f"{f['run']}\n{f['result']}", _balance(f)] for f in facts]
    answer(format, facts, [_RUN_TITLE, "imbalance, bytes"], rows, whole=[_RUN_TITLE])


def cost(
    table: TableName,
    run: Annotated[
        str | None,
        typer.Argument(help="its name, as `evenkeel runs` lists it; default: the newest plan's"),
    ] = None,
    format: As = Format.table,
) -> None:
    """Show what a run was predicted to cost, and what it cost."""
    found = open_table(table)
    names = run_names(found.registry)
    if run is not None and run not in names:
        raise InputError(
            f"expected the name of a run, found {run!r}",
            f"{found.registry.url}/runs",
            f"Give one that `evenkeel runs {found.spec.table}` lists",
        )
    planned = (name for name in names if found.registry.run(name).plan.exists())
    run = run or next(planned, None)
    if run is None:
        raise InputError(
            "no run has made a plan yet",
            f"{found.registry.url}/runs",
            "Start one; a dry run makes one, too",
        )
    parts = _read(found, run)
    rows = [[f.title, *f.texts] for f in parts.figures]
    rows.append(["break-even", break_even(parts.prediction, found.spec.horizon)[0], ""])
    if format is Format.table:
        sys.stdout.write(f"{run}\n")
    facts = {"run": run, "plan": parts.plan and parts.plan.digest, **numbers(parts.figures)}
    answer(format, facts, ["what", "predicted", "measured"], rows)


def _read(found: Table, run: str, problems: list[str] | None = None) -> RunParts:
    return read_run(found.spec.table, found.registry, found.registry.run(run), problems)


def _summary(parts: RunParts) -> dict[str, Any]:
    plan = parts.plan
    return {
        "run": parts.run,
        "result": headline(parts)[0],
        "epoch": parts.epoch,
        "published": parts.published,
        "rolled_back": parts.rolled_back,
        "imbalance_before": plan and plan.imbalance_before,
        "imbalance_after": plan and plan.imbalance_after,
        "bytes": plan and plan.bytes,
    }


def _balance(facts: dict[str, Any]) -> str:
    """Return the imbalance before and after a plan, and its bytes, for people."""
    if facts["bytes"] is None:
        return "-"
    before, after = (imbalance_text(facts[f"imbalance_{when}"]) for when in ("before", "after"))
    return f"{before} to {after}\n{bytes_text(facts['bytes'])}"
