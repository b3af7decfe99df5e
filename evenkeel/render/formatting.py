"""Pages of our own: the templates, and how numbers are written in them.

Whatever comes from data (keys, channel names, errors) is escaped; a page is one file that asks
no other host for anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from partitioning.errors import InputError

#: Powers of 1,000 of a byte.
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
# A number and its unit stay on one line.
_GAP = "\u00a0"
_BYTES = re.compile(rf"(\d+(?:\.\d+(?= ?[kMGTP]))?) ?({'|'.join(UNITS)})?")


def template(name: str) -> Template:
    """A template of `evenkeel/render/templates`, by its file name."""
    return environment("evenkeel.render").get_template(name)


def bytes_text(size: float) -> str:
    """Bytes in powers of 1,000, three digits: 812 bytes, 12.3 MB."""
    if not math.isfinite(size):
        return str(size)
    step = 0
    # 999.5 would be written as 1000: it belongs to the next unit.
    while abs(size) >= 999.5 and step < len(UNITS) - 1:
        size, step = size / 1000, step + 1
    digits = 0 if step == 0 or abs(size) >= 99.95 else 1 if abs(size) >= 9.995 else 2
    unit = "byte" if step == 0 and round(size) == 1 else UNITS[step]
    return f"{size:.{digits}f}{_GAP}{unit}"


def byte_unit(most: float) -> tuple[str, float]:
    """The unit that an axis up to `most` bytes is written in, and its bytes."""
    unit = bytes_text(max(most, 2.0)).split(_GAP)[1]
    return unit, 1000.0 ** UNITS.index(unit)


def read_bytes(text: str) -> int:
    """Bytes as people write them: 812, 1,000,000, 10 MB.

    Raises
    ------
    InputError : anything else
    """
    found = _BYTES.fullmatch(text.strip().replace(",", "").replace(_GAP, " "))
    if found is None:
        raise InputError(f"allowed: whole bytes, or a number and {', '.join(UNITS[1:])}")
    size = float(found[1]) * 1000 ** UNITS.index(found[2] or "bytes")
    if not math.isfinite(size):
        raise InputError("more bytes than there can be")
    return round(size)


def seconds_text(seconds: float) -> str:
    """Seconds with a tenth below a minute: 9 ms, 3.2 s, 2 min 5 s, 1 h 4 min."""
    if 0 < seconds < 0.0995:
        return f"{seconds * 1000:.0f}{_GAP}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}{_GAP}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}{_GAP}min {whole % 60}{_GAP}s"
    return f"{whole // 3600}{_GAP}h {whole % 3600 // 60}{_GAP}min"


def imbalance_text(value: float) -> str:
    """An imbalance or a share of the fair share, three decimals: 1.018."""
    return f"{value:.3f}" if math.isfinite(value) else "∞"


def count_text(value: float) -> str:
    """A count or a load: whole where it is whole or large, else three digits: 336,776, 0.25."""
    if not math.isfinite(value):
        return "∞"
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.3g}"


def percent_text(share: float) -> str:
    """A share in percent: 3.2 %, 0.04 %."""
    percent = share * 100
    digits = ".0f" if percent >= 9.95 or not percent else ".2g"
    return f"{percent:{digits}}{_GAP}%"


def observed_text(value: Any) -> str:
    """What a check observed, as people read it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if value == round(value) or abs(value) >= 1e5:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) < 1 else f"{value:.4f}"


def example_text(row: Mapping[str, Any]) -> str:
    """A row that fails a check: its columns that matter, by name."""
    return ", ".join(f"{name} {value}" for name, value in row.items())


@cache
def environment(package: str) -> Environment:
    """Templates of a package, and ours behind them; everything is escaped, a missing name is an
    error."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("evenkeel.render")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        bytes=bytes_text,
        seconds=seconds_text,
        imbalance=imbalance_text,
        count=count_text,
        percent=percent_text,
        observed=observed_text,
        example=example_text,
    )
    return made
