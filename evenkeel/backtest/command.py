"""`evenkeel backtest`: the command's face; `backtest`, `windows` and `inputs` do the work."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evenkeel.backtest import scoring as tests
from evenkeel.backtest.scoring import Forecasts
from partitioning.errors import InputError


class Lines(StrEnum):
    """How a backtest answers."""

    table = "table"
    jsonl = "jsonl"


def backtest(
    input: Annotated[
        str, typer.Argument(help="Parquet, CSV, or text of one key a line (column `line`)")
    ],
    key: Annotated[str, typer.Option(metavar="COL[,COL]", help="columns of the key")],
    channels: Annotated[str, typer.Option(metavar="N[,N...]", help="numbers of channels")],
    strategy: Annotated[
        str, typer.Option(metavar="NAME[,NAME...]", help="strategies to compare")
    ] = "frontier",
    weight: Annotated[
        str | None, typer.Option(metavar="COL", help="column of each row's load; default: 1 a row")
    ] = None,
    rows: Annotated[int | None, typer.Option(metavar="N", help="rows of a window")] = None,
    time: Annotated[str | None, typer.Option(metavar="COL", help="column of time")] = None,
    every: Annotated[
        str | None,
        typer.Option(help="span of a window of time: a number and s, m, h, d or w; default: 1d"),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME.k=v", help="an option of a strategy")
    ] = None,
    forecast: Annotated[
        Forecasts,
        typer.Option(
            help="who plans for a forecast of the next window, not for the one learned: frontier "
            "of its own, none, or all; oracle tells all the next window itself"
        ),
    ] = Forecasts.own,
    pieces: Annotated[
        int, typer.Option(help="sketches of a window that forecasts are made from")
    ] = tests.PIECES,
    limit: Annotated[int | None, typer.Option(metavar="ROWS", help="rows to read at most")] = None,
    format: Annotated[
        Lines, typer.Option(help="table of means for people, a line a score for machines")
    ] = Lines.table,
    html: Annotated[
        str | None, typer.Option(metavar="OUT", help="also write a page with pictures")
    ] = None,
) -> None:
    """Compare strategies on past data: each function is scored on the next, unseen window."""
    from evenkeel.backtest.console import followed, show
    from evenkeel.backtest.windows import read_series

    names = tests.parse_names(strategy, "--strategy")
    counts, options = tests.parse_channels(channels), tests.parse_options(option or [])
    tests.check(names, counts, options)
    if html and not Path(html).parent.is_dir():
        raise InputError("its folder does not exist", html, "Make it first")
    if html and Path(html).is_dir():
        raise InputError("is a folder", html, "Name a file in it")
    series = read_series(
        input,
        tests.parse_names(key, "--key"),
        weight=weight,
        rows=rows,
        time=time,
        every=every,
        limit=limit,
    )
    for note in series.notes:
        sys.stderr.write(f"evenkeel: {note}\n")
    total = (len(series.windows) - 1) * len(names) * len(counts)
    run = tests.backtest(series, names, counts, options, forecasts=forecast, pieces=pieces)
    scores = followed(run, total)
    kept = []
    for score in scores:
        kept.append(score)
        if format is Lines.jsonl:
            sys.stdout.write(score.to_json() + "\n")
    if format is Lines.table:
        show(kept, len(series.windows) - 1)
    if html:
        from evenkeel.backtest.page import write_page

        write_page(html, kept, f"Strategies on {Path(input).name}")
