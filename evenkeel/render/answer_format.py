"""The format of a command's answer: one option, `--format`, for all commands."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """Format of a command's answer."""

    table = "table"
    json = "json"


As = Annotated[Format, typer.Option("--format", help="table for people, json for machines")]
