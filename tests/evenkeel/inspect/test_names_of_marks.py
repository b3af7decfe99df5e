"""Each mark that a chart announces has a name, also where a layer of it has no marks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from evenkeel.inspect.load_charts import windows_svg
from evenkeel.inspect.load_history import PastWindow

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("epochs", [[0], [0, 0], [0, 1]], ids=["one", "no new epoch", "new epoch"])
def test_every_mark_has_a_name(epochs: list[int]) -> None:
    windows = [
        PastWindow(f"2013-01-0{i}", f"2013-01-0{i + 1}", epoch, 1.5, ("0", "1"), (1.5, 0.5))
        for i, epoch in enumerate(epochs, 1)
    ]
    text = windows_svg(windows, [w.imbalance for w in windows], "Imbalance", 1.1)
    announced = [
        e for e in ElementTree.fromstring(text).iter() if e.get("role") == "graphics-symbol"
    ]
    assert len(announced) >= len(epochs)
    for mark in announced:
        named = mark.get("aria-label") or mark.findtext(f"{SVG}title")
        assert named, ElementTree.tostring(mark, encoding="unicode")[:200]
    assert len(re.findall("epoch 1<", text)) >= epochs.count(1)


@pytest.mark.parametrize("value", [1.61, 2.5, 0.004])
def test_the_axis_of_one_value_says_that_value(value: float) -> None:
    window = PastWindow("2013-01-01", "2013-01-02", 0, value, ("0",), (value,))
    text = windows_svg([window, window], [value, value], "Load")
    assert re.findall(r">([\d.]+)</text>", text) == [f"{value:g}"]
