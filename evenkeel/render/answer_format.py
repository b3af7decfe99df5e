"""A command's answer, for people or machines: one option, `--format`, for all commands."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from partitioning.function.canonical import canonical_json


class Format(StrEnum):
    """Format of a command's answer."""

    table = "table"
    json = "json"


As = Annotated[Format, typer.Option("--format", help="table for people, json for machines")]


def answer(
    format: Format,
    facts: Any,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    whole: Collection[str] = (),
) -> None:
    """Print an answer: facts as JSON, or rows as a table.

    Parameters
    ----------
    whole : titles of columns that a narrow console does not cut or wrap while others can shrink
    """
    if format is Format.json:
        sys.stdout.write(canonical_json(facts).decode() + "\n")
        return
    grid = Grid()
    for column in columns:
        grid.add_column(column, no_wrap=column in whole)
    for row in rows:
        # Keys and names come from data: text in brackets must not be read as markup.
        grid.add_row(*map(Text, row))
    Console().print(grid)


def shown_text(value: Any) -> str:
    """Return a value as a cell of a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, dict):
        return "\n".join(f"{k}: {shown_text(v)}" for k, v in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def minute_text(moment: str) -> str:
    """Return a moment in ISO 8601 as its minute in UTC: 2026-11-28 01:14."""
    return datetime.fromisoformat(moment).astimezone(UTC).strftime("%Y-%m-%d %H:%M")
