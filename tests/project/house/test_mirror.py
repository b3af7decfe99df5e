"""Tests mirror the packages: each test file stands in the room that it is about."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: Package -> its folder.
PACKAGES = {
    "partitioning": ROOT / "partitioning",
    "evenkeel": ROOT / "evenkeel",
    "evenkeel_spark": ROOT / "spark_jobs/evenkeel_spark",
    "evenkeel_airflow": ROOT / "dags/evenkeel_airflow",
    "evenkeel_ui": ROOT / "plugins/evenkeel_ui",
}
#: Airflow loads these by their folders, and asks pages by their addresses: a test imports nothing.
LOADED = ("evenkeel_airflow", "evenkeel_ui")
#: Fixtures of all tests, which use many rooms.
SHARED = "tests.conftest"


def files(package: str) -> list[Path]:
    """The test files of a package."""
    return sorted((ROOT / "tests" / package).rglob("test_*.py"))


def room(file: Path) -> str:
    """The room of a test file: the nearest package of its folder's name."""
    parts = file.parent.relative_to(ROOT / "tests").parts
    while not PACKAGES[parts[0]].joinpath(*parts[1:]).is_dir():
        parts = parts[:-1]
    return ".".join(parts)


@cache
def names(file: Path) -> frozenset[str]:
    """The modules that a file imports, and its strings, which may name a module to run."""
    found = set[str]()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return frozenset(found)


def reached(file: Path) -> set[str]:
    """The names of a test file, of the fixtures of its folders, and of what they use of tests/."""
    folders = list(file.relative_to(ROOT / "tests").parents)[:-1]
    todo = [file, *(ROOT / "tests" / folder / "conftest.py" for folder in folders)]
    seen, found = set[Path](), set[str]()
    while todo:
        one = todo.pop()
        if one in seen or not one.exists():
            continue
        seen.add(one)
        found |= names(one)
        ours = (n for n in names(one) if n.startswith("tests.") and not n.startswith(SHARED))
        todo += [ROOT.joinpath(*n.split(".")).with_suffix(".py") for n in ours]
    return found


def is_named_after_it(file: Path) -> bool:
    """Whether a test file is named after a module of its room."""
    package, *rooms = room(file).split(".")
    module = file.name.removeprefix("test_")
    return PACKAGES[package].joinpath(*rooms, module).exists()


def test_a_test_imports_a_module_of_its_room() -> None:
    every = [file for package in PACKAGES if package not in LOADED for file in files(package)]
    assert len(every) > 120, "tests are no longer found"
    strangers = {
        str(file.relative_to(ROOT)): room(file)
        for file in every
        if not is_named_after_it(file)
        and not any(f"{name}.".startswith(f"{room(file)}.") for name in reached(file))
    }
    assert strangers == {}


def test_a_test_that_is_named_after_a_module_stands_in_its_room() -> None:
    wrong, seen = {}, 0
    for package, folder in PACKAGES.items():
        modules = defaultdict(list)
        for module in folder.rglob("*.py"):
            modules[module.stem].append(module.parent.relative_to(folder))
        for file in files(package):
            rooms = modules[file.stem.removeprefix("test_")]
            seen += bool(rooms)
            place = file.parent.relative_to(ROOT / "tests" / package)
            if rooms and not any(place.is_relative_to(r) for r in rooms):
                wrong[str(file.relative_to(ROOT))] = [str(r) for r in rooms]
    assert seen > 60
    assert wrong == {}
