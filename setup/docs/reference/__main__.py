"""Write the pages of docs/reference that come from code, and two tables: `make reference`.

A test compares what is committed with what this makes, so no page can drift from the code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from setup.docs import badges
from setup.docs.reference import airflow, api, commands, errors, gates, registry, settings, spec

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reference"
#: File in docs/reference -> what makes its text.
PAGES: dict[str, Callable[[], str]] = {
    "spec.md": spec.spec_page,
    "cli.md": commands.console,
    "jobs.md": commands.jobs,
    "dags.md": airflow.dags,
    "metrics.md": airflow.metrics,
    "python.md": api.page_text,
    "settings.md": settings.page_text,
    "exit-codes.md": errors.exit_codes,
    "registry/files.md": registry.page_text,
    **{f"registry/{name}": partial(registry.fields_page, name) for name in registry.FIELD_PAGES},
    "registry/registry.schema.json": registry.schema,
    "../GATES.md": gates.page_text,
    "../img/badges/licence.svg": badges.licence,
    "../img/badges/python.svg": badges.python,
    **{f"errors/{name}.md": make for name, make in errors.PAGES.items()},
}


def main() -> int:
    """Write every page whose text has changed, and print its name; return the exit code."""
    for name, make in PAGES.items():
        file, text = FOLDER / name, make()
        if not file.exists() or file.read_text() != text:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
            print(file.resolve().relative_to(FOLDER.parents[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
