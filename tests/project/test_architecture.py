"""The house: its map is right, and its rooms are small."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support.docs.product import modules
from tests.support.wheel import tracked

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/ARCHITECTURE.md").read_text()
#: Everyday changes, as the page says them, and what a named file must hold for the change.
CHANGES = {
    "add a strategy": "_DECLARED",
    "add a gate expectation": "def plan_suite",
    "change what a report shows": "def render",
    "add a spec field": "class TableSpec",
    "add a merge": "MERGES:",
    "change how a commit is fenced": "def fence",
    "add a console command": "@app.command",
    "add a UI page": "include_router",
    "change the watch's threshold": "class Threshold",
    "support another store": "class Store:",
}
#: Files in a folder, beside its sub-folders, and lines of a file.
FILES, LINES = 12, 300
#: Texts that people write. Each client of another language is one file, so that it can be copied.
WRITTEN = {".css", ".html", ".j2", ".js", ".md", ".py", ".sh", ".toml", ".yaml", ".yml"}


@pytest.mark.parametrize(("change", "holds"), CHANGES.items())
def test_each_everyday_change_has_a_room_and_a_door(change: str, holds: str) -> None:
    (row,) = re.findall(rf"^\| {change} \|(.*)\|$", PAGE, re.M)
    rooms = [ROOT / room for room in re.findall(r"\]\(\.\./([^)]+)\)", row)]
    assert rooms and all(room.exists() for room in rooms)
    assert any(holds in room.read_text() for room in rooms if room.is_file()), holds


def test_contributing_has_ten_everyday_changes_with_rooms_and_tests() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    part = text[text.index("## The ten everyday changes") : text.index("## Writing docs")]
    rows = re.findall(r"^\| ((?!change \||-).+) \| (\[.+) \| (`.+) \|$", part, re.M)
    assert len(rows) == 10
    for change, rooms, tests in rows:
        # The map has the same change, with all its files.
        assert f"| {change} |" in PAGE, change
        opened = re.findall(r"\]\((.+?)\)", rooms)
        run = re.findall(r"`(.+?)`", tests)
        assert opened and run
        assert [path for path in opened if not (ROOT / path).exists()] == []
        found = [f for path in run for f in [ROOT / path, *(ROOT / path).rglob("test_*.py")]]
        assert all((ROOT / path).exists() for path in run), change
        # Pytest finds something to run there.
        assert any("def test_" in f.read_text() for f in found if f.is_file()), change


def test_no_folder_is_crowded_and_no_file_is_long() -> None:
    folders: dict[Path, int] = {}
    for file in tracked():
        folders[file.parent] = folders.get(file.parent, 0) + 1
    assert {str(f): n for f, n in folders.items() if n > FILES} == {}
    written = [f for f in tracked() if f.suffix in WRITTEN]
    lines = {str(f): len((ROOT / f).read_text().splitlines()) for f in written}
    assert len(lines) > 500
    assert {f for f, n in lines.items() if n > LINES} == set()


def test_no_module_imports_itself_through_others() -> None:
    hosts = re.compile("^(spark_jobs|dags|plugins)/|(/__init__)?[.]py$")
    ours = {hosts.sub("", path).replace("/", "."): tree for path, _, tree in modules()}
    imports = {}
    for name, tree in ours.items():
        # What is imported within a function, or for types alone, closes no circle.
        taken = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
        found = {f"{node.module}.{a.name}" for node in taken for a in node.names}
        imports[name] = (found | {str(node.module) for node in taken}) & ours.keys() - {name}
    assert sum(map(len, imports.values())) > 1000, "imports are no longer found"
    assert len(list(TopologicalSorter(imports).static_order())) >= len(ours)


def test_every_test_file_says_first_what_it_holds() -> None:
    files = [f for f in tracked() if f.parts[0] == "tests" and f.name.startswith("test_")]
    assert len(files) > 80
    said = {str(f): ast.get_docstring(ast.parse((ROOT / f).read_text())) or "" for f in files}
    assert [f for f, text in said.items() if len(text.split()) < 3] == []


def test_what_test_modules_share_is_in_tests_support() -> None:
    files = [f for f in tracked() if f.parts[0] == "tests" and f.suffix == ".py"]
    taken = re.compile(r"^ *(?:from|import) tests\.[\w.]*\btest_\w+", re.M)
    assert {str(f) for f in files if taken.search((ROOT / f).read_text())} == set()
