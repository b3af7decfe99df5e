"""The pictures of a report, and how numbers are written."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from evenkeel.render.charts import NARROW, WIDE, loads_svg
from evenkeel.render.curve_chart import curve_svg
from evenkeel.render.formatting import (
    bytes_text,
    count_text,
    imbalance_text,
    observed_text,
    percent_text,
    seconds_text,
)
from tests.support.cases.reports import ATTACK

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("count", [1, 10, 1000])
def test_pictures_are_svg_in_the_colours_and_font_of_the_page(count: int, width: int) -> None:
    names = [f'"{ATTACK} {i}' for i in range(count)]
    before, after = [float(i) for i in range(count)], [float(count) / 2] * count
    capacities = [1.0] * (count - 1) + [2.0]
    drawn = loads_svg(names, capacities, before, after, width=width)
    root = ElementTree.fromstring(drawn)
    assert root.get("viewBox", "").startswith(f"0 0 {width} ")
    assert "var(--after" in drawn
    assert "font-family" not in drawn
    assert "#0ba0" not in drawn
    assert ATTACK not in drawn
    assert len(drawn) < 40_000


def test_closed_channels_and_no_load_at_all_can_be_drawn() -> None:
    for loads in ([0.0, 0.0], [5.0, 0.0]):
        root = ElementTree.fromstring(loads_svg(["a", "b"], [1.0, 0.0], [1.0, 3.0], loads))
        titles = {t.text or "" for t in root.iter(f"{SVG}title")}
        for text in (f"channel a: 1 before, {loads[0]:g} after", "channel b: 3 before, 0 after"):
            assert any(title.startswith(text) for title in titles)


def test_the_number_of_a_bar_stands_on_the_bar_that_it_is_of() -> None:
    loads = [40.0, 5.0, 15.0], [20.0, 20.0, 20.0]
    root = ElementTree.fromstring(loads_svg(["a", "b", "c"], [1.0] * 3, *loads))
    texts = root.iter(f"{SVG}text")
    heights = [
        float(re.findall(r"[-\d.]+", text.get("transform", ""))[1])
        for text in texts
        if text.text == "1.00"
    ]
    # All carry the same afterwards, however much they carried before.
    assert len(heights) == 3 and len(set(heights)) == 1
    # A number may lie on a pale bar, or on the line of the fair share: it has an edge of paper.
    assert "var(--paper" in ElementTree.tostring(root, "unicode").split(">1.00<")[0][-200:]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_curve_shows_every_level_even_where_they_meet(width: int) -> None:
    curve = [(i * 1e4, 1 + 1 / (1 + i)) for i in range(5000)]
    levels = [("floor", 1.0), ("aim", 1.0), ("hashing", 1.9)]
    drawn = curve_svg(curve, curve[::100], curve[-1], levels, width=width)
    root = ElementTree.fromstring(drawn)
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"floor 1.000", "aim 1.000", "hashing 1.900", "state to move, MB"} <= set(texts)
    assert "1.000 for 50.0\u00a0MB" in texts
    assert len(drawn) < 60_000


def test_curve_without_points_can_be_drawn() -> None:
    root = ElementTree.fromstring(curve_svg([], [], (0.0, 1.0), [("floor", 1.0)]))
    texts = [t.text for t in root.iter(f"{SVG}text")]
    chosen = f"1.000 for {bytes_text(0)}"
    assert {"floor 1.000", chosen} <= set(texts)
    assert root.get("aria-label") == f"Imbalance against bytes moved; chosen: {chosen}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (bytes_text(0), "0 bytes"),
        (bytes_text(1), "1 byte"),
        (bytes_text(999.6), "1.00 kB"),
        (bytes_text(12_345_678), "12.3 MB"),
        (bytes_text(308_000), "308 kB"),
        (seconds_text(3.21), "3.2 s"),
        (seconds_text(125), "2 min 5 s"),
        (seconds_text(3840), "1 h 4 min"),
        (imbalance_text(1.0184), "1.018"),
        (imbalance_text(float("inf")), "∞"),
        (count_text(336776.0), "336,776"),
        (count_text(0.2512), "0.251"),
        (percent_text(0.0321), "3.2 %"),
        (percent_text(0.104), "10 %"),
        (percent_text(0.0), "0 %"),
        (percent_text(1.0), "100 %"),
        (observed_text(None), "nothing"),
        (observed_text(1.09963), "1.0996"),
        (observed_text(9_099_517.0), "9,099,517"),
        (observed_text(2137.0788), "2,137"),
        (observed_text("0 of 4"), "0 of 4"),
    ],
)
def test_numbers_are_written_for_people(text: str, expected: str) -> None:
    assert text.replace("\u00a0", " ") == expected
