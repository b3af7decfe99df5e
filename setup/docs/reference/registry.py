"""The page of the registry's files, and their JSON schema, from the models that read them."""

from __future__ import annotations

import inspect
import io
import json
import re
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
from pydantic import BaseModel, TypeAdapter

from evenkeel.registry.files import run_files as files
from evenkeel.registry.files.folder import Folder
from evenkeel.registry.files.stored_file import FileModel, FileOf, StoredFile
from partitioning.function.hashing import KeyColumn
from partitioning.workload.profile import Profile, Sketch, profile_of_keys
from setup.docs.reference.markdown import code, comment, fields, page, summary, table
from setup.docs.reference.schemas import type_of

#: Class of a folder -> where it is in the registry, and its heading.
_FOLDERS: dict[type[Folder], tuple[str, str]] = {
    files.RegistryFiles: ("", "Of a table"),
    files.RunFiles: ("runs/RUN/", "Of a run"),
    files.EpochFiles: ("epochs/NUMBER/", "Of an epoch"),
    files.KeptFiles: ("runs/RUN/ and epochs/NUMBER/", "Of a run, and kept by its epoch"),
}
#: Page of the fields of JSON files -> its title, and the folders that have these files. A class
#: is on the first page that has it.
FIELD_PAGES: dict[str, tuple[str, list[type[Folder]]]] = {
    "fields.md": (
        "Fields of a table's and an epoch's files",
        [files.RegistryFiles, files.EpochFiles],
    ),
    "run-fields.md": ("Fields of a run's files", [files.RunFiles, files.KeptFiles]),
}
#: Name of another class in the type of a field, before it is a link.
_LINKED = "{{{}}}"
#: Values in the names of files.
_NAMES: dict[str, Any] = {
    "digest": "DIGEST",
    "number": "NUMBER",
    "attempt": "NUMBER",
    "end": "DAY",
    "job": "JOB",
    "name": "NAME",
    "made": "MADE",
    "day": "DAY",
    "page": "TIME.RUN.SUITE.VERDICT.html",
    "run": "RUN",
}
#: An example of each kind of .npz file. Every axis has a length of its own.
_KEYS = np.arange(3)
_PROFILE = replace(
    profile_of_keys((KeyColumn("key", "string"),) * 4, _KEYS, np.ones(3), 5), window=("", "")
)
_EXAMPLES: dict[type[Profile | Sketch], Profile | Sketch] = {
    Profile: _PROFILE,
    Sketch: replace(_PROFILE.sketch(), hours=np.zeros(24)),
}
_AXES = {2: "2", 3: "K", 4: "C", 5: "S", 24: "24"}
_LOAD = "load: rows, or the unit of the spec's `load`"
#: Array of an .npz file -> what it means, and its unit. `Sketch.` before it: in sketches alone.
_ARRAYS = {
    "key_names": ("the key's columns, in order", "name"),
    "key_types": ("type of each column", "a key type of the spec"),
    "load": ("load of each slot, heavy keys included", _LOAD),
    "bytes": ("state of each slot, heavy keys included", "bytes"),
    "rows": (
        "in a profile: state of each slot, heavy keys included; in a sketch: its input",
        "rows",
    ),
    "heavy": ("hash of each heavy key, ascending", "xxhash64"),
    "heavy_load": ("load of each heavy key", _LOAD),
    "heavy_bytes": ("state of each heavy key, copies included", "bytes"),
    "heavy_rows": ("state of each heavy key, copies included", "rows"),
    "heavy_names": (
        "how a person writes each heavy key; a few very long ones, or ones that end with a null "
        "character, are JSON in bytes, in `heavy_names_json`",
        "text",
    ),
    "heavy_copy_bytes": ("one copy of what build sides hold of each heavy key", "bytes"),
    "heavy_copy_rows": ("one copy of what build sides hold of each heavy key", "rows"),
    "error": ("no key has more load that is not listed here", _LOAD),
    "window": ("first day, and the day after the last; empty: no time column", "ISO date"),
    "events": ("input of the window", "rows"),
    "chance": ("how far a channel's load may be off by chance; 0: not known", "part of fair share"),
    "uncertain": ("why the load may be far from what comes; empty: nothing is known", "text"),
    "hours": ("load of each hour of the UTC day; of length 0: not known", _LOAD),
}
#: How docstrings of functions begin that name a file.
_UNSAID = re.compile(r"^Return (the file (with |that )?)?")


class File(NamedTuple):
    """A file of a folder: its name, the type that reads it, and what the code says of it."""

    name: str
    kind: Any
    about: str


def files_of(folder: type[Folder]) -> Iterator[File]:
    """Yield the files that a class of folders declares itself."""
    lines = inspect.getsource(folder).splitlines()
    for name, member in vars(folder).items():
        if isinstance(member, FileOf):
            at = next(i for i, line in enumerate(lines) if line.strip().startswith(f"{name} = "))
            yield File(member.name, member._form or member._kind, comment(lines, at))
        elif str(getattr(member, "__annotations__", {}).get("return", "")).startswith("StoredFile"):
            given = [_NAMES[p] for p in inspect.signature(member).parameters if p != "self"]
            stored: StoredFile[Any] = member(None, *given)
            yield File(stored.name, stored._kind, _UNSAID.sub("", summary(member)))


def page_text() -> str:
    """Return the page."""
    found = {folder: list(files_of(folder)) for folder in _FOLDERS}
    return page(
        "Files of the registry",
        "The registry of a table is one folder or URL. All files are written whole. JSON files "
        "may have more fields, of later releases. Readers ignore these. "
        "[registry.schema.json](registry.schema.json) is the JSON schema of the JSON files. Files "
        "that end with `.npz` hold NumPy arrays, without pickle. "
        "[Their arrays](#arrays-of-profile) are listed, too.",
        *(
            f"## {heading}\n\nIn `{place or 'REGISTRY/'}`:\n\n{_listed(found[folder])}"
            for folder, (place, heading) in _FOLDERS.items()
        ),
        *(_arrays_part(kind) for kind in _EXAMPLES),
    )


