"""YAML files that people write, read as plain values. Any error is one message."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import Resolver
from yaml.scanner import Scanner

from partitioning.errors import InputError

try:
    from yaml._yaml import CParser
except ImportError:

    class CParser(Reader, Scanner, Parser):  # type: ignore[no-redef]
        """PyYAML's own parser, for a PyYAML that was built without libyaml."""

        def __init__(self, stream: str) -> None:
            Reader.__init__(self, stream)
            Scanner.__init__(self)
            Parser.__init__(self)


#: Errors that YAML's constructors raise for a scalar that its tag cannot hold: 2026-02-30.
_NO_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


#: Advice if the caller has none.
_READABLE = "Name a file that is there and that this account may read"
_WELL_FORMED = "Correct the line that it names"
#: A URL with a user, or a user and a password. A password may hold slashes, as S3's secrets do.
_URL = re.compile(r"\b([A-Za-z][\w+.-]*)://([^\s/?#@]*|[^\s/?#@:]*:(?!\d+(?:/|$))\S*)@")
#: Schemes whose URLs name a container before the @: container@account.
_CONTAINERS = {"abfs", "abfss", "wasb", "wasbs"}


def _line_with_user(text: str) -> int | None:
    """Return the first line, from 1, that holds a URL with a user; None: no line does."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in _URL.finditer(line):
            if found[1].lower() not in _CONTAINERS or ":" in found[2]:
                return number
    return None


class _NamesUser(Exception):
    """A URL names a user or a password. The error never repeats it."""


class _Loader(Composer, CParser, SafeConstructor, Resolver):
    """YAML loader that refuses a field given twice. PyYAML would silently take the last.

    libyaml parses the text, which takes a sixth of the time of PyYAML's own parser. PyYAML's
    composer makes the nodes: libyaml's has no limit of depth, and deep nesting would end the
    process.
    """

    # ruamel.yaml was tried in its place, and refuses such a field by itself. It spares eight lines
    # here. The checks of URLs and of impossible values stay: KeyError and ValueError leave its
    # loader, too. It reads YAML 1.2, so specs of today would change: `yes` and `on` become texts,
    # 010 becomes 10, and 1e3 a number.

    def __init__(self, stream: str) -> None:
        CParser.__init__(self, stream)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        lines: dict[str, list[int]] = {}
        for key, _ in pairs:
            if isinstance(key, yaml.ScalarNode):
                lines.setdefault(key.value, []).append(key.start_mark.line + 1)
        if twice := [
            f"{key}: given twice, at line {first} and at line {second}"
            for key, (first, second, *_) in ((k, at) for k, at in lines.items() if at[1:])
        ]:
            raise yaml.constructor.ConstructorError(None, None, "; ".join(twice))
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        value = super().construct_scalar(node)
        # Look again after YAML has resolved escapes.
        if isinstance(value, str) and _line_with_user(value):
            raise _NamesUser(node.start_mark.line + 1)
        return value

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except _NO_VALUE as error:
            kind = str(node.tag).rsplit(":", 1)[-1]
            # Only the text of a ValueError is meant for people.
            why = f": {error}" if isinstance(error, ValueError) else ""
            raise yaml.constructor.ConstructorError(
                None, None, f"expected type {kind}, got {node.value!s:.40}{why}", node.start_mark
            ) from error


def read_yaml(path: str | Path, fix: str | None = None) -> Any:
    """Read a YAML file.

    Parameters
    ----------
    path : of the file
    fix : advice for the reader if the file is wrong

    Raises
    ------
    InputError : the file cannot be read, is not YAML, holds an impossible value, or holds a URL
        with a user or a password (which the error does not repeat)
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read ({error})", str(path), fix or _READABLE) from error
    try:
        # Look before the text is parsed: YAML's errors quote the line.
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
        # PyYAML was given the text, so it has no name for the file. The error has the path.
        said = " ".join(str(error).replace('"<unicode string>", ', "").split())
        raise InputError(f"not YAML ({said})", str(path), fix or _WELL_FORMED) from error
    except RecursionError as error:
        raise InputError(
            "not YAML (nested too deeply)", str(path), fix or "Nest it less"
        ) from error
