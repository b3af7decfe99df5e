"""Pages of errors: every message that the product can print, with what to do, and exit codes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache, partial
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from evenkeel.submit import job_names
from partitioning.errors import EvenkeelError
from setup.docs.reference.markdown import code, page, sources, summary, table

#: Page in docs/reference/errors -> its title, and the paths of the code that raises them.
_GROUPS = {
    "planning": ("Errors of planning", "partitioning/"),
    "specs-and-data": ("Errors of specs, gates and runs", "evenkeel/(?!registry)"),
    "registry": ("Errors of the registry", "evenkeel/registry/"),
    "tables": ("Errors of state tables", "spark_jobs/evenkeel_spark/(tables|migration|windows)/"),
    "jobs": (
        "Errors of other jobs",
        "spark_jobs/(?!evenkeel_spark/(tables|migration|windows)/)",
    ),
    "airflow": ("Errors in Airflow", "dags/|plugins/"),
}
_HEAD = ["message", "what to do"]


class Message(NamedTuple):
    """One place that makes an error.

    Parameters
    ----------
    kind : name of the class
    what : the message, with each value as a name in braces
    fix : what to do
    """

    path: str
    kind: str
    what: str
    fix: str


def exit_codes() -> str:
    """Return the page of exit codes."""
    rows = [
        [str(kind.exit_code), code(kind.__name__), summary(kind), "yes" if kind.retry else "no"]
        for kind in sorted(kinds(), key=lambda kind: (kind.exit_code, kind.__name__))
    ]
    return page(
        "Exit codes",
        "Every program of ours ends with 0 if all went well. An error of ours is one line on "
        "stderr, and ends it with the code below. Any other error ends it with 1 and a traceback. "
        "Wrong options end it with 2.",
        "If *try again* says yes, the same may work later with nothing changed. Airflow then "
        "tries the task again.",
        table(["code", "class", "meaning", "try again"], rows),
        "Messages: " + ", ".join(f"[{t}](errors/{n}.md)" for n, (t, _) in _GROUPS.items()) + ".",
    )


def kinds() -> list[type[EvenkeelError]]:
    """List every class of errors of the product's packages."""
    for job in job_names():
        # Only a class that is imported is known.
        import_module(f"evenkeel_spark.jobs.{job}")
    found: list[type[EvenkeelError]] = [EvenkeelError]
    for kind in found:
        found += [k for k in kind.__subclasses__() if k not in found]
    return [k for k in found if not k.__module__.startswith(("evenkeel.demo", "tests"))]


def _messages_page(name: str) -> str:
    title, pattern = _GROUPS[name]
    found = sorted({m[1:] for m in messages() if re.match(pattern, m.path)})
    about = {kind.__name__: summary(kind) for kind in kinds()}
    of_kind = groupby(found, key=itemgetter(0))
    return page(
        title,
        "A message begins with its place: a file, a field, a table or a run. A name in braces "
        "stands for a value. [Exit codes](../exit-codes.md) explains the classes.",
        *(
            f"## {kind}\n\n{about[kind]}\n\n{table(_HEAD, rows)}"
            for kind, rows in ((k, [[code(m[1]), m[2]] for m in found]) for k, found in of_kind)
        ),
    )


PAGES = {name: partial(_messages_page, name) for name in _GROUPS}


@cache
def messages() -> list[Message]:
    """List every error whose message stands in the code."""
    names = {kind.__name__ for kind in kinds()}
    modules = {path: tree for path, tree, _ in sources()}
    own = {_module(path): _constants(tree) for path, tree in modules.items()}
    return [
        Message(path, kind, what, _fix(call, texts))
        for path, tree in modules.items()
        for texts in [_imported(tree, own) | own[_module(path)]]
        for kind, call in _calls(tree)
        if kind in names and call.args and (what := _text(call.args[0], texts))
    ]


def _module(path: str) -> str:
    inner = re.sub(r"^(spark_jobs|dags|plugins)/|(/__init__)?\.py$", "", path)
    return inner.replace("/", ".")


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the texts that a module gives a name."""
    return {
        target.id: _text(node.value, {})
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name)
    }


def _imported(tree: ast.Module, own: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the texts that a module imports from others of ours."""
    return {
        alias.name: own[node.module][alias.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in own
        for alias in node.names
        if alias.name in own[node.module]
    }


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node


def _fix(call: ast.Call, texts: dict[str, str]) -> str:
    given = {k.arg: k.value for k in call.keywords}
    node = given.get("fix") or (call.args[2] if len(call.args) > 2 else None)
    return _text(node, texts) if node is not None else ""


def _text(node: ast.AST, texts: dict[str, str]) -> str:
    """Return a text of the code, each value in it as a name in braces; empty: it is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _field(part.value, texts)
            if isinstance(part, ast.FormattedValue)
            else _text(part, texts)
            for part in node.values
        )
    if isinstance(node, ast.Name):
        return texts.get(node.id, "")
    if isinstance(node, ast.BinOp):
        left, right = _text(node.left, texts), _text(node.right, texts)
        return left + right if left and right else ""
    return ""


def _field(node: ast.AST, texts: dict[str, str]) -> str:
    """Return a value in a message as `{name}`: by its last name, or by what it is joined from."""
    if isinstance(node, ast.Name) and node.id.isupper() and texts.get(node.id):
        return texts[node.id]
    names = [
        n.attr if isinstance(n, ast.Attribute) else n.id
        for n in ast.walk(node)
        if isinstance(n, ast.Attribute | ast.Name)
    ]
    plain = [n.strip("_") for n in names if n not in _CALLED]
    return f"{{{plain[0] if plain else 'value'}}}"


#: Functions around a value in a message, which do not name it.
_CALLED = {
    "join",
    "sorted",
    "len",
    "str",
    "map",
    "strip",
    "isoformat",
    "items",
    "format",
    "max",
    "min",
}