def places() -> list[str]:
    """List every file as its path in the registry. Words in capitals stand for a value."""
    return [
        folder + file.name
        for kind, (there, _) in _FOLDERS.items()
        for folder in there.split(" and ")
        for file in files_of(kind)
    ]


@cache
def models() -> dict[str, dict[str, Any]]:
    """Return the classes of each page of fields, by name; those that a field has are with it."""
    placed: dict[str, dict[str, Any]] = {name: {} for name in FIELD_PAGES}
    for name, (_, folders) in FIELD_PAGES.items():
        kinds = [file.kind for folder in folders for file in files_of(folder)]
        for kind in (k for k in kinds if _is_model(k)):
            for one in (kind, *_inner(kind)):
                if not any(one.__name__ in of for of in placed.values()):
                    placed[name][one.__name__] = one
    return placed


def _inner(kind: Any) -> Iterator[Any]:
    """Yield the models that fields of a model have, and those of their fields."""
    for hint in get_type_hints(kind).values():
        left = [hint]
        for part in left:
            left += get_args(part)
            if inspect.isclass(part) and (issubclass(part, BaseModel) or is_dataclass(part)):
                yield part
                yield from _inner(part)


def fields_page(name: str) -> str:
    """Return a page of the fields of files that hold JSON."""
    title, _ = FIELD_PAGES[name]
    (other,) = FIELD_PAGES.keys() - {name}
    kinds = models()[name]
    return page(
        title,
        "[Files of the registry](files.md) says which file holds which of these. Each digest is a "
        f"sha256 in hex. [{FIELD_PAGES[other][0]}]({other}) is the other page.",
        *(f"## {kind}\n{summary(kinds[kind])}\n\n{_fields(kinds[kind])}" for kind in sorted(kinds)),
    )


def _link(name: str) -> str:
    """Return a link to the section of a class."""
    page_name = next(page for page, kinds in models().items() if name in kinds)
    return f"[{name}]({page_name}#{name.lower()})"


def arrays(kind: type[Profile | Sketch]) -> list[list[str]]:
    """Return name, type, shape, meaning and unit of each array in an .npz file of that kind.

    Name, type and shape are those that the code writes. Lengths in the example tell the axes apart.

    Raises
    ------
    KeyError : an array that is written has no text in `_ARRAYS`
    """
    with np.load(io.BytesIO(_EXAMPLES[kind].to_bytes())) as found:
        return [
            [
                code(name),
                "text" if values.dtype.kind == "U" else str(values.dtype),
                ", ".join(_AXES[length] for length in values.shape) or "one value",
                *(_ARRAYS.get(f"{kind.__name__}.{name}") or _ARRAYS[name]),
            ]
            for name, values in found.items()
        ]


def _arrays_part(kind: type[Profile | Sketch]) -> str:
    return "\n\n".join(
        [
            f"## Arrays of {kind.__name__}",
            f"{summary(kind)} S is the number of slots, K of heavy keys, C of key columns. Text is "
            "Unicode (`<U`). All else is little-endian. Readers leave out the array `surprises` of "
            "release 0.1.0.",
            table(["array", "type", "shape", "meaning", "unit"], arrays(kind)),
        ]
    )


def _listed(found: list[File]) -> str:
    rows = [
        [
            code(f.name),
            f.about or summary(f.kind),
            _link(f.kind.__name__) if _is_model(f.kind) else _link_of_arrays(f.kind),
        ]
        for f in sorted(found, key=lambda f: f.name)
    ]
    return table(["file", "what it holds", "fields"], rows)


def _link_of_arrays(kind: Any) -> str:
    name = kind.__name__
    return f"[arrays](#arrays-of-{name.lower()})" if kind in _EXAMPLES else ""


def _is_model(kind: Any) -> bool:
    return inspect.isclass(kind) and (
        issubclass(kind, FileModel) or not hasattr(kind, "from_bytes")
    )


def field_rows(kind: Any) -> list[list[str]]:
    """Return name, type, whether it is always there, and meaning of each field of a model."""
    schema = TypeAdapter(kind).json_schema(by_alias=True)
    about = fields(inspect.getdoc(kind) or "")
    named = {f.alias or n: n for n, f in getattr(kind, "model_fields", {}).items()}
    always = schema.get("required", [])
    return [
        [
            code(name),
            type_of(field, link=_LINKED),
            "yes" if name in always else "no",
            about.get(named.get(name, name), ""),
        ]
        for name, field in schema["properties"].items()
    ]


def _fields(kind: Any) -> str:
    rows = [
        [name, re.sub(r"\{(\w+)\}", lambda found: _link(found[1]), of), *rest]
        for name, of, *rest in field_rows(kind)
    ]
    return table(["field", "type", "always there", "meaning"], rows)


def schema() -> str:
    """Return the JSON schema of every file that holds JSON, by the name of the file."""
    every = [file for folder in _FOLDERS for file in files_of(folder)]
    made: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {}}
    made["properties"] = {}
    for file in sorted(every, key=lambda f: f.name):
        if _is_model(file.kind) or not hasattr(file.kind, "from_bytes"):
            one = TypeAdapter(file.kind).json_schema(by_alias=True, ref_template="#/$defs/{model}")
            made["$defs"] |= one.pop("$defs", {})
            made["properties"][file.name] = one
    return json.dumps(made, indent=1, sort_keys=True) + "\n"
