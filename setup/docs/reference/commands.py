"""Pages of the console and of the jobs: their options, from typer and argparse."""

from __future__ import annotations

import argparse
import re
from enum import Enum
from importlib import import_module
from typing import Any
from unittest import mock

from typer.main import get_command

from evenkeel.cli import app
from evenkeel.submit import job_names
from partitioning.strategies import STRATEGIES
from setup.docs.reference.markdown import code, page, summary, table
from setup.docs.reference.spec import OWN_FIELDS

_HEAD = ["argument", "default", "meaning"]


def console() -> str:
    """Return the page of the console's commands."""
    group: Any = get_command(app)
    return page(
        "The console",
        f"`evenkeel COMMAND`. {group.help}",
        "An error of ours is one line on stderr. [Exit codes](exit-codes.md) says what each means. "
        "`evenkeel --version` prints the version.",
        *(_command(name, command) for name, command in sorted(group.commands.items())),
        "## Strategies of backtests",
        "`evenkeel backtest` takes these by `--strategy`. [Specs](spec.md#strategies) may name "
        "those that keep keys whole from one epoch to the next, with few moves.",
        table(["strategy", "what it is"], [[code(n), summary(f)] for n, f in STRATEGIES.items()]),
        "These are options of `frontier` in a backtest, as in `--option frontier.budget=1e6`. "
        "Specs have [fields](spec.md#at-the-top) of their own for them: "
        + ", ".join(map(code, sorted(OWN_FIELDS)))
        + ".",
    )


def _command(name: str, command: Any) -> str:
    context = command.context_class(command)
    names = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(["evenkeel", name, *map(_placed, names), "[OPTIONS]"])
    rows = [
        [_argument(p), _default(p), str(getattr(p, "help", None) or "")]
        for p in command.get_params(context)
        if p.name != "help"
    ]
    return "\n\n".join([f"## {name}", f"`{usage}`", _flat(command.help), table(_HEAD, rows)])


def _placed(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _argument(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return code(parameter.metavar or parameter.name.upper())
    value = parameter.metavar or parameter.name.upper()
    if isinstance(parameter.default, Enum):
        value = " or ".join(choice.value for choice in type(parameter.default))
    return code(", ".join(parameter.opts) + ("" if parameter.is_flag else f" {value}"))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = getattr(parameter.default, "value", parameter.default)
    return "" if value in (None, False, "") or callable(value) else code(value)


def jobs() -> str:
    """Return the page of the Spark jobs."""
    return page(
        "Jobs",
        "A job runs by spark-submit: `evenkeel job NAME OPTIONS`, or "
        "`spark-submit spark_jobs/NAME.py OPTIONS` in a checkout. Airflow's tasks run the same "
        "jobs.",
        *(_job(name, parser_of(name)) for name in job_names()),
    )


def _job(name: str, parser: argparse.ArgumentParser) -> str:
    # Positional arguments and --help are the same in all jobs: there are none, and it helps.
    rows = [
        [
            code(" ".join([*action.option_strings, *_value(action)])),
            "required" if action.required else "",
            action.help or "",
        ]
        for action in parser._actions
        if action.dest != "help"
    ]
    return "\n\n".join(
        [f"## {name}", _flat(parser.description), table(["option", "", "meaning"], rows)]
    )


def _value(action: argparse.Action) -> list[str]:
    if action.nargs in (0, "?"):
        return []
    if action.choices is not None:
        return ["|".join(map(str, action.choices))]
    return [str(action.metavar or action.dest.upper().replace("_", "-"))]


class _Parsed(Exception):
    """A job has built its parser."""


def parser_of(job: str) -> argparse.ArgumentParser:
    """Return the parser that a job's main builds, without running the job."""
    main = import_module(f"evenkeel_spark.jobs.{job}").main

    def stop(self: argparse.ArgumentParser, *_: object) -> None:
        raise _Parsed(self)

    with mock.patch.object(argparse.ArgumentParser, "parse_args", stop):
        try:
            main([])
        except _Parsed as parsed:
            return parsed.args[0]
    raise AssertionError(f"the job {job} parses no arguments")


def _flat(text: str | None) -> str:
    """Return a docstring with one line a paragraph; indented blocks stay as they are."""
    blocks = (text or "").strip().split("\n\n")
    return "\n\n".join(b if b.startswith("    ") else re.sub(r"\s+", " ", b) for b in blocks)
