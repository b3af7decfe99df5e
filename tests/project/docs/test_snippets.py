"""Python calls and SQL statements in sentences: each has run, is tried here, or has a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk import Asset
from deltalake import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter

import evenkeel
from evenkeel.registry.epochs import Epoch
from evenkeel_airflow import ApplyWindow, RebalanceTaskGroup, load_tables
from partitioning.streams import zipf_stream
from tests.support.docs.calls import bound_calls
from tests.support.docs.reader import HOW_TO, NOT_TRIED
from tests.support.docs.steps import blocks
from tests.support.wheel import ROOT

#: Pages outside of docs/how-to whose Python a test of a newcomer runs.
RUN_BY_NEWCOMER = (ROOT / "README.md", ROOT / "docs" / "SPLITTING.md")
#: What names stand for: a function, or the class of a value.
KNOWN = {
    "ApplyWindow": ApplyWindow,
    "Asset": Asset,
    "DataFrame": DataFrame,
    "DataFrameWriter": DataFrameWriter,
    "Path": Path,
    "RebalanceTaskGroup": RebalanceTaskGroup,
    "SmtpNotifier": SmtpNotifier,
    "coalesce": DataFrame.coalesce,
    "df": DataFrame,
    "epoch": Epoch,
    "evenkeel": evenkeel,
    "groupBy": DataFrame.groupBy,
    "load_tables": load_tables,
    "open_table": evenkeel.open_table,
    "repartition": DataFrame.repartition,
    "rows": DataFrame,
    "state": evenkeel.Table.state,
    "vacuum": DeltaTable.vacuum,
}
#: Piece -> the test that runs it, and how it stands there; or why none does.
HELD = {
    "ALTER TABLE ... EXECUTE optimize": "a fault of Trino, which the page of the issue has",
    "ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '3')": "Iceberg's own statement; "
    'tests make such tables: tests/support/iceberg/tables.py has `"format-version", "3"`',
    "bucket(16, key)": "Iceberg's own; benchmarks/spark/iceberg.py has `bucket({CHANNELS}, `",
    "bucket(N, key)": "a form of the one above",
    "h = xxhash64(key)": "a formula; tests/partitioning/function/test_hashing.py has `xxhash64`",
    "pmod(hash(key), N)": "Spark's own; benchmarks/spark/routing.py has `pmod(hash(`",
}
_FENCE = re.compile(r"^ *```.*?^ *```", re.M | re.S)
_INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
_STATEMENTS = "ALTER|CALL|CREATE|DELETE|DESCRIBE|DROP|INSERT|MERGE|OPTIMIZE|RESTORE|SELECT|SHOW"
_STATEMENTS += "|SET|TRUNCATE|UPDATE|VACUUM"
_SQL = re.compile(rf"(?:{_STATEMENTS}) ")
#: The name of a statement, or of a kind of it: nobody types that.
_NAME = re.compile(r"[A-Z. ]+")


def calls(piece: str) -> list[ast.Call]:
    """Return the calls of a piece that have an argument; none: it is no Python, or has none."""
    try:
        found = [node for node in ast.walk(ast.parse(piece)) if isinstance(node, ast.Call)]
    except SyntaxError:
        return []
    # A function's name with dots in its brackets is no call.
    shown = [ast.unparse([*call.args, *call.keywords]) for call in found]
    return [call for call, given in zip(found, shown, strict=True) if given not in ("", "...")]


def pieces() -> Iterator[tuple[str, str]]:
    """Yield each piece in a sentence of the pages that people write, and the page."""
    folders = ("*.md", "examples/*.md", "clients/*.md", "docs/**/*.md")
    for page in (page for folder in folders for page in ROOT.glob(folder)):
        if "reference" in page.parts or page.name == "CHANGELOG.md":
            continue
        for _, text in _INLINE.findall(_FENCE.sub("", page.read_text())):
            piece = " ".join(text.split())
            sql = _SQL.match(piece) and not _NAME.fullmatch(piece)
            if sql or calls(piece):
                yield piece, str(page.relative_to(ROOT))


PIECES = dict(pieces())


def run_fences() -> str:
    """Return the text of all fences that a reader's shell runs, with single spaces."""
    pages = [p for p in HOW_TO.rglob("*.md") if p not in [HOW_TO / f"{n}.md" for n in NOT_TRIED]]
    texts = [text for page in (*pages, *RUN_BY_NEWCOMER) for _, text in blocks(page)]
    return " ".join("\n".join(texts).split())


def tried(piece: str) -> bool:
    """Whether each call of a piece is one of a function that is known, and takes its arguments."""
    asked = {ast.unparse(call) for call in calls(piece)}
    found = {ast.unparse(call) for call in bound_calls(ast.parse(piece), KNOWN)} if asked else set()
    return bool(asked) and asked <= found


def test_each_piece_is_run_or_tried_or_has_a_reason() -> None:
    ran = run_fences()
    left = {p: page for p, page in PIECES.items() if not (p in ran or tried(p) or p == GENERATOR)}
    assert left.keys() == HELD.keys(), left
    assert len(PIECES) > 25


@pytest.mark.parametrize("piece", HELD)
def test_a_reason_names_a_file_that_has_the_piece(piece: str) -> None:
    for path, said in re.findall(r"([\w/]+\.py) has `([^`]+)`", HELD[piece]):
        assert said in (ROOT / path).read_text(), path


#: It is run here, as the page names its module.
GENERATOR = 'partitioning.streams.zipf_stream.keys_of_window(PRESETS["guo-zhou"], 3)'


def test_the_keys_of_a_window_come_without_spark() -> None:
    assert PIECES[GENERATOR] == "docs/GENERATOR.md"
    name, _, arguments = GENERATOR.rpartition("keys_of_window")
    assert name == f"{zipf_stream.__name__}."
    keys = eval(f"keys_of_window{arguments}", vars(zipf_stream))
    assert len(keys) == 6100 and np.issubdtype(keys.dtype, np.integer)


def test_a_wrong_piece_is_seen() -> None:
    for wrong in ("open_table('a').stat('b')", "rows.repartitionById('channel')"):
        with pytest.raises((AttributeError, TypeError)):
            tried(wrong)
    assert not tried("nobody_knows(1)")
    assert calls("successor(...)") == calls("a.b()") == calls("no code") == []
