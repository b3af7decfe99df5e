"""Files in one folder, local or remote, through fsspec: read, replace, create exclusively.

Every access to Evenkeel's own small files goes through here. Names are relative, and may not leave
the folder.
"""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import fsspec

from evenkeel.registry.files.whole_files import whole_files
from evenkeel.registry.store_errors import cannot_open, store_errors
from partitioning.errors import DamagedError, InputError

#: Errors of a store for a file that is not there.
_MISSING = (FileNotFoundError, NotADirectoryError)
#: Fields by which the listings of stores tell a file from a new file of its name.
_STAMPED = (
    *("size", "mtime", "ino", "ETag", "etag", "LastModified", "last_modified", "created"),
    *("modificationTime", "fileId"),
)

#: Advice for a file of the registry that is torn or was edited.
RESTORE = "Restore the file from a backup; a new run makes its files again"


def parsed_json(data: bytes, where: str) -> Any:
    """Parse the bytes of the JSON file `where`.

    Raises
    ------
    DamagedError : it is not JSON
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"not JSON ({error})", where, RESTORE) from error


class Store:
    """The files under `url` (a path or any fsspec URL).

    Every method raises StoreError if the store cannot be reached, or refuses.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, OSError, ValueError) as error:
            raise cannot_open(url, error) from error
        self._files = whole_files(self._fs)

    def path(self, name: str) -> str:
        """Return the full path of a name in this folder. Refuse names that would leave it."""
        parts = PurePosixPath(name).parts
        if (
            not parts
            or ".." in parts
            or PurePosixPath(name).is_absolute()
            or {"\\", "\0"} & set(name)
        ):
            raise InputError(
                f"{name!r} is not a name inside the folder",
                self.url,
                "Give a name without .., backslash or leading slash",
            )
        return f"{self._root.rstrip('/')}/{name}"

    def exists(self, name: str) -> bool:
        """Return whether the file is there, without a cache.

        Raises
        ------
        StoreError : the store does not answer. Then this never returns False
        """
        path = self.path(name)
        try:
            # fsspec's `exists` returns False for local files whatever went wrong.
            with store_errors("looked at", path, *_MISSING):
                self._fs.invalidate_cache()
                self._fs.info(path)
        except _MISSING:
            return False
        return True

    def names(self, folder: str) -> list[str]:
        """List the names directly in a folder, sorted; empty if there is no folder."""
        names = (PurePosixPath(p).name for p in self._listed(folder, detail=False))
        return sorted(n for n in names if not n.startswith("."))

    def stamps(self, folder: str) -> dict[str, str]:
        """List the files directly in a folder with a stamp of each, which changes with the file.

        One listing tells which of many files need not be read again.
        """
        found = self._listed(folder, detail=True)
        return {
            PurePosixPath(each["name"]).name: repr([each.get(key) for key in _STAMPED])
            for each in found
        }

    def _listed(self, folder: str, *, detail: bool) -> list[Any]:
        path = self.path(folder)
        try:
            with store_errors("listed", path, *_MISSING):
                self._fs.invalidate_cache()
                return list(self._fs.ls(path, detail=detail))
        except _MISSING:
            return []

    def read(self, name: str) -> bytes:
        """Read the whole file. Raise FileNotFoundError if there is none."""
        path = self.path(name)
        with store_errors("read", path, FileNotFoundError):
            self._fs.invalidate_cache()
            return bytes(self._fs.cat_file(path))

    def write(self, name: str, data: bytes) -> str:
        """Replace the whole file. A reader sees the old one or the new one. Return its path."""
        path = self.path(name)
        with store_errors("written", path):
            self._files.replace(path, data)
        return path

    def create(self, name: str, data: bytes) -> None:
        """Create the file with all its content. One of several callers wins.

        So the creation of the next epoch is a compare-and-swap.

        Raises
        ------
        FileExistsError : it is there
        """
        path = self.path(name)
        with store_errors("written", path, FileExistsError):
            self._files.create(path, data)

    def check_exclusive(self) -> None:
        """Check that this store can create a file exclusively, on which epochs depend.

        Raises
        ------
        InputError : it cannot
        """
        # `sweep` removes files of this name, if this is killed.
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
        except (NotImplementedError, ValueError) as error:
            # The store is not down: its client lacks the operation.
            what = f"a file cannot be created once only ({error})"
        raise InputError(
            what,
            self.url,
            "Put the registry where a create can be exclusive: a local disk, S3, GCS, Azure, or "
            "HDFS by webhdfs://",
        )

    def remove(self, name: str) -> None:
        """Remove the file, if it is there."""
        path = self.path(name)
        if self.exists(name):
            with suppress(FileNotFoundError), store_errors("removed", path, FileNotFoundError):
                self._fs.rm_file(path)

    def unchanged(self, folder: str, since: datetime) -> list[str]:
        """List what stands directly in a folder and has no file written since then, sorted.

        Returns
        -------
        names of files, and of folders with files in them; empty where there is no folder
        """
        path = self.path(folder)
        try:
            with store_errors("listed", path, *_MISSING):
                self._fs.invalidate_cache()
                young, found = set[str](), set[str]()
                for file in self._fs.find(path):
                    name = PurePosixPath(file).relative_to(path).parts[0]
                    found.add(name)
                    if (
                        name not in young
                        and self._fs.modified(file).timestamp() >= since.timestamp()
                    ):
                        young.add(name)
        except _MISSING:
            return []
        return sorted(n for n in found - young if not n.startswith("."))

    def remove_folder(self, name: str) -> None:
        """Remove a folder with all its files, if it is there."""
        path = self.path(name)
        with suppress(*_MISSING), store_errors("removed", path, *_MISSING):
            self._fs.invalidate_cache()
            self._fs.rm(path, recursive=True)

    def sweep(self, hours: float) -> int:
        """Remove files that killed processes have left more than so many hours ago.

        See `whole_files` for what each kind of store may be left with.

        Returns
        -------
        Number of files removed.
        """
        before = time.time() - hours * 3600
        with store_errors("swept", self._root):
            torn = [p for p, when in self._files.unfinished(self._root) if when < before]
            for path in torn:
                with suppress(FileNotFoundError):
                    self._fs.rm_file(path)
        return len(torn)
