"""Data Docs: what is pruned is not linked, and what is linked stays."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest

from evenkeel.quality.data_docs import pages, prune_docs
from evenkeel.quality.gates import plan_gate
from evenkeel.registry import pruning
from evenkeel.registry.pruning import prune
from evenkeel.table import Table
from tests.support.cases.gates import PLAN, PREVIOUS
from tests.support.worlds.old_registry import old, spec_path  # noqa: F401

SINCE = datetime.now(UTC) - timedelta(days=30)


def links(table: Table) -> set[str]:
    """Names of the pages that the index leads to."""
    index = table.registry.store.read("data_docs/index.html").decode()
    return {unquote(name) for name in re.findall(r'href="([^"]+)"', index)}


def runs(table: Table) -> set[str]:
    return {page.run for page in pages(table.registry.store)}


def checked(table: Table, *names: str, days: float) -> None:
    """Run the gate of a plan for each run; all files of the registry get this age in days."""
    for name in names:
        plan_gate(PLAN, PREVIOUS, table.registry.store, name)
    then = time.time() - days * 86400
    for file in Path(table.registry.url).rglob("*"):
        os.utime(file, (then, then))


@pytest.fixture
def docs(old: Table, monkeypatch: pytest.MonkeyPatch) -> Table:  # noqa: F811
    """Pages of four runs, 60 days old: one of the runs stays, because it may move state."""
    monkeypatch.setattr(pruning, "NEWEST_RUNS", 0)
    checked(old, "first", "second", "third", "fourth", days=60)
    return old


def test_the_index_leads_to_no_page_that_is_gone(docs: Table) -> None:
    prune(docs.registry, SINCE, 0)
    assert prune_docs(docs.registry, docs.spec.table, SINCE) == 3
    assert runs(docs) == {"fourth"}
    assert links(docs) == {page.name for page in pages(docs.registry.store)}
    assert prune_docs(docs.registry, docs.spec.table, SINCE) == 0


def test_a_pruning_that_was_killed_before_the_index_is_ended(docs: Table) -> None:
    gone = pages(docs.registry.store)[0].name
    docs.registry.store.remove(f"data_docs/{gone}")
    assert gone in links(docs)
    assert prune_docs(docs.registry, docs.spec.table, SINCE) == 0
    assert gone not in links(docs)


def test_pages_of_runs_that_stay_stay_and_those_of_the_current_epoch(docs: Table) -> None:
    """A report leads to the pages of its run."""
    store, named = docs.registry.store, docs.registry.archive(2).gate_plan.read().docs
    assert named is not None
    page = next(page.name for page in pages(store) if page.run == "second")
    store.write(named, store.read(f"data_docs/{page}"))
    for name in ("first", "second", "third"):
        store.remove_folder(f"runs/{name}")
    # A moment to come: all pages are older.
    assert prune_docs(docs.registry, docs.spec.table, datetime.now(UTC) + timedelta(days=1)) == 3
    assert {f"data_docs/{page.name}" for page in pages(store) if page.run != "fourth"} == {named}
    assert runs(docs) == {"second", "fourth"}


def test_new_pages_stay(old: Table) -> None:  # noqa: F811
    checked(old, "nothing", days=1)
    assert prune_docs(old.registry, old.spec.table, SINCE) == 0
    assert runs(old) == {"nothing"}
