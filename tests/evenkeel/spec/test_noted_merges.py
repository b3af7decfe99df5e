"""Merges as tables note them: an edited one is refused before it folds older values."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from evenkeel.registry.state_view import COLUMNS_PROPERTY, check_merges, noted_merge
from evenkeel.spec.parts import StateTable
from partitioning.errors import InputError


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_an_edited_merge_is_refused_with_a_way_on(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "merges.yaml"
    monkeypatch.setenv("EVENKEEL_MERGES", str(file))
    merge = {"fold": "bit_or({of})", "pair": "{a} | {b}", "every": "bit_or({x})"}
    path = "state/totals" if kind == "delta" else "lake.db.totals"
    columns = {"bits": {"merge": "flags", "of": "n"}, "trips": {"merge": "count"}}
    file.write_text(yaml.safe_dump({"flags": merge}))
    table = StateTable.model_validate({"path": path, "format": kind, "columns": columns})
    noted = {name: noted_merge(column.merge) for name, column in table.columns.items()}
    assert noted["trips"] == "count" and noted["bits"].startswith("flags@")
    check_merges("totals", table, {COLUMNS_PROPERTY: json.dumps(noted)})
    # A table of an earlier version notes the name alone.
    check_merges("totals", table, {COLUMNS_PROPERTY: '{"bits": "flags", "trips": "count"}'})
    check_merges("totals", table, {})
    with pytest.raises(InputError, match="'trips' was made by merge max, the spec says count.*Set"):
        check_merges("totals", table, {COLUMNS_PROPERTY: '{"trips": "max"}'})
    file.write_text(yaml.safe_dump({"flags": {**merge, "pair": "{b} | {a}"}}))
    # `merges` looks at the time of the file.
    os.utime(file, (1, 1))
    name = "delta.`state/totals`" if kind == "delta" else "`lake`.`db`.`totals`"
    said = f"flags@.*The SQL of this merge was edited.*ALTER TABLE {re.escape(name)} SET"
    with pytest.raises(InputError, match=said) as error:
        check_merges("totals", table, {COLUMNS_PROPERTY: json.dumps(noted)})
    # The statement is whole: with the value that it sets, the table is taken.
    (value,) = re.findall(r"'evenkeel.columns' = '(.*)'\)", str(error.value))
    check_merges("totals", table, {COLUMNS_PROPERTY: value})
