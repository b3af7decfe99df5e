"""A YAML file that people write, as plain values; whatever is wrong with it is one message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from partitioning.errors import InputError

#: What YAML's constructors let pass of a scalar that is none of its tag: 2026-02-30, !!bool abc.
_NO_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


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
    InputError : it cannot be read, or is not YAML, or holds a value that there is not
    """
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read ({error})", str(path), fix) from error
    except yaml.YAMLError as error:
        raise InputError(f"not YAML ({' '.join(str(error).split())})", str(path), fix) from error
    except RecursionError as error:
        raise InputError("not YAML (nested too deeply)", str(path), fix) from error
