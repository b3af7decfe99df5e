"""Say in plain words what is wrong with a field: pydantic's own messages are for programmers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Kind of error, or how its name begins -> message; places are filled from the error's context.
_MESSAGES = {
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "less_than": "must be less than {lt}",
    "finite_number": "must be a finite number",
    "int_": "must be a whole number",
    "float_": "must be a number",
    "bool_": "must be true or false",
    "date_": "must be a date, such as 2013-01-29",
    "string_": "must be text",
    "tuple_": "must be a list",
    "list_": "must be a list",
    "extra_forbidden": "there is no such field",
    "missing": "is missing",
}


def field_error(error: Mapping[str, Any]) -> str:
    """Return what a field should be and what was found.

    Parameters
    ----------
    error : one of those that pydantic lists
    """
    found = f", got {error['input']!r}" if error["type"] != "missing" else ""
    if error["type"] == "value_error":
        return str(error["msg"]).removeprefix("Value error, ") + found
    for kind, message in _MESSAGES.items():
        if str(error["type"]).startswith(kind):
            numbers = {n: f"{v:,.10g}" for n, v in error.get("ctx", {}).items() if n in message}
            return message.format(**numbers) + found
    return str(error["msg"]) + found
