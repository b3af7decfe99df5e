"""Show a backtest on a terminal: progress while it runs, a table of means at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from evenkeel.backtest.scoring import Score

#: Columns of the table; they fit a terminal of 80 characters.
COLUMNS = (
    "strategy", "N", "imbalance", "worst", "floor", "learned", "moved", "keys", "explicit",
    "copies", "plan s",
)  # fmt: skip
LEGEND = (
    "N: channels. All values but worst are means over {windows} windows. imbalance: load of the "
    "fullest channel over the mean, on the next, unseen window; worst: its highest value. floor: "
    "least imbalance there without splitting a key. learned: imbalance on the window learned "
    "from. moved, keys: share of the load, and keys, that changed channel. explicit: keys placed "
    "or split by name. copies: channels per key on the next window."
)


def followed(scores: Iterable[Score], total: int) -> Iterator[Score]:
    """Yield the scores; if stderr is a terminal, show a progress bar there."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("backtest", total=total)
        for score in scores:
            progress.update(
                task, advance=1, description=f"{score.strategy}, {score.channels} channels"
            )
            yield score


def means(scores: Iterable[Score]) -> list[list[str]]:
    """Return a row of `COLUMNS` for each strategy and number of channels, in order of arrival."""
    groups: dict[tuple[str, int], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.strategy, score.channels), []).append(score)
    return [
        [
            strategy,
            str(channels),
            f"{_mean(group, 'imbalance'):.3f}",
            f"{max(s.imbalance for s in group):.3f}",
            f"{_mean(group, 'floor'):.3f}",
            f"{_mean(group, 'imbalance_learned'):.3f}",
            f"{_mean(group[1:] or group, 'moved'):.1%}",
            f"{_mean(group[1:] or group, 'moved_keys'):,.0f}",
            f"{_mean(group, 'explicit_keys'):,.0f}",
            f"{_mean(group, 'copies'):.3f}",
            f"{_mean(group, 'plan_seconds'):.3f}",
        ]
        for (strategy, channels), group in groups.items()
    ]


def show(scores: Iterable[Score], windows: int) -> None:
    """Print the table of means on stdout."""
    grid = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for column in COLUMNS:
        grid.add_column(column, justify="left" if column == "strategy" else "right", no_wrap=True)
    for row in means(scores):
        grid.add_row(*row)
    console = Console()
    console.print(grid)
    console.print(LEGEND.format(windows=windows), highlight=False)


def _mean(scores: list[Score], name: str) -> float:
    return float(np.mean([getattr(score, name) for score in scores]))
