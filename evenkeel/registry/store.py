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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec

from partitioning.errors import DamagedError, EvenkeelError, InputError, UnreachableError
from partitioning.function.function import canonical_json

#: As `Store._temporary` names files.
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}")

#: As `Store.check_exclusive` names its file.
_PROBE = re.compile(r"\.probe\.[0-9a-f]{32}")
#: What a store raises for a file that is not there.
_MISSING = (FileNotFoundError, NotADirectoryError)

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


class StoreError(UnreachableError):
    """A store is down, full, or lets us do less than we must: nothing is known of its files."""


class DeniedError(StoreError):
    """A store is there and refuses, for want of rights: trying again is no use.

    Parameters
    ----------
    cannot : what then could not be done
    why : what the store says
    where : to which file or folder
    """

    #: EX_NOPERM of sysexits.h.
    exit_code = 77

    def __init__(self, cannot: str, why: str, where: str) -> None:
        super().__init__(
            f"may not be {cannot} ({why})",
            where,
            "Give the account that runs this the rights to read, write and delete there",
        )


@contextmanager
def _reached(cannot: str, where: str, *asked: type[OSError]) -> Iterator[None]:
    """Turn what a store raises into a StoreError, but for the errors that are `asked` for.

    Parameters
    ----------
    cannot : what then could not be done
    where : to which file
    """
    try:
        yield
    except (*asked, EvenkeelError):
        raise
    except Exception as error:
        # Clients of remote stores have errors of their own, which are no OSError.
        why = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, PermissionError):
            raise DeniedError(cannot, why, where) from error
        raise StoreError(
            f"cannot be {cannot} ({why})", where, "Look at the store, then run this again"
        ) from error


class Store:
    """The files under `url` (a path or any fsspec URL).

    Every method raises StoreError where the store cannot be reached, or does not let it be done.
    """

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
        """Whether the file is there, asked afresh. A store that does not answer is no answer."""
        path = self.path(name)
        try:
            # Not fsspec's `exists`: on local files that is False whatever went wrong.
            with _reached("looked at", path, *_MISSING):
                self._fs.invalidate_cache()
                self._fs.info(path)
        except _MISSING:
            return False
        return True

    def names(self, folder: str) -> list[str]:
        """Names of what stands directly in a folder, sorted; empty where there is no folder."""
        path = self.path(folder)
        try:
            with _reached("listed", path, *_MISSING):
                self._fs.invalidate_cache()
                found = self._fs.ls(path, detail=False)
        except _MISSING:
            return []
        names = (PurePosixPath(p).name for p in found)
        return sorted(n for n in names if not n.startswith("."))

    def read(self, name: str) -> bytes:
        """Whole file; FileNotFoundError where there is none."""
        path = self.path(name)
        with _reached("read", path, FileNotFoundError):
            self._fs.invalidate_cache()
            return bytes(self._fs.cat_file(path))

    def write(self, name: str, data: bytes) -> str:
        """Replace the file as a whole; a reader sees the old one or the new one."""
        path = self.path(name)
        with _reached("written", path):
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
            with _reached("written", path):
                temporary = self._temporary(path, data)
            try:
                # A link is both exclusive and whole; "xb" alone could leave a torn file.
                with _reached("written", path, FileExistsError):
                    Path(path).hardlink_to(temporary)
            finally:
                # What stays is swept; that the file could not be made is the error to be told.
                with suppress(OSError):
                    temporary.unlink()
        else:
            with _reached("written", path, FileExistsError), self._fs.open(path, "xb") as file:
                file.write(data)

    def check_exclusive(self) -> None:
        """Try whether this store creates a file once only: on that epochs stand.

        Raises
        ------
        InputError : it does not
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
            what = "of two that create one file, both succeed: two runs could publish one epoch"
        except StoreError as error:
            # It is not down: its client cannot do that.
            if not isinstance(error.__cause__, NotImplementedError | ValueError):
                raise
            what = f"a file cannot be created once only ({error.__cause__})"
        raise InputError(
            what,
            self.url,
            "Put the registry where a create can be exclusive; see docs/OPERATIONS.md",
        )

    def remove(self, name: str) -> None:
        """Remove the file; nothing where there is none."""
        path = self.path(name)
        if self.exists(name):
            with suppress(FileNotFoundError), _reached("removed", path, FileNotFoundError):
                self._fs.rm_file(path)

    def sweep(self, hours: float) -> int:
        """Remove what was killed left more than so many hours ago; returns how many files. Local
        writes leave files beside their places, `check_exclusive` its probe in any store."""
        before = time.time() - hours * 3600
        with _reached("swept", self._root):
            torn = [p for p, when in self._unfinished() if when < before]
            for path in torn:
                with suppress(FileNotFoundError):
                    self._fs.rm_file(path)
        return len(torn)

    def _unfinished(self) -> Iterator[tuple[str, float]]:
        """Unfinished files, and when they were written, in seconds since 1970."""
        root = Path(self._root)
        if self._local:
            for file in root.rglob(".*"):
                with suppress(FileNotFoundError):
                    if _UNFINISHED.fullmatch(file.name) and file.is_file():
                        yield str(file), file.stat().st_mtime
            return
        with suppress(*_MISSING):
            self._fs.invalidate_cache()
            for path in self._fs.ls(self._root, detail=False):
                if _PROBE.fullmatch(PurePosixPath(path).name):
                    yield path, self._fs.modified(path).timestamp()

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
