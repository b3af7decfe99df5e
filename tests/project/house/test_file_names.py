"""Files of runs and epochs have one door: no other module of the product quotes their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from evenkeel.registry.files.run_files import (
    DATA_DOCS,
    JOB_ERRORS,
    MOVING,
    SKETCHES,
    SPEC_CHANNELS,
    WINDOWS,
    EpochFiles,
    RegistryFiles,
    RunFiles,
)
from evenkeel.registry.files.stored_file import FileOf

ROOT = Path(__file__).resolve().parents[3]
DOOR = "evenkeel/registry/files/run_files.py"
#: Folders of the registry whose files are named by a digest, a day, a run or a job.
FOLDERS = {DATA_DOCS, JOB_ERRORS, MOVING, SKETCHES, SPEC_CHANNELS, WINDOWS}


def names() -> set[str]:
    """The names that the door declares."""
    doors = (*EpochFiles.__mro__, *RunFiles.__mro__, *RegistryFiles.__mro__)
    return {f.name for door in doors for f in vars(door).values() if isinstance(f, FileOf)}


def quoted(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each string of a module, but for docstrings; parts of an f-string joined."""
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values),
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documented
        ):
            yield node.lineno, node.value


def is_named(text: str, known: set[str]) -> bool:
    """Whether a string of the product names such a file, alone or in a path."""
    folder, slash, file = text.rpartition("/")
    return file in known or (bool(slash) and not FOLDERS.isdisjoint(folder.split("/")))


def is_json(text: str) -> bool:
    """Whether a string names a JSON file, also by a value in it."""
    return re.fullmatch(r"(?:.*/)?[\w{}-]+\.json", text) is not None


def test_only_the_door_names_files_of_runs_and_epochs() -> None:
    known = names()
    assert len(known) >= 20
    assert {"plan.json", "profile.npz", "report.html", "kept.json", "watch.json"} <= known
    folders = ("evenkeel", "partitioning", "spark_jobs", "dags", "plugins")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*.py")]
    # These rooms use the registry, so a JSON file that they name is one that the door lacks.
    rooms = ("registry", "watch", "pipeline", "runs", "quality", "inspect")
    registry = {
        p for p in files if p.relative_to(ROOT).parts[:2] in {("evenkeel", r) for r in rooms}
    }
    assert len(files) > 200 and len(registry) > 50
    found = {
        path.relative_to(ROOT).as_posix(): [
            (line, text)
            for line, text in quoted(ast.parse(path.read_text(encoding="utf-8")))
            if is_named(text, known) or (path in registry and is_json(text))
        ]
        for path in files
    }
    assert len(found.pop(DOOR)) >= len(known)
    assert {path: there for path, there in found.items() if there} == {}


def test_a_name_is_seen_however_it_is_quoted() -> None:
    lines = [
        'x = f"{run.url}/plan.json"',
        'y = ("plan.json",)',
        'z = f"windows/{end}.json"',
        'names = store.names(f"sketches/{made}")',
        'mark = f"{MARKS}/{run.name}.json"',
        'listed = {f"{digest}.json"}',
    ]
    seen = list(quoted(ast.parse("\n".join(lines))))
    assert {line for line, text in seen if is_named(text, {"plan.json"})} == {1, 2, 3, 4}
    assert {line for line, text in seen if is_json(text)} == {1, 2, 3, 5, 6}
