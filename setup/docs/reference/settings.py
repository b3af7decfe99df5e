"""The page of settings: environment variables, Spark settings, table properties and constraints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from evenkeel_airflow.provider import get_provider_info
from evenkeel_spark.migration.placement import REPAIRING
from evenkeel_spark.tables.delta.constraints import epoch_name, moving_name
from evenkeel_spark.tables.iceberg.checks import UPDATES_WELL
from evenkeel_spark.windows.iceberg.making import FIRST
from setup.docs.reference.markdown import code, constants, page, sources, table

#: Variables of other programs that Evenkeel reads, too.
_OF_OTHERS = {
    "JAVA_HOME": "Java to start Spark with. Default: `java` on PATH",
    "PATH": "where spark-submit and Java are looked for",
    "PYSPARK_DRIVER_PYTHON": "Python of the driver. Default: that of the Airflow task",
    "PYSPARK_PYTHON": "Python of workers on this machine. Default: that of the Airflow task",
    "SPARK_CONF_DIR": "folder of spark-defaults.conf. Default: conf in SPARK_HOME",
    "SPARK_REMOTE": "a Spark Connect server, for your own programs. Jobs refuse to start beside it",
    "SPARK_HOME": "Spark that submits jobs. Default: that on PATH, then this Python's PySpark",
}
#: Constraints of state tables; N is an epoch, PLAN the beginning of a plan's digest.
_CONSTRAINTS = {
    epoch_name(0): "A row must be in the channel that epoch N gives it. Each table at rest has it.",
    moving_name(0, "PLAN"): "The plan moves this table to epoch N. Rows may be where either epoch "
    "puts them; while a step writes alone, where one does.",
    REPAIRING: "The table is under repair. No job moves rows or adds a window.",
}
#: Which jobs set a property of Iceberg tables, if not bootstrap alone.
_SET_BY = dict.fromkeys(UPDATES_WELL, "bootstrap, adopt")
#: Tests alone set it.
_OF_TESTS = {"EVENKEEL_CRASH_AT"}
#: Delta's properties that have a comment in the code, and that the code only reads.
_READ = {"delta.generationExpression", "delta.setTransactionRetentionDuration"}
_PROPERTY = r"evenkeel\.(?!render)\w+|delta\.[a-zA-Z.]*[a-zA-Z]"


def page_text() -> str:
    """Return the page."""
    found = dict.fromkeys((value, about) for _, value, about in constants())
    return page(
        "Settings and properties",
        "## Environment variables",
        "Set them wherever specs are read: in Airflow, in the jobs' drivers and in your writers.",
        table(["variable", "meaning"], _rows(found, r"EVENKEEL_[A-Z_]+") + _others()),
        "## Airflow's configuration",
        table(["section", "option", "meaning"], _configured()),
        "## Spark settings",
        "Give them to spark-submit, in spark-defaults.conf, or in the Airflow connection.",
        table(["setting", "meaning"], _rows(found, r"spark\.evenkeel\.\w+")),
        "## Table properties",
        "Evenkeel sets these on state tables. `SHOW TBLPROPERTIES` lists them. Do not change them.",
        table(["property", "meaning"], _properties(found)),
        "## Constraints",
        "Evenkeel adds these CHECK constraints to Delta state tables, and drops them. N is an "
        "epoch, PLAN the beginning of a plan's digest. [The protocol](../PROTOCOL.md) says when a "
        "table has which. Do not change them; `evenkeel repair` puts them right.",
        table(
            ["constraint", "meaning"],
            [[code(name.replace("0", "N")), about] for name, about in _CONSTRAINTS.items()],
        ),
        "## Iceberg tables",
        "They have no constraints. The column `slot_N` says which epoch they are under. Rows move "
        "on branches whose names begin with `evenkeel_`, and summaries of snapshots have entries "
        "that begin with `evenkeel.`. Evenkeel sets these properties:",
        table(
            ["property", "value", "set by"],
            [[code(n), code(v), _SET_BY.get(n, "bootstrap")] for n, v in sorted(FIRST.items())],
        ),
    )


def _rows(found: dict[tuple[str, str], None], pattern: str) -> list[list[str]]:
    rows = {value: about for value, about in found if re.fullmatch(pattern, value) and about}
    return [[code(value), about] for value, about in sorted(rows.items())]


def _properties(found: dict[tuple[str, str], None]) -> list[list[str]]:
    return [row for row in _rows(found, _PROPERTY) if row[0].strip("`") not in _READ]


def _configured() -> list[list[str]]:
    return [
        [code(f"[{section}]"), code(name), option["description"]]
        for section, part in get_provider_info()["config"].items()
        for name, option in part["options"].items()
    ]


def _others() -> list[list[str]]:
    own = {value for _, value, about in constants() if about}
    if unknown := set(variables()) - own - _OF_TESTS - _OF_OTHERS.keys():
        raise AssertionError(f"no `#:` comment, and not in _OF_OTHERS: {sorted(unknown)}")
    return [[code(name), about] for name, about in sorted(_OF_OTHERS.items())]


def variables() -> Iterator[str]:
    """Yield the name of each environment variable that the product's code reads."""
    texts = {name: value for name, value, _ in constants()}
    for _, tree, _ in sources():
        for node in ast.walk(tree):
            key = None
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "os.environ.get",
                "os.getenv",
            ):
                key = node.args[0]
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
                key = node.slice
            if isinstance(key, ast.Constant):
                yield key.value
            elif isinstance(key, ast.Name | ast.Attribute):
                name = key.id if isinstance(key, ast.Name) else key.attr
                if name in texts:
                    yield texts[name]
