"""The advice of each error that stops a job names jobs, commands and options that there are.

Each text is put together from its code, with the functions and constants that it is made of. The
commands in it are parsed by the real parsers.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from evenkeel.cli import app
from evenkeel.submit import jobs_folder
from partitioning import errors
from tests.support.docs.product import ROOT

SPARK = ROOT / "spark_jobs"
MODULES = sorted((SPARK / "evenkeel_spark").rglob("*.py"))
#: Stands for each value that is known only when the error is raised: of tables, runs and days.
VALUE = "trips"
JOBS = sorted(file.stem for file in jobs_folder().glob("[!_]*.py"))
CONSOLE: Any = typer.main.get_command(app)
#: Rooms whose errors mean a job of their own where they name none.
OWN_JOB = {"windows": "apply_window", "evolving": "bootstrap", "forgetting": "maintain"}
#: What one may run that is named before or after; a run by its name.
ANY = {"it", "this", "the", VALUE}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
COMMAND = re.compile(r"`evenkeel ([^`]*)`")
#: What a person is told to run, clear or let: "Run verify again", "the task approve".
TOLD = re.compile(
    r"(?=(?:\bRun|[,;:.] (?:then )?run|\bthen run|\bor run|\bthe job|\btask) ([\w`.]+))"
)
DAG = re.compile(r"\bthe DAG (\w+)_" + VALUE)


def texts(node: ast.expr, module: ModuleType) -> list[str]:
    """Every text that an expression may be, with `VALUE` for what only a run knows."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(p) for p in product(*(texts(p, module) for p in parts))]
        case ast.FormattedValue(value=inner):
            return texts(inner, module)
        case ast.BinOp(left=left, right=right, op=ast.Add()):
            pairs = product(texts(left, module), texts(right, module))
            return ["".join(pair) for pair in pairs]
        case ast.IfExp(body=one, orelse=other):
            return texts(one, module) + texts(other, module)
        case ast.Call(func=called) if inspect.isfunction(function := known(called, module)):
            if inspect.signature(function).return_annotation == "str":
                return returned(function)
    found = known(node, module)
    return [found] if isinstance(found, str) else [VALUE]


def known(node: ast.expr, module: ModuleType) -> Any:
    """The object of a dotted name in a module; None: only a run knows it."""
    first, *rest = ast.unparse(node).split(".")
    found = getattr(module, first, None)
    for name in rest:
        found = getattr(found, name, None)
    return found


def returned(function: Any) -> list[str]:
    """Every text that a function may return."""
    module = importlib.import_module(function.__module__)
    (defined,) = ast.parse(inspect.getsource(function)).body
    values = [n.value for n in ast.walk(defined) if isinstance(n, ast.Return) and n.value]
    return [text for value in values for text in texts(value, module)]


def stopping() -> set[str]:
    """FenceError, and the names of its subclasses anywhere in the jobs."""
    names = {"FenceError"}
    classes = [n for _, t in trees() for n in ast.walk(t) if isinstance(n, ast.ClassDef)] + [
        n for n in ast.walk(ast.parse(inspect.getsource(errors))) if isinstance(n, ast.ClassDef)
    ]
    while more := {c.name for c in classes if {ast.unparse(b) for b in c.bases} & names} - names:
        names |= more
    return names


@cache
def trees() -> list[tuple[Path, ast.Module]]:
    return [
        (file, ast.parse(file.read_text()))
        for file in sorted((SPARK / "evenkeel_spark").rglob("*.py"))
    ]


def raised() -> Iterator[tuple[str, str, list[str]]]:
    """Place and room of each error that stops a job, and every text of its advice."""
    names = stopping()
    for file, tree in trees():
        place = file.relative_to(SPARK)
        module = importlib.import_module(".".join(place.with_suffix("").parts))
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) in names):
                continue
            given = [*node.args[2:], *(k.value for k in node.keywords if k.arg == "fix")]
            found = [text for one in given for text in texts(one, module)]
            yield f"{place}:{node.lineno}", place.parts[1], found


@cache
def parser(job: str) -> argparse.ArgumentParser:
    """The real parser of a job, as its `main` makes it."""
    module, made = importlib.import_module(f"evenkeel_spark.jobs.{job}"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run_job", lambda arguments, *_: made.append(arguments) or 0)
        assert module.main([]) == 0
    (found,) = made
    return found


def options(name: str) -> set[str]:
    """Options of a job or a command of the console."""
    found = set(parser(name)._option_string_actions) if name in JOBS else set()
    if (command := CONSOLE.commands.get(name)) is not None:
        found |= {option for parameter in command.params for option in parameter.opts}
    return found


def wrong(text: str, room: str) -> Iterator[str]:
    """What an advice names that is not there."""
    steps = {*JOBS, *CONSOLE.commands, "approve"}
    for command in COMMAND.findall(text):
        name, *words = shlex.split(command)
        if name not in CONSOLE.commands:
            yield f"there is no command {name!r}"
            continue
        try:
            # It parses, and runs nothing.
            CONSOLE.commands[name].make_context(name, words)
        except Exception as error:
            yield f"{command!r}: {error}"
    for name in TOLD.findall(text):
        if name.strip("`").removesuffix(".py") not in steps | ANY | {"evenkeel"}:
            yield f"there is no job {name!r}"
    for name in DAG.findall(text):
        if f'"{name}"' not in (ROOT / "dags/evenkeel_airflow/table_dags.py").read_text():
            yield f"there is no DAG {name}_TABLE"
    named = {word for word in re.findall(r"\w+", text) if word in steps}
    its = set().union(*map(options, named or {OWN_JOB.get(room, "learn")}))
    for option in OPTION.findall(text):
        if option not in its:
            yield f"{option} is no option of {', '.join(sorted(named)) or room}"


def test_each_error_that_stops_a_job_has_an_advice_that_can_be_followed() -> None:
    found = list(raised())
    assert len(found) > 70
    without = [place for place, _, advice in found if not any(advice)]
    assert without == [], "a FenceError says what to do"
    problems = [
        f"{place}: {text!r}: {problem}"
        for place, room, advice in found
        for text in advice
        for problem in wrong(text, room)
    ]
    assert problems == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Run `evenkeel mend trips`", "no command"),
        ("Run `evenkeel repair trips --undo-everything`", "No such option"),
        ("Run `evenkeel repair`", "Missing"),
        ("Run rollback again first", "no job 'rollback'"),
        ("Clear the task publish_all", "no job 'publish_all'"),
        ("Or the DAG mend_trips", "no DAG mend"),
        ("Go on with --from 2013-01-08", "--from is no option"),
        ("Say so with apply_window.py --holds-util 2013-01-08", "--holds-util is no option"),
    ],
)
def test_an_advice_that_names_nothing_is_found(text: str, problem: str) -> None:
    assert any(problem in found for found in wrong(text, "windows"))
