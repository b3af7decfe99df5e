"""Pages of errors: every message that the product can print, with what to do, and exit codes."""

from __future__ import annotations

import ast
import re
from functools import cache, partial
from importlib import import_module
from inspect import signature
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from evenkeel.doctor import Status
from evenkeel.extras import CANNOT_START
from evenkeel.spec.field_errors import FIELD_RULES
from evenkeel.spec.loading import CORRECT_FIELDS
from evenkeel.submit import job_names
from partitioning.errors import EvenkeelError, InputError, SetupError
from setup.docs import findings
from setup.docs.causes import OF_CLASSES, cause
from setup.docs.reference.markdown import code, page, sources, summary, table
from setup.docs.texts import scopes

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
#: Page -> what is not on it.
_NOT_LISTED = {
    "airflow": "A page of the UI that refuses a press says what to do, and is not listed here. ",
    "specs-and-data": "[Rows of `evenkeel doctor`](doctor.md) have a page of their own. Errors of "
    "`make run` and `make up` say what to do, and are not listed. ",
}
#: Airflow's own exceptions that tasks raise -> what Airflow does then.
_OF_AIRFLOW = {
    "AirflowException": "A task failed. Airflow tries it again, as often as its DAG says.",
    "AirflowFailException": "A task failed. Airflow does not try it again.",
    "ValueError": "A DAG file has a wrong value. Airflow shows it as an import error.",
}
#: Line that is no error of a class -> its heading, and what it means.
_ENDED = "Ended from outside"
_OF_LINES = {_ENDED: "A signal ended a job. The exit code is 128 and the number of the signal."}
_LINE = "evenkeel: error: "
_HEAD = ["message", "why it happens", "what to do"]


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
        "Wrong options end it with 2, and Ctrl-C ends a job with 130. Another signal of number n "
        "ends a job with 128 + n. A job that cannot start ends "
        f"with {CANNOT_START}: its Python lacks a package, or has PySpark of two versions. "
        "`evenkeel doctor` ends with 1 if something is wrong.",
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
    about = {kind.__name__: summary(kind) for kind in kinds()} | _OF_AIRFLOW | _OF_LINES
    of_kind = groupby(found, key=itemgetter(0))
    return page(
        title,
        "A message begins with its place: a file, a field, a table or a run. A name in braces "
        f"stands for a value. {_NOT_LISTED.get(name, '')}"
        "[Exit codes](../exit-codes.md) explains the classes.",
        *(
            f"## {kind}\n\n{about[kind]}{_why(kind)}\n\n{table(_HEAD, rows)}"
            for kind, rows in (
                (k, [[code(what), cause(what, fix), fix] for _, what, fix in found])
                for k, found in of_kind
            )
        ),
    )


def _why(kind: str) -> str:
    return f" Why it happens: {OF_CLASSES[kind]}" if kind in OF_CLASSES else ""


PAGES = {name: partial(_messages_page, name) for name in _GROUPS} | {"doctor": findings.page_text}


@cache
def messages() -> list[Message]:
    """List every error whose message stands in the code."""
    return [*_raised(), *_of_fields(), *_of_tasks(), *_of_findings(), *_of_lines()]


def _of_fields() -> list[Message]:
    """List what is said of a wrong field of a spec, of Params, or of a merge of one's own.

    One error names all wrong fields. Validators give it their texts as ValueErrors.
    """
    texts = [
        text
        for path, tree, _ in sources()
        for kind, call, function in _calls(tree)
        if path.startswith("evenkeel/spec/") and kind == "ValueError"
        for text in scopes()[path].within(function, call.lineno).cases(call.args[0])
    ]
    return [
        Message("evenkeel/spec/loading.py", InputError.__name__, text, CORRECT_FIELDS)
        for text in (*FIELD_RULES.values(), *texts)
        # Another error's own message has its row.
        if not re.search(r"\{(error|what)\}", text)
    ]


def _of_tasks() -> list[Message]:
    """List what tasks and DAG files raise as an exception that is not ours: one text, with advice.

    A text that is another error's message as it is has the row of that error.
    """
    texts = [
        (path, kind, text)
        for path, tree, _ in sources()
        for kind, call, function in _calls(tree)
        if path.startswith("dags/") and kind in _OF_AIRFLOW
        for text in scopes()[path].within(function, call.lineno).cases(call.args[0])
    ]
    split = [(path, kind, *text.partition(". ")) for path, kind, text in texts]
    return [Message(path, kind, what, fix) for path, kind, what, _, fix in split]


def _of_findings() -> list[Message]:
    """List what is raised as a row of the doctor says it."""
    return [
        Message(path, kind, text, ". *Or:* ".join(row.fix))
        for path, tree, _ in sources()
        for kind, call, function in _calls(tree)
        if kind == SetupError.__name__
        if isinstance(found := call.args[0], ast.Attribute) and found.attr == "found"
        for given in [scopes()[path].within(function, call.lineno).names[ast.unparse(found.value)]]
        for row in findings.rows()
        if row.function == ast.unparse(given).partition("(")[0] and Status.wrong in row.statuses
        for text in row.found
    ]


def _of_lines() -> list[Message]:
    """List what a program says on stderr as its error, and is no error of a class."""
    texts = [
        (path, text.removeprefix(_LINE).partition(". "))
        for path, tree, _ in sources()
        for kind, call, function in _calls(tree)
        if kind == "stderr.write"
        for text in scopes()[path].within(function, call.lineno).cases(call.args[0])
        # Others are a whole error, which has its row.
        if text.startswith(_LINE) and not text.startswith(f"{_LINE}{{")
    ]
    return [Message(path, _ENDED, what, fix.strip()) for path, (what, _, fix) in texts]


def _raised() -> list[Message]:
    names = {kind.__name__ for kind in kinds()}
    # Their callers give parts of a message that the class itself words.
    worded = {k.__name__ for k in kinds() if "what" not in signature(k).parameters}
    return [
        Message(path, kind, what, ". *Or:* ".join(scope.cases(_fix(call))))
        for path, tree, _ in sources()
        for kind, call, function in _calls(tree)
        if kind in names and call.args and isinstance(call.func, ast.Name) != (kind in worded)
        for scope in [scopes()[path].within(function, call.lineno)]
        for what in scope.cases(call.args[0])
    ]


@cache
def _calls(tree: ast.Module) -> list[tuple[str, ast.Call, ast.FunctionDef | None]]:
    """List each call of a plain name, with the outermost function or method around it.

    A call of `super().__init__` counts as one of the class that it is in. So does a line that a
    program writes to stderr, by the name `stderr.write`.
    """
    classes = [c for c in tree.body if isinstance(c, ast.ClassDef)]
    inside = [n for c in classes for n in c.body]
    functions = [n for n in [*tree.body, *inside] if isinstance(n, ast.FunctionDef)]
    around = {node: function for function in functions for node in ast.walk(function)}
    of = {node: c.name for c in classes for node in ast.walk(c)}
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)):
                found.append((name, node, around.get(node)))
            case ast.Call(func=ast.Attribute(attr="__init__")) if node in of:
                found.append((of[node], node, around.get(node)))
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="stderr"), attr="write")):
                found.append(("stderr.write", node, around.get(node)))
    return found


def _fix(call: ast.Call) -> ast.expr | None:
    given = {k.arg: k.value for k in call.keywords}
    return given.get("fix") or (call.args[2] if len(call.args) > 2 else None)
