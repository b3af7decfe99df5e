"""Custom merges: SQL that a deployment's operators register beside the specs.

A spec holds names and numbers only, never SQL. The environment variable EVENKEEL_MERGES names a
YAML file with the custom merges. Every machine that reads specs needs it:

    flags:
      fold: bit_or({of})       # an aggregate of events
      pair: "{a} | {b}"        # of two partial values, neither null
      every: bit_or({x})       # an aggregate of partial values
      types: [int, bigint]     # that the column may have; default: any with an order
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evenkeel.spec.field_errors import field_error
from evenkeel.spec.merges import MERGES, Merge, of_some, raising
from evenkeel.spec.strict_yaml import read_yaml
from partitioning.errors import InputError
from partitioning.function.canonical import digest

#: YAML file with merges of your own. Default: none.
MERGES_VARIABLE = "EVENKEEL_MERGES"


class _Own(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    fold: str
    pair: str
    every: str
    types: list[str] | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _names_its_values(self) -> _Own:
        for field, holes in (("fold", ["{of}"]), ("pair", ["{a}", "{b}"]), ("every", ["{x}"])):
            if missing := [h for h in holes if h not in getattr(self, field)]:
                raise ValueError(f"{field} lacks {', '.join(missing)}")
        return self

    def merge(self) -> Merge:
        def filled(template: str, *holes: str) -> Callable[..., str]:
            # Not str.format: SQL may hold braces of its own.
            def fill(*values: str) -> str:
                text = template
                for hole, value in zip(holes, values, strict=True):
                    text = text.replace(hole, value)
                return f"({text})"

            return fill

        fold, pair = filled(self.fold, "{of}"), filled(self.pair, "{a}", "{b}")

        def either(a: str, b: str, kind: str = "") -> str:
            # The SQL may give a value for a null, such as a struct of nulls.
            none = raising(f"pair gives null of {a} and {b}")
            return of_some(f"coalesce({pair(a, b)}, {none})", a, b)

        return Merge(
            lambda of, by: fold(of),
            either,
            filled(self.every, "{x}"),
            bare=pair,
            version=digest([self.fold, self.pair, self.every])[:12],
            types=None if self.types is None else frozenset(self.types),
            types_text="a type that has an order" if self.types is None else ", ".join(self.types),
        )


def merges() -> dict[str, Merge]:
    """Return every merge by name: the built-in ones and the custom ones.

    Raises
    ------
    InputError : the file that EVENKEEL_MERGES names is missing or wrong
    """
    path = os.environ.get(MERGES_VARIABLE)
    if not path:
        return {**MERGES}
    file = Path(path)
    return {**MERGES, **_registered(path, file.stat().st_mtime_ns if file.exists() else 0)}


@lru_cache(maxsize=4)
def _registered(path: str, changed: int) -> dict[str, Merge]:
    fix = f"Correct the file that {MERGES_VARIABLE} names"
    data = read_yaml(path, fix)
    if not isinstance(data, dict):
        raise InputError("expected a mapping of merges by name", path, fix)
    found = {}
    for name, fields in data.items():
        if not str(name).isidentifier() or name in MERGES:
            raise InputError(
                f"{name!r} cannot name a custom merge; expected an identifier, no built-in name",
                path,
                fix,
            )
        try:
            found[str(name)] = _Own.model_validate(fields).merge()
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, (name, *e['loc'])))}: {field_error(e)}" for e in error.errors()
            )
            raise InputError(problems, path, fix) from error
    return found
