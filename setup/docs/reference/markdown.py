"""Markdown of the generated pages: pages, tables, and what docstrings and comments say."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: Folders of the product's code. The demo is for a checkout alone.
FOLDERS = ("partitioning", "evenkeel", "spark_jobs", "dags", "plugins")
GENERATED = "<!-- `make reference` writes this page from the code. Change the code instead. -->"
_FIELD = re.compile(r"([a-z][\w, ]*) : (.+)")


def page(title: str, *parts: str) -> str:
    """Return a page: its title, and parts with an empty line between."""
    return "\n\n".join([f"# {title}", GENERATED, *(part.strip() for part in parts)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. A column that is empty in all rows is left out."""
    found = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    used = [at for at in range(len(head)) if any(row[at] for row in found)]
    lines = [head, ["---"] * len(head), *found]
    return "\n".join("| " + " | ".join(line[at] for at in used) + " |" for line in lines)


def code(text: object) -> str:
    """Return text as code; nothing stays nothing."""
    ticks = "``" if "`" in str(text) else "`"
    return f"{ticks}{text}{ticks}" if str(text) else ""


def summary(thing: object) -> str:
    """Return the first sentence of a docstring, on one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def fields(docstring: str) -> dict[str, str]:
    """Return what a docstring says of each parameter or field, by its name."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(docstring).splitlines():
        if field := _FIELD.fullmatch(line):
            names = field[1].split(", ")
            found |= dict.fromkeys(names, field[2])
        elif names and line.startswith("    "):
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
        else:
            names = []
    return found


@cache
def sources() -> list[tuple[str, ast.Module, str]]:
    """Return path, syntax tree and text of every module of the product."""
    found = []
    for file in (f for folder in FOLDERS for f in sorted((ROOT / folder).rglob("*.py"))):
        name = file.relative_to(ROOT).as_posix()
        if "/demo/" not in name:
            text = file.read_text()
            found.append((name, ast.parse(text), text))
    return found


def constants() -> Iterator[tuple[str, str, str]]:
    """Yield name and text of every constant of a module that is a text, and its `#:` comment."""
    for _, tree, text in sources():
        lines = text.splitlines()
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(
                node.value, ast.Constant | ast.JoinedStr
            ):
                (target,) = node.targets
                value = node.value.value if isinstance(node.value, ast.Constant) else None
                if isinstance(target, ast.Name) and isinstance(value, str):
                    yield target.id, value, comment(lines, node.lineno - 1)


def comment(lines: Sequence[str], at: int) -> str:
    """Return the `#:` comment above the line of that index."""
    found: list[str] = []
    while at and lines[at - 1].strip().startswith("#:"):
        at -= 1
        found.insert(0, lines[at].strip().removeprefix("#:").strip())
    return " ".join(found)
