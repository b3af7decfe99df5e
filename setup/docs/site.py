"""Make a site of pages that GitHub shows, too: the hooks that mkdocs.yml names.

It brings in pages from outside of docs/, turns links to their places on the site, and
writes lists as Python-Markdown reads them. A link to a file of code becomes its text. With one to
another file that the site lacks, or that is nowhere, the strict build fails.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
#: Pages outside of docs/, by their place on the site.
TOP = {
    "index.md": "README.md",
    **{name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")},
    "CODE_OF_CONDUCT.md": "CODE_OF_CONDUCT.md",
    **{name: name for name in ("examples/README.md", "clients/README.md")},
}
#: Files of the repository that readers of the site fetch, too.
FILES = ("examples/*.yaml", "examples/*.py", "clients/**/*.*", "deploy/**/*.*")
#: Folders of code: a link to a file there is shown as its text.
_CODE = {"benchmarks", "dags", "evenkeel", "partitioning", "plugins"}
_CODE |= {"setup", "spark_jobs", "tests"}
_LOG = logging.getLogger("mkdocs.hooks.site")
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.M | re.S)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
#: Where the drawings are that people see in the colours of GitHub's theme, by a query in the SVG.
_FOLDERS = ("img/concepts", "img/benchmarks")
_DRAWING = re.compile(rf"!\[([^\]]*)\]\(((?:[\w.]+/)*(?:{'|'.join(_FOLDERS)})/\w+)\.svg\)")
#: The query, and the colours in it: on the site the reader's button chooses, not the system.
_DARK = re.compile(r"@media \(prefers-color-scheme: dark\)\{(.+)\}(?=</style>)")
_ITEM = re.compile(r"([-*]|\d+\.) +\S")


def on_config(config: Any) -> Any:
    """Put the pages of a folder in the place of a pattern; leave out pages that are not there."""
    if "MIKE_DOCS_VERSION" not in os.environ:
        # Without mike there are no versions to ask for.
        config.extra.pop("version")
    docs = Path(config.docs_dir)
    named = {page for section in config.nav for pages in section.values() for page in pages}
    for section in config.nav:
        for title, pages in section.items():
            section[title] = [
                page
                for entry in pages
                for page in ([entry] if "*" not in entry else _matching(docs, entry, named))
                if (ROOT / TOP.get(page, f"docs/{page}")).exists()
            ]
    config.nav = [section for section in config.nav if all(section.values())]
    return config


def _matching(docs: Path, pattern: str, named: set[str]) -> list[str]:
    found = sorted((p for p in docs.glob(pattern)), key=lambda p: p.name.lower())
    return [page for p in found if (page := p.relative_to(docs).as_posix()) not in named]


def on_files(files: Files, config: Any) -> Files:
    """Add pages and files from outside of docs/, and a light and a dark form of drawings."""
    for folder, drawing in ((f, d) for f in _FOLDERS for d in (ROOT / "docs" / f).glob("*.svg")):
        text = drawing.read_text(encoding="utf-8")
        for form, colors in (("light", ""), ("dark", r"\1")):
            made = f"{folder}/{drawing.stem}.{form}.svg"
            files.append(File.generated(config, made, content=_DARK.sub(colors, text)))
    for file in sorted(f for pattern in FILES for f in ROOT.glob(pattern) if f.is_file()):
        if file.suffix != ".md":
            place = file.relative_to(ROOT).as_posix()
            files.append(File.generated(config, place, abs_src_path=str(file)))
    for page, name in TOP.items():
        if (ROOT / name).exists():
            files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return the page's text with links of the site, and lists as Python-Markdown reads them."""
    here = page.file.src_uri
    parts = _FENCED.split(markdown)
    for at in range(0, len(parts), 2):
        parts[at] = _DRAWING.sub(
            r"![\1](\2.light.svg#only-light)![\1](\2.dark.svg#only-dark)", parts[at]
        )
        parts[at] = _LINK.sub(lambda m: _turned(m, here, files), parts[at])
    return spaced("".join(parts))


def _turned(link: re.Match[str], here: str, files: Files) -> str:
    image, text, target, anchor = link.groups()
    source = TOP.get(here, f"docs/{here}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path.startswith("../"):
        # A page of the repository's host, such as the state of its tests.
        return ""
    # A folder is shown by its page.
    names = (path, f"{path}/README.md")
    place = next((p for p, name in TOP.items() if name in names), path.removeprefix("docs/"))
    if files.get_file_from_path(place) is not None:
        shown = posixpath.relpath(place, posixpath.dirname(here) or ".")
        return f"{image}[{text}]({shown}{anchor or ''})"
    if image or not (ROOT / path).exists():
        return link[0]
    if path.partition("/")[0] not in _CODE:
        _LOG.warning("%s: %s is not on the site; name it in TOP or FILES", source, path)
    return text


def spaced(markdown: str) -> str:
    """Return the text with an empty line before each list, and four spaces before its blocks."""
    lines: list[str] = []
    indent, fenced, apart = 0, False, True
    for line in markdown.splitlines():
        item = _ITEM.match(line) if not fenced else None
        above = lines[-1].strip() if lines else ""
        if item is not None:
            # Without it, an item after a block of the item before is read as part of that block.
            if above and (not indent or apart):
                lines.append("")
            indent, apart = len(item[1]) + 1, False
        elif line.strip() and not line.startswith(" " * indent) and not above:
            indent = 0
        elif not line.strip() or line.strip().startswith("```"):
            apart = True
        fenced ^= line.strip().startswith("```")
        inner = indent and not item and line.startswith(" " * indent)
        lines.append(" " * (4 - indent) + line if inner else line)
    return "\n".join(lines) + "\n"
