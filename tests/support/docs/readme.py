"""The README as tests read it: its text, and its code by language."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "README.md").read_text()


def block(language: str) -> str:
    """The first fenced block of a language, indented or not."""
    found = re.search(rf"^( *)```{language}\n(.*?)^ *```", TEXT, re.M | re.S)
    assert found is not None, f"the README has no block of {language}"
    indent = len(found[1])
    return "".join(line[indent:] for line in found[2].splitlines(keepends=True))
