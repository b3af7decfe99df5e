"""The page of the registry's files, and their JSON schema, from the models that read them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from evenkeel.registry.files import run_files as files
from evenkeel.registry.files.folder import Folder
from evenkeel.registry.files.stored_file import FileModel, FileOf, StoredFile
from setup.docs.reference.markdown import code, comment, fields, page, summary, table
from setup.docs.reference.schemas import type_of

#: Class of a folder -> where it is in the registry, and its heading.
_FOLDERS: dict[type[Folder], tuple[str, str]] = {
    files.RegistryFiles: ("", "Of a table"),
    files.RunFiles: ("runs/RUN/", "Of a run"),
    files.EpochFiles: ("epochs/NUMBER/", "Of an epoch"),
    files.KeptFiles: ("runs/RUN/ and epochs/NUMBER/", "Of a run, and kept by its epoch"),
}
#: Values in the names of files.
_NAMES: dict[str, Any] = {
    "digest": "DIGEST",
    "number": "NUMBER",
    "attempt": "NUMBER",
    "end": "DAY",
    "job": "JOB",
    "name": "NAME",
    "run": "RUN",
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
        "[registry.schema.json](registry.schema.json) is the JSON schema of all.",
        *(
            f"## {heading}\n\nIn `{place or 'REGISTRY/'}`:\n\n{_listed(found[folder])}"
            for folder, (place, heading) in _FOLDERS.items()
        ),
    )


def fields_page() -> str:
    """Return the page of the fields of every file that holds JSON."""
    every = [file.kind for folder in _FOLDERS for file in files_of(folder)]
    kinds = {kind.__name__: kind for kind in every if _is_model(kind)}
    return page(
        "Fields of the registry's files",
        "[Files of the registry](registry.md) says which file holds which of these.",
        *(f"## {name}\n{summary(kinds[name])}\n\n{_fields(kinds[name])}" for name in sorted(kinds)),
    )


def _listed(found: list[File]) -> str:
    rows = [
        [
            code(f.name),
            f.about or summary(f.kind),
            f"[{f.kind.__name__}](registry-fields.md#{f.kind.__name__.lower()})"
            if _is_model(f.kind)
            else "",
        ]
        for f in sorted(found)
    ]
    return table(["file", "what it holds", "fields"], rows)


def _is_model(kind: Any) -> bool:
    return inspect.isclass(kind) and (
        issubclass(kind, FileModel) or not hasattr(kind, "from_bytes")
    )


def _fields(kind: Any) -> str:
    schema = TypeAdapter(kind).json_schema(by_alias=True)
    about = fields(inspect.getdoc(kind) or "")
    named = {f.alias or n: n for n, f in getattr(kind, "model_fields", {}).items()}
    rows: list[list[str]] = []
    for name, field in schema["properties"].items():
        always = "yes" if name in schema.get("required", []) else "no"
        told = [type_of(field), always, about.get(named.get(name, name), "")]
        # Neighbours of one meaning share a row.
        if rows and told[-1] and rows[-1][1:] == told:
            rows[-1][0] += f", {code(name)}"
        else:
            rows.append([code(name), *told])
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
