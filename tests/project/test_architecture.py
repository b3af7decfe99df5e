"""The house: its map is right, its rooms are small, and a wheel installs five packages alone."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import prose

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/ARCHITECTURE.md").read_text()
#: Everyday changes: what a newcomer wants to do, as the page says it.
CHANGES = [
    "add a strategy",
    "add a gate expectation",
    "change what a report shows",
    "add a spec field",
    "add a merge",
    "change how a commit is fenced",
    "add a console command",
    "add a UI page",
    "change the watch's threshold",
    "support another store",
]
#: Files in a folder, beside its sub-folders, and lines of a module.
FILES, LINES = 12, 300
#: Modules that are still to be split; this list only shrinks.
TO_SPLIT = {
    "benchmarks/papers/flexd/throughput.py",
    "partitioning/workload/profile.py",
    "spark_jobs/evenkeel_spark/migration/table_migration.py",
}


def tracked() -> list[Path]:
    """Every file of the repository."""
    named = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if named.returncode:
        pytest.skip("not a checkout")
    return [file for file in map(Path, named.stdout.splitlines()) if (ROOT / file).exists()]


@pytest.mark.parametrize("change", CHANGES)
def test_each_everyday_change_has_a_room(change: str) -> None:
    (row,) = re.findall(rf"^\| {change} \|(.*)\|$", PAGE, re.M)
    rooms = re.findall(r"\]\(\.\./([^)]+)\)", row)
    assert rooms
    assert all((ROOT / room).exists() for room in rooms)


def test_every_link_of_the_page_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)", PAGE)
    assert len(links) > 20
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_no_folder_and_no_module_is_crowded() -> None:
    folders: dict[Path, int] = {}
    for file in tracked():
        folders[file.parent] = folders.get(file.parent, 0) + 1
    assert {str(f): n for f, n in folders.items() if n > FILES} == {}
    product = [f for f in tracked() if f.suffix == ".py" and f.parts[0] not in ("tests",)]
    lines = {str(f): len((ROOT / f).read_text().splitlines()) for f in product}
    assert len(lines) > 150
    assert {f for f, n in lines.items() if n > LINES} == TO_SPLIT


@pytest.mark.slow
def test_a_wheel_installs_five_packages_alone(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    source = tmp_path / "source"
    for file in tracked():
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        (source / file).write_bytes((ROOT / file).read_bytes())
    subprocess.run([*build, "-w", str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {
        "partitioning",
        "evenkeel",
        "evenkeel_spark",
        "evenkeel_airflow",
        "evenkeel_ui",
    }
    for needed in ("evenkeel/render/templates/page.css", "evenkeel_ui/templates/assets/ui.css"):
        assert needed in names


def test_prose_that_is_hard_to_read_is_told() -> None:
    long = "one two three four five six " * 6 + "end."
    found = [
        prose.Sentence("a.md", s) for s in prose.sentences(f"Short one. {long} Of keys one is.")
    ]
    told = prose.problems(found, {"a.md: gone"})
    assert [t.partition(": ")[0] for t in told] == ["a.md", "a.md", "prose_allowed.txt"]
    for one, part in zip(told, ("37 words", "opens with 'Of'", "a.md: gone"), strict=True):
        assert part in one
    assert [
        list(prose.sentences(p)) for p in prose.paragraphs("# Head\n- A b.\n\n```\nx\n```\nC d.")
    ] == [
        ["A b."],
        ["C d."],
    ]
