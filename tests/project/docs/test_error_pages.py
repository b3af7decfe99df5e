"""Pages of errors: each text that a call of an error has in the code is in a row of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from setup.docs import findings
from setup.docs.reaching import reaching
from setup.docs.reference.__main__ import PAGES
from setup.docs.reference.errors import kinds, messages
from setup.docs.reference.markdown import sources

#: Exceptions that are not ours, and the code in which users read their texts.
OF_OTHERS = {
    "ValueError": ("evenkeel/spec/", "dags/"),
    "AirflowException": ("dags/",),
    "AirflowFailException": ("dags/",),
}


def texts(node: ast.AST) -> Iterator[str]:
    """Yield each text with two words or more in an expression, but for arguments of calls."""
    if isinstance(node, ast.Constant) and re.search("[a-z]+ [a-z]+", str(node.value)):
        yield str(node.value).strip()
    inside = node.func if isinstance(node, ast.Call) else node
    for part in ast.iter_child_nodes(inside):
        yield from texts(part)


def error_texts() -> Iterator[tuple[str, str]]:
    """Yield each text of the code that a call of an error takes as its message, and its place."""
    own = {kind.__name__ for kind in kinds()}
    for path, tree, _ in sources():
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        outermost = {node: f for f in reversed(functions) for node in ast.walk(f)}
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=kind), args=[what, *_]) if kind in own or (
                    path.startswith(OF_OTHERS.get(kind, ("no place",)))
                ):
                    names = {n.id for n in ast.walk(what) if isinstance(n, ast.Name)}
                    function = outermost.get(node)
                    given = [
                        assign.value
                        for assign in (ast.walk(function) if function else ())
                        if isinstance(assign, ast.Assign)
                        if isinstance(to := assign.targets[0], ast.Name) and to.id in names
                    ]
                    for part in (what, *given):
                        yield from ((f"{path}:{node.lineno}", text) for text in texts(part))


def test_no_error_with_readable_text_is_without_a_row() -> None:
    found, known = list(error_texts()), "\n".join(m.what for m in messages())
    assert len(found) > 500
    # A task's text has its advice after it.
    assert {(where, t) for where, t in found if t.split(". ")[0] not in known} == set()
    assert "times must be dates, timestamps or ISO text" in known


def test_a_function_of_one_name_in_two_modules_has_its_own_texts() -> None:
    page = PAGES["errors/registry.md"]()
    assert "| `{place} is missing` |" in page and "`{place}: expected {wanted}, found" in page
    assert "{said} (got" not in page and "not JSON" in page


def test_a_line_and_a_row_of_the_doctor_that_end_a_job_have_rows() -> None:
    assert "the job {job} was ended from outside ({name})" in PAGES["errors/specs-and-data.md"]()
    assert "`{program} is not on PATH` |" in PAGES["errors/airflow.md"]()


def test_each_row_of_the_doctor_is_on_its_page() -> None:
    """By the calls in its files: each has a row, and each that asks for something is shown."""
    files = {p: t for p, t, _ in sources() if p.startswith("evenkeel/doctor/")}
    calls = [n for tree in files.values() for n in ast.walk(tree) if isinstance(n, ast.Call)]
    made = [call for call in calls if getattr(call.func, "id", "") == "Finding"]
    assert len(findings.rows()) == len(made) > 60
    assert {f"evenkeel/doctor/{row.module}" for row in findings.rows()} < files.keys()
    assert {row.module for row in findings.rows()} == findings.HEADINGS.keys()
    page = PAGES["errors/doctor.md"]()
    asking = [call for call in made if "ok" not in ast.unparse(call.args[1])]
    shown = page.count("\n| ") - 2 * len(findings.HEADINGS)
    assert shown == len(asking) + 1
    # What a function takes as a parameter is what its callers give.
    assert "| {table}: input, {table}: state {name} | warning | `{url}: only jobs" in page


def test_a_name_has_the_values_that_may_reach_a_line() -> None:
    (function,) = ast.parse(
        "def f(a):\n x = 'one'\n if a:\n  x = 'two'\n  raise E(x)\n elif b:\n  x = 'three'\n"
        " else:\n  y, z = 'four', 'five'\n return x\n"
    ).body
    assert isinstance(function, ast.FunctionDef)
    values = {line: reaching(function, line) for line in (5, 7, 10)}
    assert [ast.unparse(v["x"]) for v in values.values()] == ["'two'", "'one'", "'one' or 'three'"]
    assert "z" not in values[7] and ast.unparse(values[10]["z"]) == "'five'"
