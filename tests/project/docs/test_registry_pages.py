"""Pages of the fields of the registry's files: each field has a meaning, each class a section."""

from __future__ import annotations

import re

import pytest
from pydantic import TypeAdapter

from evenkeel.registry.verdict import PUBLISH, ROLL_BACK
from setup.docs.reference.__main__ import PAGES
from setup.docs.reference.registry import FIELD_PAGES, field_rows, models

TEXTS = {name: PAGES[f"registry/{name}"]() for name in FIELD_PAGES}
KINDS = {name: kind for of in models().values() for name, kind in of.items()}


@pytest.mark.parametrize("name", KINDS)
def test_each_field_has_a_meaning_of_its_own(name: str) -> None:
    meanings = [row[-1] for row in field_rows(KINDS[name])]
    assert "" not in meanings and len(set(meanings)) == len(meanings) > 0


def test_each_class_that_a_field_has_has_a_section() -> None:
    nested = {
        d for kind in KINDS.values() for d in TypeAdapter(kind).json_schema().get("$defs", {})
    }
    assert {"Move", "CurvePoint", "Batch", "Mitigation"} < nested <= KINDS.keys()
    sections = {page: re.findall(r"^## (\w+)$", text, re.M) for page, text in TEXTS.items()}
    assert sorted(name for found in sections.values() for name in found) == sorted(KINDS)
    links = [link for t in TEXTS.values() for link in re.findall(r"\[(\w+)\]\((\S+)#(\w+)\)", t)]
    assert {name for name, _, _ in links} == nested
    assert all(name in sections[page] and name.lower() == at for name, page, at in links)


def test_the_values_of_a_verdict_are_said() -> None:
    (row,) = re.findall(r"^\| `verdict` .*$", TEXTS["run-fields.md"], re.M)
    assert f"`{PUBLISH}`" in row and f"`{ROLL_BACK}`" in row
