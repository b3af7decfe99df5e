"""The page of the Python API: the public names, which mkdocstrings describes on the site."""

from __future__ import annotations

from types import ModuleType

import evenkeel
import evenkeel_airflow
import evenkeel_spark
from setup.docs.reference.markdown import code, page, summary, table

#: Package -> what it is for.
PACKAGES = {
    evenkeel: "Everywhere: tables, epochs and their functions.",
    evenkeel_airflow: "In files of DAGs, with the extra `airflow`.",
    evenkeel_spark: "In Spark jobs of your own, with the extra `spark`.",
}


def page_text() -> str:
    """Return the page."""
    return page(
        "Python API",
        '```python\nimport evenkeel\n\nepoch = evenkeel.open_table("sales").epoch()\n```',
        "These names are public. All others may change with any release. The site (`make docs`) "
        "shows the signature, the parameters and the errors of each below. On GitHub, three colons "
        "and the name stand there instead.",
        *(part for package, use in PACKAGES.items() for part in _package(package, use)),
    )


def _package(package: ModuleType, use: str) -> list[str]:
    names = [name for name in package.__all__ if not name.startswith("_")]
    rows = [[code(name), summary(getattr(package, name))] for name in names]
    return [
        f"## {package.__name__}",
        use,
        table(["name", "what it is"], rows),
        *(f"::: {package.__name__}.{name}" for name in names),
    ]
