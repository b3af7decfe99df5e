"""Read and fill the pages of the papers: docs/PAPERS.md, and one page a paper in docs/papers.

The text between `<!-- NAME -->` and `<!-- end -->` is what an experiment prints. The table of runs,
on the index, says how long each took, when, and which code it was: a digest of the experiment's
own modules and of the published strategies. A block whose code has changed since says so above.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "PAPERS.md"
#: Modules whose code decides a figure; the planner is not among them, because it changes often.
WATCHED = ("benchmarks.papers", "partitioning.strategies.published")
OLDER = "> **Older than its code.** The code of `{name}` has changed since it was last run.\n\n"


def pages() -> list[Path]:
    """Return every page: the index first."""
    return [INDEX, *sorted((DOCS / "papers").glob("*.md"))]


def text() -> str:
    """Return the text of all pages."""
    return "\n".join(page.read_text() for page in pages())


def figures(name: str, pages_text: str) -> str | None:
    """Return what an experiment printed, as the pages show it."""
    found = re.search(rf"<!-- {name} -->\n```text\n(.*?)```\n<!-- end -->", pages_text, re.DOTALL)
    return found[1] if found else None


def page_of(name: str) -> Path:
    """Return the page that has a place for an experiment; ValueError if none has."""
    for page in pages():
        if f"<!-- {name} -->" in page.read_text():
            return page
    raise ValueError(f"no page of {DOCS / 'papers'} has a place for {name}")


def filled(page: str, name: str, found: str) -> str:
    """Return the page with an experiment's figures; ValueError if it has no place for them."""
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not place.search(page):
        raise ValueError(f"the page has no place for {name}")
    return place.sub(lambda m: f"{m[1]}```text\n{found}\n```\n{m[2]}", page)


def runs_of(page: str) -> dict[str, str]:
    """Return what the index says of each experiment's last run, by name."""
    found = re.search(r"<!-- runs -->\n```text\n.*?\n(.*?)```\n<!-- end -->", page, re.DOTALL)
    return dict(re.findall(r"^(\w+)(.*)$", found[1] if found else "", re.MULTILINE))


def seconds_of(run: str) -> int:
    """Return the seconds of a line of `runs_of`."""
    return int(run.split()[0].replace(",", ""))


def timed(page: str, name: str, run: str, order: Iterable[str]) -> str:
    """Return the index with this experiment's last run: seconds, cores, date, code."""
    runs, order = runs_of(page), list(order)
    runs[name] = " " * (14 - len(name)) + run
    runs.pop("all", None)
    rows = [each + runs[each] for each in order if each in runs]
    if len(rows) == len(order):
        total = sum(seconds_of(runs[each]) for each in order)
        rows.append(f"{'all':14}{total:>9,}")
    head = f"{'experiment':14}{'seconds':>9}{'cores':>7}   {'date':12}code"
    return filled(page, "runs", "\n".join([head, *rows]))


def code_of(module: str) -> str:
    """Return a digest of a module and of what it imports, as far as that is `WATCHED`."""
    waiting, seen = [module], dict[str, str]()
    while waiting:
        name = waiting.pop()
        file = ROOT / (name.replace(".", "/") + ".py")
        if name in seen or not file.exists():
            continue
        seen[name] = _without_words(file)
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(WATCHED):
                waiting.append(node.module or "")
                waiting += [f"{node.module}.{alias.name}" for alias in node.names]
    if any("STRATEGIES" in code or "backtest" in code for code in seen.values()):
        folder = ROOT / "partitioning/strategies/published"
        seen |= {file.stem: _without_words(file) for file in folder.rglob("*.py")}
    every = "".join(seen[name] for name in sorted(seen))
    return hashlib.sha256(every.encode()).hexdigest()[:8]


def _without_words(file: Path) -> str:
    """Return a module's syntax tree without what decides no figure: docstrings and comments.

    Imports count by their names alone: a test of the tree sees that each stands in one module.
    """
    tree, names = ast.parse(file.read_bytes()), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            imports = [part for part in node.body if isinstance(part, ast.ImportFrom)]
            names |= {ast.dump(alias) for part in imports for alias in part.names}
            words = int(ast.get_docstring(node) is not None)
            node.body = [part for part in node.body[words:] if part not in imports]
    return ast.dump(tree) + "".join(sorted(names))


def marked(page: str, name: str, older: bool) -> str:
    """Return the page with the note above an experiment's block, or without it."""
    note = OLDER.format(name=name)
    bare = page.replace(note, "")
    return bare.replace(f"<!-- {name} -->\n", f"{note}<!-- {name} -->\n") if older else bare
