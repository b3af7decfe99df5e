"""What docstrings point to, and what tests replace, is there: names are followed, not imported."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.docs.product import PRODUCT, ROOT, modules

#: Folders that dotted names start from.
SOURCES = [ROOT, *(ROOT / folder for folder in ("spark_jobs", "dags", "plugins"))]
#: Packages that each may import.
BELOW = {
    "partitioning": (),
    "evenkeel": ("partitioning",),
    **dict.fromkeys(("spark_jobs", "dags", "plugins"), ("partitioning", "evenkeel")),
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree(dotted: str) -> ast.Module | None:
    """The module of a dotted name; None: it is none of ours."""
    if not dotted:
        return None
    place = Path(*dotted.split("."))
    for source in SOURCES:
        for file in (source / place.with_suffix(".py"), source / place / "__init__.py"):
            if file.exists():
                return ast.parse(file.read_text())
    return None


def names(body: list[ast.stmt]) -> set[str]:
    """Names that the statements of a module or class bind, in branches, too."""
    found = set[str]()
    for node in (inner for statement in body for inner in ast.walk(statement)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def told(code: str) -> Iterator[str]:
    """Docstrings and comments of a module."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, DOCUMENTED):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def test_what_docstrings_point_to_is_there() -> None:
    bound = {path: names(module.body) for path, _, module in modules()}
    in_package = {
        package: set[str]().union(*(bound[path] for path in bound if path.startswith(package)))
        for package in PRODUCT
    }
    rooms = defaultdict[str, set[str]](set)
    for path, found in bound.items():
        rooms[Path(path).stem] |= found
    looked, gone = 0, []
    for path in bound:
        own = path.partition("/")[0]
        known = set[str]().union(*(in_package[p] for p in {own, *BELOW[own]}))
        for text in told((ROOT / path).read_text()):
            for name in re.findall(r"\bas (?:in|by|from|of) `([A-Za-z_]\w+)`", text):
                looked += 1
                gone += [(path, name)] if name not in known else []
            for room, name in re.findall(r"`([a-z_]\w+)\.([A-Za-z_]\w+)`", text):
                if room in rooms and name not in ("py", "json", "npz", "js", "html"):
                    looked += 1
                    gone += [(path, f"{room}.{name}")] if name not in rooms[room] else []
    assert looked > 50, "references are no longer found"
    assert gone == []


def replaced(file: Path) -> Iterator[tuple[str, str]]:
    """Module, and name in it, of each thing of ours that a test replaces by monkeypatch."""
    module = ast.parse(file.read_text())
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    for node in ast.walk(module):
        called = node.func if isinstance(node, ast.Call) else None
        if not (isinstance(called, ast.Attribute) and called.attr in ("setattr", "delattr")):
            continue
        assert isinstance(node, ast.Call)
        match node.args:
            case [ast.Constant(value=str(dotted)), *_]:
                yield dotted.rpartition(".")[0], dotted.rpartition(".")[2]
            case [ast.Name(id=name), ast.Constant(value=str(what)), *_] if name in imported:
                yield imported[name], what


def test_what_tests_replace_is_there() -> None:
    looked, gone = 0, []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for where, name in replaced(file):
            if not where.startswith(("partitioning", "evenkeel", "benchmarks")):
                continue
            looked += 1
            owner = where.rpartition(".")
            there = tree(where)
            if there is not None:
                found = name in names(there.body)
            else:
                # A class, or a module that a module of ours has imported.
                there = tree(owner[0])
                found = there is not None and owner[2] in names(there.body)
            gone += [] if found else [(str(file.relative_to(ROOT)), f"{where}.{name}")]
    assert looked > 100, "what tests replace is no longer found"
    assert gone == []


def test_what_is_gone_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text(
        "from evenkeel import table\nfrom evenkeel.table import Table\n"
        'monkeypatch.setattr("evenkeel.table.gone", 1)\n'
        'monkeypatch.setattr(table, "state_sql", 1)\nmonkeypatch.delattr(Table, "gone")\n'
    )
    assert list(replaced(file)) == [
        ("evenkeel.table", "gone"),
        ("evenkeel.table", "state_sql"),
        ("evenkeel.table.Table", "gone"),
    ]
    there, none = tree("evenkeel.table"), tree("evenkeel.tables")
    assert there is not None and none is None
    assert "state_sql" in names(there.body) and "gone" not in names(there.body)
