"""Badges of the README, drawn from what `pyproject.toml` says: no other host is asked for them."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from setup.docs.reference.markdown import ROOT

#: Width of a letter in pixels, at a size of 11: wide enough for the widest font of the list below.
LETTER = 7


def badge(label: str, value: str) -> str:
    """Return a badge as SVG: a label on grey, and a value on blue."""
    left, right = (10 + LETTER * len(text) for text in (label, value))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{label}: {value}">',
        f'<rect width="{left + right}" height="20" rx="3" fill="#555"/>',
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z" fill="#0067a3"/>',
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" '
        'text-anchor="middle">',
        f'<text x="{left / 2:g}" y="14">{label}</text>',
        f'<text x="{left + right / 2:g}" y="14">{value}</text>',
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def licence() -> str:
    """Return the badge of the licence."""
    return badge("licence", _project()["license"])


def python() -> str:
    """Return the badge of the versions of Python that the classifiers name."""
    named = (re.fullmatch(r".*Python :: (3\.\d+)", text) for text in _project()["classifiers"])
    return badge("python", " | ".join(found[1] for found in named if found))


def _project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found
