"""Draw concepts and the benchmarks' charts into docs/img: python -m setup.docs.drawings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from setup.docs.drawings import bars, epoch, flow, function, migration, parts, split_key
from setup.docs.drawings.canvas import Canvas

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "img" / "concepts"
DRAWINGS: dict[str, Callable[[], Canvas]] = {
    "function": function.draw,
    "epoch": epoch.draw,
    "split_key": split_key.draw,
    "parts": parts.draw,
    "flow": flow.draw,
    "migration": migration.draw,
    **bars.DRAWINGS,
}


def main() -> None:
    """Write every drawing."""
    for name, draw in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    main()
