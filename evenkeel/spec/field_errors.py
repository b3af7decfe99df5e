"""Say in plain words what is wrong with a field: pydantic's own messages are for programmers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: Kind of error, or how its name begins -> message; places are filled from the error's context. The
#: first that fits counts: whole names come before beginnings.
FIELD_RULES = {
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must begin with a letter, and have only letters, digits and _, at "
    "most 63",
    "string_too_short": "must not be empty",
    "too_short": "must have {min_length} entry or more",
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
    "dict_": "must be a mapping of fields",
    "model_": "must be a mapping of fields",
    "extra_forbidden": "there is no such field",
    "missing": "is missing",
}


def field_error(error: Mapping[str, Any], allowed: Iterable[str] = ()) -> str:
    """Return what a field should be and what was found.

    Parameters
    ----------
    error : one of those that pydantic lists
    allowed : names of the fields that there are, for a name that is none
    """
    found = f", got {error['input']!r}" if error["type"] != "missing" else ""
    names = ", ".join(allowed) if error["type"] == "extra_forbidden" else ""
    return field_rule(error) + found + (f"; allowed: {names}" if names else "")


def field_rule(error: Mapping[str, Any]) -> str:
    """Return what a field should be; `error` is one of those that pydantic lists."""
    if error["type"] == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    for kind, message in FIELD_RULES.items():
        if str(error["type"]).startswith(kind):
            given = {n: v for n, v in error.get("ctx", {}).items() if f"{{{n}}}" in message}
            return message.format(**{n: _text(value) for n, value in given.items()})
    return str(error["msg"])


def _text(value: Any) -> str:
    return f"{value:,.10g}" if isinstance(value, int | float) else str(value)
