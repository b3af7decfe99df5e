"""Files under one folder, local or remote, through fsspec: read, replace, create exclusively.

The only place where Evenkeel's own small files are touched. Names are relative and may not
leave the folder.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec

from partitioning.errors import DamagedError, InputError
from partitioning.function import canonical_json

#: As `Store._temporary` names files.
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}")

#: What to do about a file of the registry that is torn or was edited.
RESTORE = "Restore the file from a backup; a run's files come anew with a new run"


def parsed_json(data: bytes, where: str) -> Any:
    """The JSON value that the file `where` holds; DamagedError where it does not parse."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"not JSON ({error})", where, RESTORE) from error


def shaped(data: Any, where: str, **fields: Any) -> dict[str, Any]:
    """`data` as read from the JSON file `where`, if it is an object with these fields of these
    types.

    Raises
    ------
    DamagedError : it is not
    """
    if not isinstance(data, dict):
        raise DamagedError(f"not an object (got {data!s:.40})", where, RESTORE)
    for name, kind in fields.items():
        if not isinstance(data.get(name), kind):
            raise DamagedError(f"{name} is missing or of a wrong type", where, RESTORE)
    return data


class Store:
    """The files under `url` (a path or any fsspec URL)."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise InputError(
                f"cannot be reached ({error})", url, "Install what fsspec needs for it"
            ) from error
        self._local = isinstance(self._fs, fsspec.implementations.local.LocalFileSystem)

    def path(self, name: str) -> str:
        """Full path of a name in this folder; refuses names that would leave it."""
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or PurePosixPath(name).is_absolute() or "\\" in name:
            raise InputError(f"{name!r} is not a name inside the folder", self.url)
        return f"{self._root.rstrip('/')}/{name}"

    def exists(self, name: str) -> bool:
        """Whether the file is there, asked afresh."""
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self.path(name)))

    def names(self, folder: str) -> list[str]:
        """Names of what stands directly in a folder, sorted; empty where there is no folder."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self.path(folder), detail=False)
        except FileNotFoundError:
            return []
        names = (PurePosixPath(p).name for p in found)
        return sorted(n for n in names if not n.startswith("."))

    def read(self, name: str) -> bytes:
        """Whole file; FileNotFoundError where there is none."""
        self._fs.invalidate_cache()
        return bytes(self._fs.cat_file(self.path(name)))

    def write(self, name: str, data: bytes) -> str:
        """Replace the file as a whole; a reader sees the old one or the new one."""
        path = self.path(name)
        if self._local:
            self._temporary(path, data).replace(path)
        else:
            self._fs.pipe_file(path, data)
        return path

    def create(self, name: str, data: bytes) -> None:
        """Create the file with all its content, or raise FileExistsError: of any number of
        callers, one wins. This is what makes the next epoch a compare-and-swap."""
        path = self.path(name)
        if self._local:
            temporary = self._temporary(path, data)
            try:
                # A link is both exclusive and whole; "xb" alone could leave a torn file.
                Path(path).hardlink_to(temporary)
            finally:
                temporary.unlink()
        else:
            with self._fs.open(path, "xb") as file:
                file.write(data)

    def check_exclusive(self) -> None:
        """Try whether this store creates a file once only: on that epochs stand.

        Raises
        ------
        InputError : it does not, or cannot be written
        """
        # Named as what `sweep` takes away, should this be killed.
        name = f".probe.{uuid.uuid4().hex}"
        try:
            self.create(name, b"one")
            try:
                self.create(name, b"other")
            except FileExistsError:
                return
            finally:
                self.remove(name)
        except OSError as error:
            raise InputError(f"cannot be written ({error})", self.url) from error
        raise InputError(
            "of two that create one file, both succeed: two runs could publish one epoch",
            self.url,
            "Put the registry where a create can be exclusive; see docs/OPERATIONS.md",
        )

    def remove(self, name: str) -> None:
        """Remove the file; nothing where there is none."""
        if self.exists(name):
            self._fs.rm_file(self.path(name))

    def sweep(self, hours: float) -> int:
        """Remove what writes that were killed left beside their places more than so many hours
        ago; returns how many files. Only local writes leave any."""
        root, before = Path(self._root), time.time() - hours * 3600
        if not self._local or not root.is_dir():
            return 0
        found = [p for p in root.rglob(".*") if _UNFINISHED.fullmatch(p.name) and p.is_file()]
        torn = [p for p in found if p.stat().st_mtime < before]
        for file in torn:
            file.unlink(missing_ok=True)
        return len(torn)

    def read_json(self, name: str) -> Any:
        """Parsed JSON; DamagedError where it does not parse."""
        return parsed_json(self.read(name), self.path(name))

    def write_json(self, name: str, value: Any) -> str:
        """Replace the file by the canonical JSON of `value`."""
        return self.write(name, canonical_json(value))

    @staticmethod
    def _temporary(path: str, data: bytes) -> Path:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return temporary
