"""The drawings of the docs are what the code makes, can be read, and are shown on a page."""

from itertools import product
from xml.etree import ElementTree

import pytest

from setup.docs.drawings.__main__ import DRAWINGS, IMAGES
from setup.docs.drawings.canvas import COLORS
from setup.docs.drawings.migration import course
from setup.docs.drawings.split_key import EVENTS, counts
from tests.support.wheel import ROOT

ROOMS = ("concepts", "benchmarks")


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_what_the_code_makes(name):
    made = DRAWINGS[name]().svg()
    assert (IMAGES / f"{name}.svg").read_text() == made, "run make reference"
    ElementTree.fromstring(made)


def test_each_drawing_is_shown_on_a_page():
    pages = "".join(
        page.read_text() for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    )
    made = {
        f"{file.parent.name}/{file.stem}" for room in ROOMS for file in (IMAGES / room).iterdir()
    }
    assert made == set(DRAWINGS)
    assert [name for name in DRAWINGS if f"img/{name}.svg" not in pages] == []


def test_nothing_is_drawn_outside_of_the_paper():
    for name, draw in DRAWINGS.items():
        sheet = draw()
        found = ElementTree.fromstring(sheet.svg()).iter()
        shapes = [e for e in found if e.tag.rpartition("}")[2] in ("text", "rect", "circle")]
        # One has no place: the paper.
        places = [(e.get("x") or e.get("cx"), e.get("y") or e.get("cy")) for e in shapes[1:]]
        assert shapes[0].get("x") is None and len(places) > 10, name
        for x, y in places:
            assert 0 <= float(x) < sheet.width and 0 <= float(y) < sheet.height - 8, (name, x, y)


def test_text_can_be_read_in_light_and_dark():
    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    texts = COLORS.keys() - {"paper", "panel", "rule"}
    for (name, at), paper in product(product(texts, (0, 1)), ("paper", "panel")):
        low, high = sorted((luminance(COLORS[name][at]), luminance(COLORS[paper][at])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (name, at, paper)


def test_the_course_of_the_migration_is_a_safe_one():
    loads = course().loads
    assert (loads.max(axis=1) <= max(loads[0].max(), loads[-1].max()) + 1e-9).all()
    assert loads[-1].max() < 1.03 < loads[0].max()


def test_the_partial_rows_add_up():
    assert sum(counts().values()) == EVENTS
