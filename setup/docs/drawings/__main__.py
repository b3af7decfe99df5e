"""Draw concepts and the benchmarks' charts into docs/img: python -m setup.docs.drawings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from setup.docs.drawings import bars, epoch, flow, function, migration, parts, split_key
from setup.docs.drawings.canvas import Canvas

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "img"
#: Drawings by their place below `IMAGES`, without `.svg`.
DRAWINGS: dict[str, Callable[[], Canvas]] = {
    "concepts/function": function.draw,
    "concepts/epoch": epoch.draw,
    "concepts/split_key": split_key.draw,
    "concepts/parts": parts.draw,
    "concepts/flow": flow.draw,
    "concepts/migration": migration.draw,
    **{f"benchmarks/{name}": draw for name, draw in bars.DRAWINGS.items()},
}


def main() -> None:
    """Write every drawing."""
    for name, draw in DRAWINGS.items():
        (IMAGES / f"{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    main()
