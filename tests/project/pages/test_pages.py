"""Links of the docs lead somewhere, and pages of benchmarks have their parts and commands."""

import re
from pathlib import Path

import evenkeel
import evenkeel_airflow
import evenkeel_spark
from benchmarks.__main__ import ALL, LONG
from tests.support.wheel import ROOT

PAGES = sorted(f for at in (".", "docs/**", "examples", "clients") for f in ROOT.glob(f"{at}/*.md"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub names them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return found


def links(page: Path) -> list[str]:
    """The links of a page that are not addresses of the web."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    found = re.findall(r"\]\(([^)\s]+)\)", text)
    return [link for link in found if "://" not in link and not link.startswith("mailto:")]


def test_every_link_leads_to_a_file_and_a_heading():
    broken, seen = [], 0
    for page in PAGES:
        for link in links(page):
            seen += 1
            if workflow := re.fullmatch(
                r"\.\./\.\./actions/workflows/(\w+\.yml)(/badge\.svg)?", link
            ):
                if not (ROOT / ".github/workflows" / workflow[1]).exists():
                    broken.append(f"{page.relative_to(ROOT)}: {link}")
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert seen > 200
    assert broken == []


def test_each_page_is_reached_from_the_readme_by_links():
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
        left += [target for target in targets if target.is_file() and target.suffix == ".md"]
    assert len(PAGES) > 70
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in reached] == []


def test_the_index_of_the_benchmarks_lists_its_pages_and_they_have_the_same_parts():
    page = (ROOT / "docs" / "BENCHMARKS.md").read_text()
    topics = sorted((ROOT / "docs" / "benchmarks").glob("*.md"))
    assert {f"benchmarks/{topic.name}" for topic in topics} == set(
        re.findall(r"^\| \[.*?\]\((benchmarks/\w+\.md)\)", page, re.M)
    )
    parts = ["## Set-up", "## Result", "## Caveats", "## Repeat it"]
    for topic in topics:
        text = topic.read_text()
        assert [h for h in re.findall(r"^## .*", text, re.M) if h in parts] == parts, topic.name
        assert f"](../img/benchmarks/{topic.stem}.svg)" in text


def test_the_pages_name_every_benchmark_and_those_that_run_by_name_only():
    index = (ROOT / "docs" / "BENCHMARKS.md").read_text()
    alone = index.split("run by name only: ")[1].split(".\n")[0]
    assert re.findall(r"`(\w+)`", alone) == list(LONG)
    commands = [c for page in PAGES for c in re.findall(r"`([^`]+)`", page.read_text())]
    told = " ".join(c for c in commands if c.startswith("make bench") or "benchmarks." in c)
    assert [name for name in (*ALL, *LONG) if not re.search(rf"\b{name}\b", told)] == []


def test_pages_import_public_names_alone():
    packages = {p.__name__: set(p.__all__) for p in (evenkeel, evenkeel_airflow, evenkeel_spark)}
    pattern = r"^ *(?:from|import) ((?:evenkeel|partitioning)[\w.]*)(?: import ([\w, ]+))?$"
    found = [
        (module, name)
        for page in PAGES
        for module, names in re.findall(pattern, page.read_text(), re.M)
        for name in (names.split(", ") if names else [None])
    ]
    assert {name for _, name in found} > {"load_tables", "ApplyWindow", "meet", None}
    assert {module for module, _ in found} == set(packages)
    assert [f for f in found if f[1] not in {None, *packages[f[0]]}] == []
    promised = (ROOT / "docs" / "COMPATIBILITY.md").read_text().split("| Python API |")[1]
    assert re.findall(r"`(evenkeel\w*)`", promised.split("\n")[0]) == list(packages)


def test_the_page_of_the_function_counts_its_vectors():
    lines = (ROOT / "clients" / "vectors.txt").read_text().removesuffix("\n").split("\n")
    functions = sum(line.startswith("function\t") for line in lines)
    said = (
        f"has {len(lines) - functions:,} of them, for {('seven', 'eight')[functions - 7]} functions"
    )
    assert said in (ROOT / "docs" / "reference" / "FUNCTION.md").read_text()
