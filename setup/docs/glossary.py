"""Link the first use of each term on a page to the glossary: a hook that mkdocs.yml names.

It reads pages as they are written, before `site.py` turns links to their places. Code, headings and
texts of links stay as they are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

GLOSSARY = Path(__file__).resolve().parents[2] / "docs" / "GLOSSARY.md"
_ROW = re.compile(r"^\| (?!term \||-)([^|]+?) \|", re.M)
#: Terms that are verbs: "adopted" and "adoption" are of "adopt".
_VERBS = {"adopt", "drain", "release", "repair", "seal", "sketch"}
#: Term -> what finds it, where an ending does not.
_FORMS = {
    "bootstrap": r"[Bb]ootstrap(?:s|ped|ping)?",
    "half moved": r"[Hh]alf[\s-]+moved",
    "rebalance": r"[Rr]ebalanc(?:e[sd]?|ing)",
    "roll back": r"(?:[Rr]oll(?:s|ed|ing)?\s+back|[Rr]ollbacks?)",
}
#: Parts that are no prose: fenced and indented code, headings, HTML, code, links and addresses.
_APART = re.compile(
    r"^ *```.*?^ *```$|^(?: {4}|:::|#)[^\n]*$|<!--.*?-->|<[^>\n]+>|``[^\n]+?``|`[^`]*`"
    r"|!?\[(?:[^\[\]]|\[[^\]]*\])*\](?:\([^)]*\))?|https?://\S+",
    re.M | re.S,
)

#: The same in HTML: links, code, headings and tags.
_APART_HTML = re.compile(
    r"<(a|code|pre|h[1-6]|script|style|button|svg)\b.*?</\1>|<!--.*?-->|<[^>]+>|&\w+;", re.S
)
_LINK, _LINK_HTML = "[{}]({})", '<a href="{1}">{0}</a>'
#: Begins what mkdocstrings describes: its text is there only in the HTML.
_BY_CODE = re.compile(r"^::: ", re.M)


def terms() -> list[str]:
    """Return the terms of the glossary, a term of more words before those that it has in it."""
    return sorted(_ROW.findall(GLOSSARY.read_text(encoding="utf-8")), key=len, reverse=True)


def anchor(term: str) -> str:
    """Return the anchor of a term on the page of the glossary."""
    return term.replace(" ", "-")


def pattern(term: str) -> str:
    """Return what finds a term in a text, in each of its forms, with a capital or not."""
    first, words = term[0], term[1:].replace(" ", r"\s+")
    end = r"(?:e?[sd]|ing|ion)?" if term in _VERBS else r"(?:e?s)?"
    form = _FORMS.get(term) or rf"[{first.upper()}{first}]{words}{end}"
    return rf"(?<![\w/.'-]){form}(?![\w/'-]|\.\w)"


def linked(text: str, glossary: str, apart: re.Pattern[str] = _APART, link: str = _LINK) -> str:
    """Return a page's text with a link at the first use of each term.

    Parameters
    ----------
    glossary : path of the glossary, from the page
    apart : finds what stays as it is
    link : the form of a link
    """
    all_terms = terms()
    names = {f"t{n}": term for n, term in enumerate(all_terms)}
    finder = re.compile("|".join(f"(?P<{n}>{pattern(term)})" for n, term in names.items()))
    known: set[str] = set()

    def first(found: re.Match[str]) -> str:
        term = names[str(found.lastgroup)]
        if term in known:
            return found[0]
        known.add(term)
        return link.format(found[0], f"{glossary}#{anchor(term)}")

    done, end = [], 0
    for left in apart.finditer(text):
        done += [finder.sub(first, text[end : left.start()]), left[0]]
        end = left.end()
    return "".join([*done, finder.sub(first, text[end:])])


def anchored(markdown: str) -> str:
    """Return the glossary with an anchor at each term."""
    return _ROW.sub(lambda row: f'| <a id="{anchor(row[1])}"></a>{row[1]} |', markdown)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Link the terms of a page; give those of the glossary their anchors."""
    if Path(page.file.abs_src_path) == GLOSSARY:
        return anchored(markdown)
    return markdown if _BY_CODE.search(markdown) else linked(markdown, _glossary_from(page))


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Link the terms of a page with texts of docstrings."""
    if not _BY_CODE.search(page.markdown or ""):
        return html
    glossary = Path(_glossary_from(page)).with_suffix(".html").as_posix()
    return linked(html, glossary, _APART_HTML, _LINK_HTML)


def _glossary_from(page: Any) -> str:
    return Path(os.path.relpath(GLOSSARY, Path(page.file.abs_src_path).parent)).as_posix()
