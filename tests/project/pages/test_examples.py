"""The example specs are right, and their README lists each."""

import re

import pytest

from evenkeel.spec.loading import load_spec
from tests.support.wheel import ROOT

SPECS = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("file", SPECS, ids=lambda file: file.stem)
def test_an_example_is_a_right_spec(file):
    assert load_spec(file).table == file.stem


def test_the_readme_lists_each_example():
    text = (ROOT / "examples" / "README.md").read_text()
    assert set(re.findall(r"\]\((\w+\.yaml)\)", text)) == {file.name for file in SPECS}
    assert len(SPECS) == 7
