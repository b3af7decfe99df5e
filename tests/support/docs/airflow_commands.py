"""What Airflow's own parser says of commands: lists of words in JSON on stdin, answers on stdout.

A process of its own: importing Airflow sets up logging and a home.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys

from airflow.cli.cli_parser import get_parser


def problem(parser: argparse.ArgumentParser, words: list[str]) -> str | None:
    """Return why a command cannot be parsed; None: it can, or it is named without arguments."""
    command, rest = parser, list(words)
    while rest and (below := subcommands(command)):
        if rest[0] not in below:
            return f"there is no command {rest[0]!r} of airflow"
        command = below[rest.pop(0)]
    if not rest:
        return None
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            parser.parse_args(words)
        except SystemExit:
            return said.getvalue().strip().splitlines()[-1]
    return None


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the commands below a command, by name."""
    found = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


if __name__ == "__main__":
    answers = [problem(get_parser(), words) for words in json.load(sys.stdin)]
    # A line of its own: Airflow may have printed before.
    print("\n" + json.dumps(answers))
