"""A YAML file that people write, as plain values; whatever is wrong with it is one message."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from partitioning.errors import InputError

#: What YAML's constructors let pass of a scalar that is none of its tag: 2026-02-30, !!bool abc.
_NO_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


#: A URL with a user, or a user and a password; one that holds slashes, too, as S3's secrets may.
_URL = re.compile(r"\b([A-Za-z][\w+.-]*)://([^\s/?#@]*|[^\s/?#@:]*:(?!\d+(?:/|$))\S*)@")
#: Schemes whose URLs name a container before the @: container@account.
_CONTAINERS = {"abfs", "abfss", "wasb", "wasbs"}


def _line_with_user(text: str) -> int | None:
    """The first line, from 1, with a URL that says who asks; None: there is none."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in _URL.finditer(line):
            if found[1].lower() not in _CONTAINERS or ":" in found[2]:
                return number
    return None


class _NamesUser(Exception):
    """A URL that says who asks; nothing of it is told."""


class _Loader(yaml.SafeLoader):
    """Refuses a field that is given twice, of which YAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        keys = [key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode)]
        if twice := sorted({k for k in keys if keys.count(k) > 1}):
            raise yaml.constructor.ConstructorError(
                None, None, f"{', '.join(twice)}: given twice", node.start_mark
            )
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        value = super().construct_scalar(node)
        # As it reads once escapes are none any more.
        if isinstance(value, str) and _line_with_user(value):
            raise _NamesUser(node.start_mark.line + 1)
        return value

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except _NO_VALUE as error:
            kind = str(node.tag).rsplit(":", 1)[-1]
            # Of the others' words none are for people.
            why = f": {error}" if isinstance(error, ValueError) else ""
            raise yaml.constructor.ConstructorError(
                None, None, f"{node.value!s:.40} is no {kind}{why}", node.start_mark
            ) from error


def read_yaml(path: str | Path, fix: str | None = None) -> Any:
    """What a YAML file holds.

    Parameters
    ----------
    fix : what the reader can do where it is wrong

    Raises
    ------
    InputError : it cannot be read, or is not YAML, or holds a value that there is not, or a URL
        with a user or password, which is not repeated
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read ({error})", str(path), fix) from error
    try:
        # Before it is parsed: errors of YAML quote the line.
        if line := _line_with_user(text):
            raise _NamesUser(line)
        return yaml.load(text, _Loader)
    except _NamesUser as error:
        raise InputError(
            f"line {error}: a URL holds a user or a password",
            str(path),
            "Keys come from the environment or the machine's role: take away what stands before @",
        ) from None
    except yaml.YAMLError as error:
        raise InputError(f"not YAML ({' '.join(str(error).split())})", str(path), fix) from error
    except RecursionError as error:
        raise InputError("not YAML (nested too deeply)", str(path), fix) from error
