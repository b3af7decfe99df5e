"""Show a backtest on a terminal: progress while it runs, a table of means at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from evenkeel.backtest.scoring import Score

#: Columns of the table; they fit a terminal of 80 characters.
TABLE_COLUMNS = (
    "strategy", "N", "imbalance", "worst", "floor", "learned", "moved", "keys", "pinned",
    "copies", "plan s",
)  # fmt: skip
LEGEND = (
    "N: channels. All values but worst are means over {windows} windows. imbalance: load of the "
    "fullest channel over the mean, on the next, unseen window; worst: its highest value. floor: "
    "least imbalance there without splitting a key. learned: imbalance on the window learned "
    "from. moved, keys: share of the load, and keys, that changed channel. pinned: keys "
    "that are pinned or split. copies: channels per key on the next window."
)


def followed(scores: Iterable[Score], total: int) -> Iterator[Score]:
    """Yield the scores; if stderr is a terminal, show a progress bar there."""
    console = Console(stderr=True)
    if not console.is_terminal:
        # Rich before 14.3 ends a bar that is not shown with an empty line.
        yield from scores
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("backtest", total=total)
        for score in scores:
            progress.update(
                task, advance=1, description=f"{score.strategy}, {score.channels} channels"
            )
            yield score


def means(scores: Iterable[Score]) -> list[list[str]]:
    """Return rows of `TABLE_COLUMNS`, one a strategy and number of channels, as they came."""
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
            f"{_mean(later(group), 'moved'):.1%}",
            f"{_mean(later(group), 'moved_keys'):,.0f}",
            f"{_mean(group, 'explicit_keys'):,.0f}",
            f"{_mean(group, 'copies'):.3f}",
            f"{_mean(group, 'plan_seconds'):.3f}",
        ]
        for (strategy, channels), group in groups.items()
    ]


def print_scores(scores: Iterable[Score], windows: int) -> None:
    """Print the table of means on stdout, and standard errors where there are several hashes."""
    scores = list(scores)
    grid = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for column in TABLE_COLUMNS:
        grid.add_column(column, justify="left" if column == "strategy" else "right", no_wrap=True)
    for row in means(scores):
        grid.add_row(*row)
    console = Console()
    console.print(grid)
    console.print(LEGEND.format(windows=windows), highlight=False)
    for sentence in over_hashes(scores):
        console.print(sentence, highlight=False)


def over_hashes(scores: Iterable[Score]) -> list[str]:
    """Return a sentence for each strategy and number of channels that had several hashes."""
    groups: dict[tuple[str, int], dict[int, list[Score]]] = {}
    for score in scores:
        hashes = groups.setdefault((score.strategy, score.channels), {})
        hashes.setdefault(score.salt, []).append(score)
    sentences = []
    for (strategy, channels), hashes in groups.items():
        if len(hashes) > 1:
            found = [
                f"{name} {np.mean(means):.4f} ± {np.std(means, ddof=1) / len(means) ** 0.5:.4f}"
                for name, means in (
                    ("imbalance", [_mean(group, "imbalance") for group in hashes.values()]),
                    ("moved", [_mean(later(group), "moved") for group in hashes.values()]),
                )
            ]
            spread = f"mean and standard error over {len(hashes)} hashes: {', '.join(found)}"
            sentences.append(f"{strategy}, N = {channels}, {spread}")
    return sentences


def later(scores: list[Score]) -> list[Score]:
    """Leave out each hash's first function, which moves nothing; of one window, leave it."""
    first = scores[0].window
    return [score for score in scores if score.window != first] or scores


def _mean(scores: list[Score], name: str) -> float:
    return float(np.mean([getattr(score, name) for score in scores]))
