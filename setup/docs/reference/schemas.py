"""Types and ranges in words, from the JSON schema of a pydantic model."""

from __future__ import annotations

from typing import Any

_PLAIN = {"integer": "whole number", "number": "number", "string": "text", "boolean": "yes or no"}


def name_of(schema: dict[str, Any]) -> str:
    """Return the name of the model that a schema refers to."""
    return str(schema["$ref"]).rpartition("/")[2]


def type_of(schema: dict[str, Any], *, link: str = "{}") -> str:
    """Return the type in words; `link` shows the name of another model."""
    if "$ref" in schema:
        return link.format(name_of(schema))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        texts = [type_of(choice, link=link) for choice in choices]
        return " or ".join(
            sorted(dict.fromkeys(texts), key=lambda text: text.startswith("list of"))
        )
    kind = schema.get("type")
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}), link=link)}"
    if kind == "object":
        inner = schema.get("additionalProperties") or {}
        for found in schema.get("patternProperties", {}).values():
            inner = found
        return f"mapping to {type_of(inner, link=link)}" if isinstance(inner, dict) else "mapping"
    if kind == "null":
        return "none"
    if "format" in schema:
        return {"date-time": "time", "date": "day"}[schema["format"]]
    return _PLAIN.get(str(kind), "any")


def range_of(schema: dict[str, Any]) -> str:
    """Return the least and greatest value, or the least number of entries, of any of its forms."""
    found = []
    for form in [schema, *schema.get("anyOf", []), *schema.get("oneOf", [])]:
        least, most = form.get("minimum"), form.get("maximum")
        if least is not None and most is not None:
            found.append(f"{least:,} to {most:,}")
        elif least is not None:
            found.append(f"at least {least:,}")
        if "exclusiveMinimum" in form:
            found.append(f"over {form['exclusiveMinimum']:,}")
        if "minItems" in form or "minProperties" in form:
            found.append("at least one")
        if "pattern" in form:
            found.append("letter, then at most 62 letters, digits, underscores")
    return "; ".join(dict.fromkeys(found))
