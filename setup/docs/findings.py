"""The page of `evenkeel doctor`: each row that is not ok, with what to do, read from the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from evenkeel.doctor import Finding, Status
from setup.docs.reference.markdown import code, page, sources, table
from setup.docs.texts import scopes

_FOLDER = "evenkeel/doctor/"
#: Module -> heading of its rows.
HEADINGS = {
    "packages.py": "Programs and packages",
    "jars.py": "Jars of Spark",
    "__init__.py": "Versions that were not tested",
    "command.py": "Specs, and what could not be looked at",
    "stores.py": "Places of a table",
    "iceberg_settings.py": "Settings of Iceberg",
    "airflow_setup.py": "Airflow",
}
#: How a row is that asks for something.
_ASKING = (Status.wrong, Status.warning, Status.absent)


class Row(NamedTuple):
    """A row that the command may print.

    Parameters
    ----------
    module : in the doctor's folder
    function : the function that makes it
    what, found, fix : texts of its columns, with each value as a name in braces
    """

    module: str
    function: str
    what: list[str]
    statuses: list[Status]
    found: list[str]
    fix: list[str]


def page_text() -> str:
    """Return the page."""
    head = ["row", "how it is", "found", "what to do"]
    return page(
        "Rows of evenkeel doctor",
        "`evenkeel doctor` prints a row for each thing that it looks at. Those that are *ok* are "
        "not here. If one is *wrong*, the command ends with 1. With *warning* it may work: it was "
        "not tested, or cannot be seen. *Absent* is an optional part. A name in braces stands for "
        "a value.",
        *(f"## {heading}\n\n{table(head, _cells(module))}" for module, heading in HEADINGS.items()),
    )


def _cells(module: str) -> Iterator[list[str]]:
    for row in rows():
        if row.module == module and (asking := [s for s in row.statuses if s in _ASKING]):
            found = ", ".join(map(code, row.found))
            yield [", ".join(row.what), " or ".join(asking), found, ". *Or:* ".join(row.fix)]


@cache
def rows() -> list[Row]:
    """List every row that the code makes, in the order of the code."""
    found = []
    for path, function, call in _calls(Finding.__name__):
        what, status, said, *fix = call.args
        if isinstance(status, ast.Name):
            status = scopes()[path].within(function, call.lineno).names[status.id]
        named = {node.attr for node in ast.walk(status) if isinstance(node, ast.Attribute)}
        found.append(
            Row(
                path.removeprefix(_FOLDER),
                function.name,
                _texts(path, function, call, what) or [_value(path, what)],
                [s for s in Status if s.name in named],
                _texts(path, function, call, said) or [_value(path, said)],
                [text for part in fix for text in _texts(path, function, call, part)],
            )
        )
    return found


def _calls(name: str) -> Iterator[tuple[str, ast.FunctionDef, ast.Call]]:
    """Yield each call of a function in the doctor's code: its file, and the function around."""
    for path, tree, _ in sources():
        functions = tree.body if path.startswith(_FOLDER) else []
        for function in (f for f in functions if isinstance(f, ast.FunctionDef)):
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Name(id=called)) if called == name:
                        yield path, function, node


def _assigned(
    path: str, function: ast.FunctionDef, call: ast.Call, node: ast.expr
) -> ast.expr | None:
    names = scopes()[path].within(function, call.lineno).names
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _texts(path: str, function: ast.FunctionDef, call: ast.Call, node: ast.expr) -> list[str]:
    """Return the texts of an argument; those of a parameter are what its callers give."""
    if found := scopes()[path].within(function, call.lineno).cases(node):
        return found
    parameters = [a.arg for a in function.args.args]
    if not isinstance(node, ast.Name) or node.id not in parameters:
        return []
    at = parameters.index(node.id)
    given = [
        text
        for outer, around, one in _calls(function.name)
        if around is not function and len(one.args) > at
        for text in _texts(outer, around, one, one.args[at]) or [_value(outer, one.args[at])]
    ]
    return [*dict.fromkeys(given)]


def _value(path: str, node: ast.expr) -> str:
    """Return a value that is known only at run time as a name in braces."""
    (shown,) = scopes()[path].cases(ast.JoinedStr([ast.FormattedValue(node, -1)]))
    return shown
