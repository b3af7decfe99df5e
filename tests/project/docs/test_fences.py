"""Code of the pages outside of docs/how-to: specs load, calls are right, and commands are there.

`TYPED` names for each fence that a reader types which test runs it, or why none does.
"""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
import yaml

import evenkeel
from evenkeel.registry.epochs import Epoch
from evenkeel.spec.custom_merges import MERGES_VARIABLE, merges
from evenkeel.spec.loading import load_spec
from evenkeel.spec.table_spec import TableSpec
from setup.docs.reference.commands import parser_of
from tests.support.docs.calls import bound_calls
from tests.support.docs.readme import ROOT, block, shell
from tests.support.docs.steps import run

DOCS = ROOT / "docs"
#: Pages, and a language or how a fence of none begins -> the test that runs it, or why none does.
#: YAML is loaded below.
TYPED = {
    ("README.md", "python"): "test_newcomer runs it in a reader's shell",
    ("README.md", "make run"): "test_newcomer makes `run` on the flights, and with DATA",
    ("README.md", "flights: "): "test_newcomer compares it with what `make run` makes",
    ("CONTRIBUTING.md", "make test"): "minutes to hours each; the workflows make most of them",
    ("docs/SPLITTING.md", "python"): "test_newcomer runs it on Delta, in a reader's shell",
    ("docs/reference/python.md", "python"): "test_commands runs it in a reader's shell",
    ("docs/GENERATOR.md", "sh"): "run below",
    ("docs/PROTOCOL.md", "sh"): "minutes each: test_protocol_model explores these cases",
    ("docs/papers/more.md", "sh"): "it takes novels from a website, and an hour",
    ("docs/PAPERS.md", "text"): "runs of experiments, which test_pages of benchmarks reads",
    ("docs/papers/*.md", "text"): "figures of experiments, as `make papers` printed them",
}
#: What the names of an example in Python stand for. Its other names are PySpark's.
KNOWN = {"evenkeel": evenkeel, "epoch": Epoch}
MAKE = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


class Fence(NamedTuple):
    """A fenced block of a page, without its indent."""

    page: str
    language: str
    text: str


FENCES = [
    Fence(file.relative_to(ROOT).as_posix(), language, textwrap.dedent(text))
    for file in sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
    # Those of how-to pages, and of the page of examples, run as they stand.
    if "how-to" not in file.parts
    for language, text in re.findall(
        r"^ *```(\w*)[^\n]*\n(.*?)^ *```", file.read_text(), re.M | re.S
    )
]


def of(language: str) -> Any:
    """The fences of a language, as a parameter of a test."""
    found = [f for f in FENCES if f.language == language]
    return pytest.mark.parametrize("fence", found, ids=[f.page for f in found])


def test_each_fence_is_read_here_or_has_a_reason() -> None:
    rest = [f for f in FENCES if f.language != "yaml"]
    named = {
        (page, kind): [f for f in rest if fnmatch(f.page, page) and of_kind(f, kind)]
        for page, kind in TYPED
    }
    assert [f for f in rest if not any(f in found for found in named.values())] == []
    assert [name for name, found in named.items() if not found] == []
    assert len(FENCES) > 30


@pytest.mark.parametrize(("page", "kind"), TYPED)
def test_a_reason_names_a_test_that_knows_the_page(page: str, kind: str) -> None:
    reason = TYPED[page, kind]
    fences = [f.text for f in FENCES if f.page == page and of_kind(f, kind)]
    # The page itself, or what its commands take in quotes, such as a case.
    known = {Path(page).stem, *re.findall(r"'([^']+)'", " ".join(fences))}
    for name in re.findall(r"test_\w+", reason):
        texts = [file.read_text() for file in (ROOT / "tests").rglob(f"{name}.py")]
        assert any(word in text for text in texts for word in known), f"{name} has none of {known}"
    if "below" in reason:
        below = Path(__file__).read_text().partition("\n}\n")[2]
        assert Path(page).name in below


def of_kind(fence: Fence, kind: str) -> bool:
    """Whether a fence has this language; or has none, and begins so."""
    return kind == fence.language or (not fence.language and fence.text.startswith(kind))


def test_commands_of_fences_without_a_language_are_there() -> None:
    found = [f for f in FENCES if not f.language and f.text.startswith("make ")]
    lines = [line for f in found for line in f.text.splitlines()]
    assert {check(shlex.split(line, comments=True)) for line in lines} == {"make"}
    assert len(found) == 2


@pytest.mark.slow
@pytest.mark.spark
def test_the_commands_of_the_generators_page_run(tmp_path: Path) -> None:
    # The reader's checkout, but for what the commands write.
    for name in (".venv", "evenkeel"):
        (tmp_path / name).symlink_to(ROOT / name)
    run(DOCS / "GENERATOR.md", tmp_path, shell())
    rows = pq.read_table(tmp_path / ".run/events").to_pandas()
    assert (rows["day"].nunique(), len(rows)) == (28, 400_000)


@of("yaml")
def test_a_spec_loads(fence: Fence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = yaml.safe_load(fence.text)
    if given.keys().isdisjoint(TableSpec.model_fields):
        file = tmp_path / "merges.yaml"
        file.write_text(fence.text)
        monkeypatch.setenv(MERGES_VARIABLE, str(file))
        assert given.keys() <= merges().keys()
        return
    spec = yaml.safe_load(block("yaml"))
    if "table" not in given:
        given = spec | given
    elif (file := ROOT / "tables" / f"{given['table']}.yaml").exists():
        assert fence.text == file.read_text(), "it is not the file any more"
    file = tmp_path / f"{given['table']}.yaml"
    file.write_text(yaml.safe_dump(given))
    assert load_spec(file).table == given["table"]


@of("python")
def test_python_calls_what_there_is(fence: Fence) -> None:
    tree = ast.parse(fence.text)
    assert [*bound_calls(tree, KNOWN)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert all(find_spec(alias.name) for alias in node.names)


@of("sh")
def test_commands_are_there(fence: Fence) -> None:
    lines = fence.text.replace("\\\n", " ").splitlines()
    found = [check(words) for line in lines if (words := shlex.split(line, comments=True))]
    assert found


def check(words: list[str]) -> str:
    """Refuse a command that cannot be run as it stands; return its name."""
    name, *rest = words
    if name == "eval":
        return check(shlex.split(rest[0].removeprefix("$(").removesuffix(")")))
    if name == "make":
        assert rest[0] in MAKE
        assert all(re.match("(ARGS|DATA|KEY|TIME)=", word) for word in rest[1:])
        return name
    assert Path(name).name == "python", f"say how to check {name}"
    if rest[0] == "-c":
        compile(rest[1], name, "exec")
    elif rest[0] == "-m":
        assert find_spec(rest[1])
        if ".jobs." in rest[1]:
            parser_of(rest[1].rpartition(".")[2]).parse_args(rest[2:])
    else:
        assert (ROOT / rest[-1]).is_file()
    return name
