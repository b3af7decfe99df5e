"""Terms of the glossary: each is linked at its first use on a page of the site."""

from __future__ import annotations

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from setup.docs import glossary
from setup.docs.glossary import GLOSSARY, anchor, anchored, linked, pattern, terms
from setup.docs.reference.markdown import sources
from tests.support.wheel import ROOT

#: Elements whose text is no prose.
APART = {"a", "code", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "script", "style", "button"}


class Prose(HTMLParser):
    """The article of a page as parts of text, each with the term that it links to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[tuple[str, str | None]] = []
        self._open: list[str] = []
        self._term: str | None = None
        self.feed(html[html.index("<article") : html.index("</article>")])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in APART:
            self._open.append(tag)
        if tag == "a":
            found = re.search(r"GLOSSARY\.html#(.+)", dict(attrs).get("href") or "")
            self._term = found[1] if found else None
        if tag in ("p", "li", "td", "th", "br"):
            self.parts.append(("\n", None))

    def handle_endtag(self, tag: str) -> None:
        if tag in APART and tag in self._open:
            self._open.remove(tag)
        if tag == "a":
            self._term = None

    def handle_data(self, data: str) -> None:
        if self._term is not None:
            self.parts.append((data, self._term))
        elif not self._open:
            self.parts.append((data, None))


def first_uses(html: str) -> dict[str, bool]:
    """Return each term that a page uses, and whether its first use is linked."""
    every = terms()
    finder = re.compile("|".join(f"({pattern(term)})" for term in every))
    found: dict[str, bool] = {}
    for text, term in Prose(html).parts:
        if term is not None:
            (named,) = [t for t in every if anchor(t) == term]
            found.setdefault(named, True)
            continue
        for use in finder.finditer(text):
            found.setdefault(every[int(use.lastindex or 0) - 1], False)
    return found


def test_the_first_use_of_each_term_is_linked_on_every_page(site: Path) -> None:
    pages = {f.relative_to(site).as_posix(): f.read_text() for f in site.rglob("*.html")}
    for name in ("404.html", "GLOSSARY.html"):
        del pages[name]
    used = {name: first_uses(html) for name, html in pages.items()}
    assert sum(map(len, used.values())) > 300
    # Its text comes from docstrings, which are there only as HTML.
    assert {"epoch", "state table", "channel"} <= used["reference/python.html"].keys()
    assert {
        n: [t for t, ok in u.items() if not ok] for n, u in used.items() if not all(u.values())
    } == {}
    glossary = (site / "GLOSSARY.html").read_text()
    assert [t for t in terms() if f'id="{anchor(t)}"' not in glossary] == []


@pytest.mark.parametrize(
    ("words", "term"),
    [
        ("It was rolled back", "roll back"),
        ("A rollback ends", "roll back"),
        ("Rolling\nback takes", "roll back"),
        ("a half-moved table", "half moved"),
        ("Rebalancing is", "rebalance"),
        ("rebalanced twice", "rebalance"),
        ("Bootstrapped by", "bootstrap"),
        ("days are sketched", "sketch"),
        ("two sketches", "sketch"),
        ("an adoption", "adopt"),
        ("it was drained", "drain"),
        ("a backtest", "backtest"),
        ("State tables are", "state table"),
    ],
)
def test_a_term_is_found_in_each_of_its_forms(words: str, term: str) -> None:
    assert f"](g#{anchor(term)})" in linked(words, "g")


def test_what_is_no_prose_stays_as_it_is() -> None:
    apart = (
        "# A plan\n\n```sh\na plan\n```\n\n`plan` [a plan](x.md) ![plan](x.png) <plan> see\n"
        "https://example.org/plan plan-b re-plan plan.py\n\n::: a.plan\n    plan: 3\n"
    )
    assert linked(apart, "G.md") == apart
    assert linked("Adopted by adoption.", "G.md") == "[Adopted](G.md#adopt) by adoption."
    text = "Two Plans, a split key, split\nkeys and one plan of a key.\n"
    assert linked(text, "G.md") == (
        "Two [Plans](G.md#plan), a [split key](G.md#split-key), split\nkeys and one plan of a "
        "[key](G.md#key).\n"
    )


def test_terms_in_html_are_linked_outside_of_tags_and_code() -> None:
    html = '<h3>Plan</h3><p title="plan">See <code>plan</code> or <a href="x">a plan</a>, a plan.'
    made = linked(html, "G.html", glossary._APART_HTML, glossary._LINK_HTML)
    assert made == html.replace(", a plan", ', a <a href="G.html#plan">plan</a>')


def test_a_pinned_key_has_one_name() -> None:
    """Pages, help and messages; stored fields keep theirs, which the glossary says."""
    other = re.compile(r"explicit keys?\b|keys? placed by name|plac\w+ (\w+ )*keys by name", re.I)
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/img/**/*.svg")]
    texts = {str(file): file.read_text() for file in pages if file.name != "CHANGELOG.md"}
    for path, tree, _ in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts[f"{path}:{node.lineno}"] = node.value
    assert {where: m[0] for where, text in texts.items() if (m := other.search(text))} == {}
    (row,) = re.findall(r"^\| pinned key \|.*", GLOSSARY.read_text(), re.M)
    assert all(f"`{stored}`" in row for stored in ("pinned", "explicit", "explicit_keys"))


def test_each_term_of_the_glossary_has_an_anchor() -> None:
    text = GLOSSARY.read_text()
    assert len(terms()) == len(re.findall(r"^\|", text, re.M)) - 2 > 20
    common = {"state table", "adopt", "bootstrap", "budget", "fair share", "micro-batch"}
    assert common | {"horizon", "build side"} <= set(terms())
    assert '| <a id="split-key"></a>split key | a key that several' in anchored(text)
