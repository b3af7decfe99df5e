"""The site of the docs: its build is strict, and its pages need nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

import pytest
import yaml

from setup.docs.drawings.canvas import COLORS
from tests.project.docs.conftest import run
from tests.support.cases.topology import free_port, process, until
from tests.support.pages.chromium import running_chromium
from tests.support.wheel import ROOT, tracked

SECTIONS = ["Start", "Concepts", "How-to", "Reference"]
SECTIONS += ["Explanation", "Benchmarks", "Papers", "Community"]


def test_a_drawing_follows_the_button_of_the_site(site: Path) -> None:
    """A query of the system's colours in an <img> would not: the theme hides one of two instead."""
    shown = {"benchmarks/skew", "concepts/function", "concepts/epoch"}
    pages = (site / "index.html").read_text() + (site / "concepts/index.html").read_text()
    for name in shown:
        for form, color in (("light", 0), ("dark", 1)):
            assert f"img/{name}.{form}.svg#only-{form}" in pages, name
            text = (site / f"img/{name}.{form}.svg").read_text()
            assert "prefers-color-scheme" not in text
            # The last rule of a class counts.
            paper = re.findall(r"\.f-paper\{fill:(#\w+)\}", text)[-1]
            assert paper == COLORS["paper"][color]
    sheets = "".join(f.read_text() for f in (site / "assets/stylesheets").glob("*.css"))
    assert "#only-light" in sheets and "#only-dark" in sheets


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of this checkout, to damage."""
    for file in tracked():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


class Page(HTMLParser):
    """A page as a browser takes it: anchors, links, what it loads, and text of its paragraphs."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.paragraphs = ["\0"]
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("img", "script", "iframe", "source") and given.get("src"):
            self.loaded.append(given["src"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preconnect", "preload"):
            self.loaded.append(given["href"])
        elif tag in ("p", "pre", "td"):
            self.paragraphs.append("" if tag == "p" else "\0")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("p", "pre", "td"):
            self.paragraphs.append("\0")

    def handle_data(self, data: str) -> None:
        self.paragraphs[-1] += data


def test_every_link_leads_somewhere_and_nothing_comes_from_elsewhere(site: Path) -> None:
    pages = {file: Page(file) for file in site.rglob("*.html")}
    assert len(pages) > 40
    broken = []
    for file, page in pages.items():
        for link in (*page.links, *page.loaded):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                assert link not in page.loaded, (file, link)
                continue
            # The page for addresses that are not there stands at the root, wherever it is shown.
            home = site if link.startswith("/") else file.parent
            target = (home / unquote(url.path).lstrip("/")).resolve() if url.path else file
            known = pages[target].anchors if target in pages else set()
            if link in page.loaded:
                # The theme's CSS looks for it: it is the form of a drawing.
                known |= {"only-light", "only-dark"}
            if not target.exists() or (url.fragment and unquote(url.fragment) not in known):
                broken.append((file.name, link))
    assert [b for b in broken if b[1] not in ("#", ".")] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", sheet.read_text()), sheet


def test_markdown_of_github_is_read_as_github_reads_it(site: Path) -> None:
    """A list without an empty line before it is a list; no table and no block is left as text."""
    left = re.compile(r"\n(- |\d+\. |\| ?---)|^\||```|:::|\]\(")
    wrong = [
        (file.name, text)
        for file in site.rglob("*.html")
        for text in Page(file).paragraphs
        if "\0" not in text and left.search(text)
    ]
    assert wrong == []


def test_each_section_has_pages_and_the_search_knows_all_of_them(site: Path) -> None:
    text = (site / "index.html").read_text()
    tabs = re.findall(r'class="md-tabs__link">\s*(.*?)\s*</a>', text, re.S)
    assert [" ".join(re.sub(r"<.*?>", "", tab).split()) for tab in tabs] == SECTIONS
    found = json.loads((site / "search/search_index.json").read_text())["docs"]
    places = {entry["location"].partition("#")[0] or "index.html" for entry in found}
    pages = {f.relative_to(site).as_posix() for f in site.rglob("*.html")} - {"404.html"}
    assert places >= pages
    assert any("xxhash64" in entry["text"] for entry in found)


def test_the_site_has_the_example_specs(site: Path) -> None:
    specs = {file.name: file.read_text() for file in (ROOT / "examples").glob("*.yaml")}
    assert {f.name: f.read_text() for f in (site / "examples").glob("*.yaml")} == specs
    assert specs.keys() <= set(Page(site / "examples/index.html").links)
    assert "examples/index.html" in Page(site / "index.html").links


def test_the_site_has_the_files_of_the_repository_that_its_pages_name(site: Path) -> None:
    for page, names in {
        "how-to/engines/clients.html": ("clients/go/evenkeel.go", "clients/rust/evenkeel.rs"),
        "examples/index.html": ("examples/made_up.py",),
        "how-to/clusters/kubernetes.html": ("deploy/kubernetes/driver.yaml",),
        "how-to/operate/alerts.html": ("deploy/grafana/evenkeel.json",),
        "reference/FUNCTION.html": ("clients/vectors.txt",),
    }.items():
        links = Page(site / page).links
        for name in names:
            shown = [(site / page).parent.joinpath(link).resolve() for link in links]
            assert site / name in shown, f"{page}: {name}"
            assert (site / name).read_bytes() == (ROOT / name).read_bytes()
    for page in ("how-to/engines/clients.html", "ARCHITECTURE.html"):
        assert any(link.endswith("clients/index.html") for link in Page(site / page).links), page


@pytest.mark.slow
def test_a_browser_finds_by_search_what_it_asks_of_this_machine_alone(site: Path) -> None:
    serve = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server, running_chromium() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        page, asked, failed = browser.new_page(), list[str](), list[str]()
        page.on("request", lambda request: asked.append(request.url))
        page.on("response", lambda r: failed.append(r.url) if r.status >= 400 else None)
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto(home)
        # One part of a name with dots.
        page.fill("input.md-search__input", "patience")
        page.wait_for_selector(".md-search-result__item a")
        found = page.eval_on_selector_all(
            ".md-search-result__item a", "all => all.map(a => a.href)"
        )
        server.shutdown()
    assert any("reference/settings.html" in link for link in found)
    assert len(asked) > 5 and [url for url in asked if not url.startswith(home)] == []
    assert failed == []


@pytest.mark.slow
def test_make_docs_serve_shows_the_site_on_this_machine_alone(tmp_path: Path) -> None:
    log, home = tmp_path / "log", f"127.0.0.1:{free_port()}"
    with process(log, "make", "docs-serve", PORT=home.partition(":")[2]) as started:
        until(lambda: f"Serving on http://{home}/" in log.read_text() or started.poll(), log)
        assert started.poll() is None, log.read_text()
        with urlopen(f"http://{home}/how-to/schedule.html", timeout=60) as page:
            assert b"<h1" in page.read()


def test_public_names_are_described(site: Path) -> None:
    page = Page(site / "reference/python.html")
    assert {"evenkeel.open_table", "evenkeel.Table.epoch", "evenkeel.PartitioningFunction"} <= (
        page.anchors
    )
    # The house writes a meaning where NumPy's style has the type.
    assert "no channel with capacity" in " ".join(page.paragraphs)
    text = (site / "reference/python.html").read_text()
    assert "<p>names of the columns that hold the key" in text


@pytest.mark.slow
def test_the_build_fails_by_what_leads_nowhere(copy: Path) -> None:
    wrong = {
        "[Gone](GONE.md)": "GONE.md",
        "[No such anchor](GLOSSARY.md#no-such-word)": "no-such-word",
        "[No such file](../evenkeel/gone.py)": "gone.py",
        "![No picture](img/gone.png)": "gone.png",
        "[Not on the site](../Makefile)": "Makefile is not on the site",
    }
    with (copy / "docs/GENERATOR.md").open("a") as page:
        page.write("\n" + "\n".join(wrong))
    built = run(copy, "mkdocs", "build", "-d", str(copy / "site"))
    assert built.returncode == 1
    said = [line for line in (built.stdout + built.stderr).splitlines() if "WARNING" in line]
    assert len(said) == len(wrong)
    assert [part for part in wrong.values() if not any(part in line for line in said)] == []


@pytest.mark.slow
def test_a_page_of_a_new_folder_must_be_in_a_section(copy: Path) -> None:
    (copy / "docs/how-to/new.md").write_text("# A new page\n")
    assert run(copy, "mkdocs", "build", "-d", str(copy / "site")).returncode == 0
    assert "A new page" in (copy / "site/index.html").read_text()
    (copy / "docs/nowhere").mkdir()
    (copy / "docs/nowhere/new.md").write_text("# Another\n")
    built = run(copy, "mkdocs", "build", "-d", str(copy / "site"))
    assert built.returncode == 1 and "nowhere/new.md" in built.stdout + built.stderr


def dry_run(command: str, tag: str) -> list[str]:
    """The commands that a call of make in this checkout would run, as its workflow has it."""
    assert command.startswith("make docs-version")
    given = {**os.environ, "GITHUB_REF_NAME": tag}
    printed = subprocess.check_output(
        ["bash", "-ec", command.replace("make", "make -n --no-print-directory", 1)],
        cwd=ROOT,
        env=given,
        text=True,
    )
    lines = [line for line in printed.splitlines() if not line.startswith("#")]
    assert "mike deploy" in lines[0] and len(lines) == 2, printed
    return lines


@pytest.mark.slow
def test_releases_publish_their_versions_side_by_side(
    copy: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the workflow's own commands, with no more identity than it gives; dev is beside them."""
    job = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]["site"]
    checkout, *_, step = job["steps"]
    assert checkout["with"]["fetch-depth"] == 0
    for name, value in step["env"].items():
        monkeypatch.setenv(name, value)
    push = step["run"].splitlines()[1].split()
    assert push == ["git", "push", "origin", "gh-pages"]
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    origin = str(tmp_path_factory.mktemp("origin"))

    def call(*command: str) -> str:
        done = subprocess.run(command, cwd=copy, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout

    call("git", "init", "-q", "--bare", origin)
    call("git", "init", "-q")
    call("git", "remote", "add", "origin", origin)
    call("git", "commit", "-q", "--allow-empty", "-m", "begin", "--author", "x <x@example.org>")
    make, *_ = step["run"].splitlines()
    # The newest pages of all come last: they are no release, so nobody is led to them.
    for version, command in (("v0.1.0", make), ("v0.2.0", make), ("", "make docs-version")):
        # As a fresh checkout with all branches has it.
        call("git", "fetch", "-q")
        for line in dry_run(command, version):
            call("bash", "-ec", line)
        call(*push)
        call("git", "update-ref", "-d", "refs/heads/gh-pages")
    told = json.loads(call("git", "show", "origin/gh-pages:versions.json"))
    assert {v["version"]: v["aliases"] for v in told} == {
        "dev": [],
        "0.2.0": ["latest"],
        "0.1.0": [],
    }
    assert "Evenkeel" in call("git", "show", "origin/gh-pages:0.1.0/index.html")
    assert "latest" in call("git", "show", "origin/gh-pages:index.html")
