"""Keys as people write them: columns by comma, by " | " as in plans, or a JSON list of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa

from partitioning.errors import InputError
from partitioning.function.hashing import KEY_TYPES, hexadecimal

BETWEEN = " | "
#: Values of one key as texts; None: null.
Texts = list[str | None]


def key_columns(keys: Sequence[str], types: Sequence[str], sure: bool = False) -> list[pa.Array]:
    """Parse keys as typed: one Arrow array (n,) a key column. Binary is typed in hexadecimal.

    Parameters
    ----------
    sure : refuse a text that could mean two keys

    Raises
    ------
    InputError : another number of columns than the key has, or a value not of its type
    """
    rows = [_texts(key, types, sure) for key in keys]
    columns = []
    for i, kind in enumerate(types):
        texts = [values[i] for values in rows]
        try:
            typed = [t if t is None or kind != "binary" else bytes.fromhex(t) for t in texts]
            given = pa.array(typed, pa.binary() if kind == "binary" else pa.string())
            if hexadecimal(given, kind):
                raise ValueError("a number is written in decimal")
            columns.append(given.cast(KEY_TYPES[kind]))
        except ValueError as error:  # Arrow's, too
            raise InputError(
                f"a key is not of type {kind} ({error})",
                fix="Write it as its type asks; binary in hexadecimal, null in a JSON list: [null]",
            ) from error
    return columns


def key_text(values: Iterable[object]) -> str:
    """Write a key as people do, so that `key_columns` reads the same key.

    >>> key_text(["EWR", 5]), key_text(["EWR", None])
    ('EWR | 5', '["EWR", null]')
    """
    texts = [
        None if v is None else bytes(v).hex() if isinstance(v, bytes | bytearray) else str(v)
        for v in values
    ]
    plain = BETWEEN.join(t or "" for t in texts)
    try:
        read = _texts(plain, ["string"] * len(texts), sure=True) if plain.strip() else None
        if None not in texts and read == texts:
            return plain
    except InputError:
        pass
    return _json(texts)


def _texts(key: str, types: Sequence[str], sure: bool) -> Texts:
    """Return the text of each column of a key."""
    listed = _listed(key, types)
    by = BETWEEN if BETWEEN in key else ","
    values: Texts = [key] if len(types) == 1 else [*key.split(by)]
    values = values if listed is None else listed
    if len(values) != len(types):
        raise InputError(
            f"key {key!r} has {len(values)} columns, the table's has {len(types)}",
            fix="Write one value for each key column, with ' | ' between them, or a JSON list",
        )
    if sure and listed is None and (others := _other_readings(key, values)):
        raise InputError(
            f"key {key!r} could mean {' or '.join(map(_json, [values, *others]))}",
            fix="Write the one that you mean, as a JSON list",
        )
    if sure and listed is not None and [*types] == ["string"] and key_text(listed)[:1] != "[":
        # A key of one column that needs no list is written without one: this may be the key itself.
        raise InputError(
            f"key {key!r} could mean the text {listed[0]!r}, or this text as it stands",
            fix=f"Write {key_text(listed)} for the first, {_json([key])} for the second",
        )
    return values


def _listed(key: str, types: Sequence[str]) -> Texts | None:
    """Return the values of a JSON list; None: the text is none."""
    try:
        values = json.loads(key) if key.startswith("[") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list):
        return None
    for value, kind in zip(values, types, strict=False):
        if not isinstance(value, str | None) and (
            kind in ("string", "binary") or isinstance(value, list | dict)
        ):
            raise InputError(
                f"key {key!r} has {json.dumps(value)} where it needs a text of type {kind}",
                fix="Put texts of a JSON list between double quotes",
            )
    return [v if isinstance(v, str | None) else json.dumps(v) for v in values]


def _other_readings(key: str, values: Texts) -> list[Texts]:
    """Return the other keys that a text could mean."""
    found: list[Texts] = []
    commas: Texts = [*key.split(",")]
    if BETWEEN in key and len(values) == len(commas) > 1 and not key.count(", "):
        found.append(commas)
    if "null" in values:
        found.append([None if v == "null" else v for v in values])
    return found


def _json(texts: Texts) -> str:
    return json.dumps(texts, ensure_ascii=False)
