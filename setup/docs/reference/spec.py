"""The page of table specs: every field, from the pydantic models."""

from __future__ import annotations

import json
import re
from inspect import signature
from typing import Any

from evenkeel.spec.merges import MERGES
from evenkeel.spec.table_spec import TableSpec
from partitioning.strategies import PRODUCTION, STRATEGIES
from partitioning.strategies.frontier.options import FrontierOptions
from setup.docs.reference.markdown import code, fields, page, summary, table
from setup.docs.reference.schemas import range_of, type_of

#: Model of a part -> its heading on the page: where it stands in a spec.
_PLACES = {
    "Input": "input",
    "StateTable": "state.NAME",
    "StateColumn": "state.NAME.columns.NAME",
    "ChannelSpec": "channel of a list",
    "Partitions": "schedule by partitions",
    "Splitting": "split",
    "Watching": "watch",
}
#: Annotation of an option of a strategy -> what a spec gives.
_KINDS = {
    "int": "whole number",
    "float": "number",
    "bool": "yes or no",
    "str": "text",
    "Sequence[str]": "list of text",
    "Mapping[str, str]": "mapping to text",
}
#: Where the options of a strategy are described, if not by its function.
_DESCRIBED = {
    "frontier": FrontierOptions,
    "scan": STRATEGIES["readj"],
    "redist": STRATEGIES["readj"],
}
#: Options that a spec has fields for.
OWN_FIELDS = {"max_imbalance", "budget", "splitting", "copies", "worth"}


def spec_page() -> str:
    """Return the page."""
    schema = TableSpec.model_json_schema()
    parts = [f"## {place}\n\n{_fields(schema['$defs'][name])}" for name, place in _PLACES.items()]
    return page(
        "Fields of a table spec",
        "A table spec is one YAML file. [Table specs](../SPEC.md) explains it with an example. "
        "`evenkeel check SPEC` names every wrong field.",
        'The tables list each field, and the value it has without an entry. "none" is YAML\'s '
        "`null`. A path is relative to the spec's folder, or absolute, or a URL.",
        "## At the top",
        _fields(schema),
        *parts,
        "## Merges",
        "A merge of your own comes from the file that `EVENKEEL_MERGES` names. "
        "[Table specs](../SPEC.md#statenamecolumns-one-entry-a-column) says what each merge keeps.",
        table(
            ["merge", "types of its input column"],
            [[code(name), _taken(name)] for name in sorted(MERGES)],
        ),
        "## Strategies",
        table(
            ["strategy", "how it builds the next function"],
            [[code(n), summary(STRATEGIES[n])] for n in PRODUCTION],
        ),
        "## Options of strategies",
        table(["strategy", "option", "type", "default", "meaning"], _options()),
    )


def _options() -> list[list[str]]:
    """Return a row for each option that `options` takes, by strategy."""
    return [
        [
            code(name),
            code(option.name),
            _KINDS[option.annotation.removesuffix(" | None")],
            code(_text(option.default)),
            about.get(option.name, ""),
        ]
        for name in PRODUCTION
        for about in [fields(_DESCRIBED.get(name, STRATEGIES[name]).__doc__ or "")]
        for option in signature(STRATEGIES[name]).parameters.values()
        if option.kind is option.KEYWORD_ONLY and option.name not in OWN_FIELDS
    ]


def _taken(merge: str) -> str:
    return "it has none" if merge == "count" else MERGES[merge].types_text


def _fields(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = [
        [
            code(name),
            re.sub(r"<(\w+)>", _link, type_of(field, link="<{}>")),
            range_of(field),
            "required" if name in required else code(_text(field.get("default"))),
            field.get("description", ""),
        ]
        for name, field in schema["properties"].items()
    ]
    return table(["field", "type", "range", "default", "meaning"], rows)


def _link(model: re.Match[str]) -> str:
    place = _PLACES[model[1]]
    return f"[{place}](#{place.lower().replace('.', '').replace(' ', '-')})"


def _text(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)
