"""The command `evenkeel backtest`: its options; `scoring`, `windows` and `inputs` do the work."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evenkeel.backtest import scoring
from evenkeel.backtest.arguments import parse_channels, parse_names, parse_options
from evenkeel.backtest.scoring import Forecasts
from partitioning.errors import InputError


class Lines(StrEnum):
    """Format of the output of a backtest."""

    table = "table"
    jsonl = "jsonl"


Input = Annotated[
    str, typer.Argument(help="Parquet, CSV, or text with one key per line (column `line`)")
]
Key = Annotated[str, typer.Option(metavar="COL[,COL]", help="columns of the key")]
Channels = Annotated[str, typer.Option(metavar="N[,N...]", help="numbers of channels")]
Strategy = Annotated[str, typer.Option(metavar="NAME[,NAME...]", help="strategies to compare")]
Weight = Annotated[
    str | None, typer.Option(metavar="COL", help="column of each row's load; default: 1 per row")
]
Rows = Annotated[int | None, typer.Option(metavar="N", help="rows per window")]
Time = Annotated[str | None, typer.Option(metavar="COL", help="column of the time")]
Every = Annotated[
    str | None,
    typer.Option(help="length of a window in time: a number and s, m, h, d or w; default: 1d"),
]
Option = Annotated[
    list[str] | None, typer.Option(metavar="NAME.k=v", help="an option of a strategy")
]
Forecast = Annotated[
    Forecasts,
    typer.Option(
        help="strategies that plan for a forecast of the next window: own (frontier alone), "
        "none, or all; oracle gives all of them the next window itself"
    ),
]
Decay = Annotated[
    float | None,
    typer.Option(help="weight of a window against the one after it; default: found by error"),
]
Hashes = Annotated[
    int, typer.Option(help="play all so often, each time with other hashes of the keys")
]
Limit = Annotated[int | None, typer.Option(metavar="ROWS", help="read at most this many rows")]
Format = Annotated[Lines, typer.Option(help="a table of means, or one JSON line per score")]
Html = Annotated[str | None, typer.Option(metavar="OUT", help="also write a page with charts")]


def backtest(
    input: Input,
    key: Key,
    channels: Channels,
    strategy: Strategy = "frontier",
    weight: Weight = None,
    rows: Rows = None,
    time: Time = None,
    every: Every = None,
    option: Option = None,
    forecast: Forecast = Forecasts.own,
    decay: Decay = None,
    hashes: Hashes = 1,
    limit: Limit = None,
    format: Format = Lines.table,
    html: Html = None,
) -> None:
    """Compare strategies on past data; score each function on the next, unseen window."""
    from evenkeel.backtest.console import followed, print_scores
    from evenkeel.backtest.windows import read_series

    names = parse_names(strategy, "--strategy")
    counts, options = parse_channels(channels), parse_options(option or [])
    scoring.check_inputs(names, counts, options)
    if html and not Path(html).parent.is_dir():
        raise InputError("the folder of this file does not exist", html, "Create the folder first")
    if html and Path(html).is_dir():
        raise InputError("must be a file, found a folder", html, "Name a file in it")
    series = read_series(
        input,
        parse_names(key, "--key"),
        weight=weight,
        rows=rows,
        time=time,
        every=every,
        limit=limit,
    )
    for note in series.notes:
        sys.stderr.write(f"evenkeel: {note}\n")
    total = (len(series.windows) - 1) * len(names) * len(counts) * hashes
    run = scoring.backtest(
        series,
        names,
        counts,
        options,
        forecasts=forecast,
        decay=decay,
        hashes=hashes,
    )
    scores = followed(run, total)
    kept = []
    for score in scores:
        kept.append(score)
        if format is Lines.jsonl:
            sys.stdout.write(score.to_json() + "\n")
    if format is Lines.table:
        print_scores(kept, len(series.windows) - 1)
    if html:
        from evenkeel.backtest.page import write_page

        write_page(html, kept, f"Strategies on {Path(input).name}")
