"""Fields of the forms: read from a query or a body, checked, and told what is wrong with each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Request

from evenkeel.render.formatting import read_bytes
from evenkeel.runs.params import Params
from partitioning.errors import InputError

#: What a page may be asked for beside: by what it sorts, and whether it shows all.
SHOWN = ("moves", "epochs", "every")
SWITCHES = ("relearn", "dry_run", "force")
#: What a form may say of a switch; a typing error must not make a dry run a real one.
SAID = dict.fromkeys(("true", "on", "yes"), True) | dict.fromkeys(("false", "off", "no", ""), False)


async def fields(request: Request) -> dict[str, str]:
    """What the form says: of the query where it asks for a preview, else of the body."""
    given = request.query_params if request.method == "GET" else await request.form()
    values = {n: value if isinstance(value, str) else "a file" for n, value in given.items()}
    request.state.asked = {n: v for n, v in values.items() if n not in ("csrf", "sure")}
    return values


def read_form(
    given: Mapping[str, str], known: Iterable[str], switches: Iterable[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The `known` fields of a form, its switches as booleans; and what is wrong with each field, ""
    for fields that there are not."""
    values: dict[str, Any] = {n: given[n].strip() for n in known if n in given}
    problems: dict[str, str] = {}
    for name in switches:
        said = values.get(name, "")
        values[name] = SAID.get(said, False)
        if said not in SAID:
            problems[name] = f"allowed: {', '.join(filter(None, SAID))} (got {said!r})"
    if others := sorted({*given} - {*known, *SHOWN, "csrf"}):
        problems[""] = f"There is no such field: {', '.join(map(repr, others))}."
    return values, problems


def read_params(given: Mapping[str, str]) -> tuple[Params | None, dict[str, str]]:
    """The Params that a form asks for, or what is wrong with each field."""
    values, problems = read_form(given, Params.model_fields, SWITCHES)
    for name in ("budget", "batch", "rate"):
        if values.get(name):
            try:
                values[name] = read_bytes(values[name])
            except InputError as error:
                problems[name] = f"{error.what} (got {values.pop(name)!r})"
    if weights := values.get("capacities"):
        values["capacities"] = [w for w in weights.replace(",", " ").split() if w]
    problems = {**Params.problems(values), **problems}
    return (None, problems) if problems else (Params.of(values), {})
