"""What a page says: its named figures and its tables, read from its HTML by one parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

#: Elements that have no end tag.
_EMPTY = {"br", "hr", "img", "input", "link", "meta"}


@dataclass
class Facts:
    """The figures of a page.

    Parameters
    ----------
    named : name of each figure -> its value
    tables : name of each table (of its region, else its own, else "") -> rows, each heading -> cell
    """

    named: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[dict[str, str]]] = field(default_factory=dict)


def facts(html: str) -> Facts:
    """Read a page. Cells hold their text with single spaces; sorting marks are left out."""
    reader = _Reader()
    reader.feed(html)
    return reader.found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found = Facts()
        self._open: list[tuple[str, str]] = []
        self._text: list[str] | None = None
        self._term = self._table = ""
        self._heads: list[str] = []
        self._row: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag in _EMPTY:
            if self._text is not None:
                self._text.append(" ")
            return
        self._open.append((tag, told.get("aria-label") or ""))
        if tag in ("dt", "th", "td") or (tag == "dd" and told.get("class") != "note"):
            self._text = []
        elif tag == "table":
            regions = [label for name, label in self._open if name == "div" and label]
            self._table = (regions or [told.get("aria-label") or told.get("class") or ""])[-1]
            self._heads = []
        elif tag == "tr":
            self._row = []

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass
        if tag in ("dt", "dd", "th", "td") and self._text is not None:
            said = " ".join("".join(self._text).split()).rstrip("▲▼ ")
            self._text = None
            if tag == "dt":
                self._term = said
            elif tag == "dd":
                self.found.named.setdefault(self._term, said)
            else:
                self._row.append(said)
        elif tag == "tr" and not self._heads:
            self._heads = self._row
        elif tag == "tr":
            rows = self.found.tables.setdefault(self._table, [])
            rows.append(dict(zip(self._heads, self._row, strict=False)))
