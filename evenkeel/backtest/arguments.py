"""Parse the arguments of a backtest that are lists in one text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from partitioning.errors import InputError


def parse_names(text: str, where: str) -> list[str]:
    """Split names at commas, and keep each once."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(f"{text!r} has an empty name", where, "Separate names by single commas")
    return list(dict.fromkeys(names))


def parse_channels(text: str) -> list[int]:
    """Parse whole numbers separated by commas."""
    names = parse_names(text, "--channels")
    if not all(re.fullmatch(r"-?[0-9]{1,9}", name) for name in names):
        raise InputError(f"must be whole numbers, got {text!r}", "--channels", "Give, say, 5,10")
    return [int(name) for name in names]


def parse_options(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parse texts NAME.k=v to {NAME: {k: v}}.

    A value v is JSON if it parses as JSON, else a number as people write it (.05, 1e6), else text.
    """
    options: dict[str, dict[str, Any]] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        strategy, dot, name = path.partition(".")
        if not (equals and dot and strategy and name):
            raise InputError(
                f"must be NAME.k=v, got {text!r}", "--option", "Give, say, readj.sigma=0.05"
            )
        options.setdefault(strategy, {})[name] = _value(value)
    return options


def _value(text: str) -> Any:
    for read in (json.loads, float):
        try:
            found = read(text)
        except ValueError:
            continue
        whole = isinstance(found, float) and found.is_integer()
        return int(found) if whole else found
    return text
