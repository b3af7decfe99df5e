"""Read the fields of a form from a query or a body, and check each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from fastapi import HTTPException, Request

from evenkeel.render.formatting import read_bytes
from evenkeel.spec.run_params import Params
from partitioning.errors import InputError

#: Query names that are not fields: sort orders, and whether the page shows all rows.
SHOWN = ("moves", "epochs", "every")
SWITCHES = ("relearn", "dry_run", "force")
#: Allowed values of a switch. Others are refused: a typo must not turn a dry run into a real run.
SAID = dict.fromkeys(("true", "on", "yes"), True) | dict.fromkeys(("false", "off", "no", ""), False)


async def fields(request: Request) -> dict[str, str]:
    """Return the fields of a form: from the query of a preview, else from the body."""
    given = request.query_params if request.method == "GET" else await request.form()
    values = {n: value if isinstance(value, str) else "a file" for n, value in given.items()}
    request.state.asked = {n: v for n, v in values.items() if n not in ("csrf", "sure")}
    return values


def check_known(names: Set[str], allowed: Set[str]) -> None:
    """Refuse a form that sends other fields than the allowed ones."""
    if others := sorted(names - allowed):
        raise HTTPException(422, f"Unknown fields: {', '.join(map(repr, others))}.")


def read_form(
    given: Mapping[str, str], known: Iterable[str], switches: Iterable[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the `known` fields, with switches as booleans, and field -> error message.

    The key "" has the message about unknown fields.
    """
    values: dict[str, Any] = {n: given[n].strip() for n in known if n in given}
    problems: dict[str, str] = {}
    for name in switches:
        said = values.get(name, "")
        values[name] = SAID.get(said, False)
        if said not in SAID:
            problems[name] = f"must be one of {', '.join(filter(None, SAID))}, got {said!r}"
    if others := sorted({*given} - {*known, *SHOWN, "csrf"}):
        problems[""] = f"Unknown fields: {', '.join(map(repr, others))}."
    return values, problems


def read_params(given: Mapping[str, str]) -> tuple[Params | None, dict[str, str]]:
    """Return the Params of a form, or None and field -> error message."""
    values, problems = read_form(given, Params.model_fields, SWITCHES)
    for name in ("budget", "batch", "rate"):
        if values.get(name):
            try:
                values[name] = read_bytes(values[name])
            except InputError as error:
                problems[name] = error.what
                del values[name]
    if weights := values.get("capacities"):
        values["capacities"] = [w for w in weights.replace(",", " ").split() if w]
    problems = {**Params.problems(values), **problems}
    return (None, problems) if problems else (Params.of(values), {})
