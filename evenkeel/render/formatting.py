"""Load the templates of pages and reports, and format numbers for them.

Templates escape everything that comes from data: keys, channel names, errors. A page is one file
and loads nothing from another host.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from partitioning.errors import InputError

#: Powers of 1,000 of a byte.
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
# A number and its unit stay on one line.
_GAP = "\u00a0"
#: A comma parts thousands of bytes alone: elsewhere 1,5 GB may be meant as one and a half.
_BYTES = re.compile(
    rf"(\d{{1,3}}(?:,\d{{3}})+(?= ?(?:bytes)?$)|\d+(?:\.\d+(?= ?[kMGTP]))?) ?({'|'.join(UNITS)})?"
)


def template(name: str) -> Template:
    """Return a template of `evenkeel/render/templates` by its file name."""
    return template_environment("evenkeel.render").get_template(name)


def bytes_text(size: float) -> str:
    """Format bytes in powers of 1,000 with three digits: 812 bytes, 12.3 MB."""
    if not math.isfinite(size):
        return str(size)
    step = 0
    # 999.5 would round to 1000, so it belongs to the next unit.
    while abs(size) >= 999.5 and step < len(UNITS) - 1:
        size, step = size / 1000, step + 1
    digits = 0 if step == 0 or abs(size) >= 99.95 else 1 if abs(size) >= 9.995 else 2
    unit = "byte" if step == 0 and round(size) == 1 else UNITS[step]
    return f"{size:.{digits}f}{_GAP}{unit}"


def byte_unit(most: float) -> tuple[str, float]:
    """Return the unit for an axis of up to `most` bytes, and the bytes of one such unit."""
    unit = bytes_text(max(most, 2.0)).split(_GAP)[1]
    return unit, 1000.0 ** UNITS.index(unit)


def read_bytes(text: str) -> int:
    """Parse bytes as people write them: 812, 1,000,000, 10 MB.

    Raises
    ------
    InputError : the text is not a number of bytes
    """
    found = _BYTES.fullmatch(text.strip().replace(_GAP, " "))
    if found is None:
        raise InputError(
            f"must be whole bytes, or a number with one of {', '.join(UNITS[1:])}, got {text!r}",
            fix="Write 812, 10 MB or 1.5 GB",
        )
    size = float(found[1].replace(",", "")) * 1000 ** UNITS.index(found[2] or "bytes")
    if not math.isfinite(size):
        raise InputError("must be a finite number of bytes", fix="Write fewer")
    return round(size)


def seconds_text(seconds: float) -> str:
    """Format seconds, with tenths below a minute: 9 ms, 3.2 s, 2 min 5 s, 1 h 4 min."""
    if 0 < seconds < 0.0995:
        return f"{seconds * 1000:.0f}{_GAP}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}{_GAP}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}{_GAP}min {whole % 60}{_GAP}s"
    return f"{whole // 3600}{_GAP}h {whole % 3600 // 60}{_GAP}min"


def imbalance_text(value: float) -> str:
    """Format an imbalance or a load over fair share with three decimals: 1.018."""
    return f"{value:.3f}" if math.isfinite(value) else "∞"


def fair_share_text(value: float) -> str:
    """Format the load of a channel over its fair share, 1 is perfect: 1.018x fair share."""
    return f"{imbalance_text(value)}x fair share"


def count_text(value: float) -> str:
    """Format a count or a load, whole if it is whole or large, else with three digits.

    >>> count_text(0.25), count_text(998.7), count_text(999.6)
    ('0.25', '999', '1,000')
    """
    if not math.isfinite(value):
        return "∞"
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 999.5 else f"{value:.3g}"


def percent_text(share: float) -> str:
    """Format a share in percent: 3.2 %, 0.04 %."""
    percent = share * 100
    digits = ".0f" if percent >= 9.95 or not percent else ".2g"
    return f"{percent:{digits}}{_GAP}%"


def observed_text(value: Any) -> str:
    """Format the value that a check observed."""
    if value is None:
        return "nothing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if value == round(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) < 1 else f"{value:.4f}"


def example_text(row: Mapping[str, Any]) -> str:
    """Format a row that fails a check: each column's name and value."""
    return ", ".join(f"{name} {value}" for name, value in row.items())


def checks_text(suite: str) -> str:
    """Return what people call a suite of expectations: that of plans, or that of state tables."""
    return "Plan checks" if suite == "before" else "Table checks"


def when(moment: datetime | str | None) -> Markup:
    """Format a moment in UTC; within Airflow, `times.js` converts it to the reader's zone."""
    if moment is None:
        return Markup("–")
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return escape(moment)
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"), moment.strftime("%Y-%m-%d %H:%M")
    )


@cache
def template_environment(package: str) -> Environment:
    """Return the Jinja environment of a package's templates, with ours as fallback.

    It escapes every value. A name that a template uses and nobody passed is an error.
    """
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
        fair_share=fair_share_text,
        count=count_text,
        percent=percent_text,
        observed=observed_text,
        example=example_text,
        checks=checks_text,
        when=when,
    )
    return made
