"""How each kind of store puts a whole file in its place.

No reader sees a part of a file, nor does a kill leave one. One of several that create a file wins.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

#: Names of files that a killed process may leave: before they had their own name, and of the
#: probes of `Store.check_exclusive`.
UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}")

#: How long HDFS may take to accept a connection, and between two parts of its answer.
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0


class WholeFiles(Protocol):
    """Writes of whole files into a store."""

    def replace(self, path: str, data: bytes) -> None:
        """Write the file, over an older one."""

    def create(self, path: str, data: bytes) -> None:
        """Write the file, or raise FileExistsError if it is there."""

    def unfinished(self, root: str) -> Iterator[tuple[str, float]]:
        """Yield the path of each file that a killed process may have left below a folder.

        With it comes when it was written, in seconds since 1970.
        """


def whole_files(fs: Any) -> WholeFiles:
    """Return what a file system of fsspec can do."""
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    if "file" in protocols:
        return Linked()
    return Renamed(fs) if "webhdfs" in protocols else Conditional(fs)


def beside(path: str) -> str:
    """Return a new name for a file, until it is whole. Its length does not depend on the file's."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name[:100]}.{uuid.uuid4().hex}"


class Linked:
    """A local disk: a link is exclusive, and a rename replaces."""

    def replace(self, path: str, data: bytes) -> None:
        """Write a file of another name, and rename it."""
        self._temporary(path, data).replace(path)

    def create(self, path: str, data: bytes) -> None:
        """Write a file of another name, and link to it. Mode "xb" could leave a torn file."""
        temporary = self._temporary(path, data)
        try:
            Path(path).hardlink_to(temporary)
        finally:
            # A sweep removes what stays. Report only that the file could not be created.
            with suppress(OSError):
                temporary.unlink()

    def unfinished(self, root: str) -> Iterator[tuple[str, float]]:
        """Look through all folders."""
        for file in Path(root).rglob(".*"):
            with suppress(FileNotFoundError):
                if UNFINISHED.fullmatch(file.name) and file.is_file():
                    yield str(file), file.stat().st_mtime

    @staticmethod
    def _temporary(path: str, data: bytes) -> Path:
        temporary = Path(beside(path))
        try:
            temporary.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            # It is not the file that is there already.
            raise NotADirectoryError(*error.args) from error
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return temporary


class Renamed:
    """HDFS over HTTP: a rename is exclusive, or replaces if it is asked to.

    A file is there before its content is, and mode "xb" overwrites. fsspec's own `mv` tells neither
    whether it renamed, nor can it replace.
    """

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        # fsspec waits for an answer for ever.
        send = type(fs.session).request
        fs.session.request = partial(send, fs.session, timeout=(CONNECT_SECONDS, READ_SECONDS))

    def replace(self, path: str, data: bytes) -> None:
        """Write a file of another name, and rename it over the older one."""
        self._rename(path, data, renameoptions="OVERWRITE")

    def create(self, path: str, data: bytes) -> None:
        """Write a file of another name, and rename it unless the file is there."""
        said = self._rename(path, data)
        if said.json()["boolean"]:
            return
        if self._fs.exists(path):
            raise FileExistsError(path)
        raise OSError(f"HDFS does not rename a file to {path}, and does not say why")

    def unfinished(self, root: str) -> Iterator[tuple[str, float]]:
        """Look through all folders."""
        for path, info in self._fs.find(root, detail=True).items():
            if UNFINISHED.fullmatch(PurePosixPath(path).name):
                yield path, info["modificationTime"] / 1000

    def _rename(self, path: str, data: bytes, **options: str) -> Any:
        temporary = beside(path)
        self._fs.pipe_file(temporary, data)
        try:
            return self._fs._call(
                "RENAME", method="put", path=temporary, destination=path, **options
            )
        finally:
            # After a rename there is none, of which HDFS says nothing.
            with suppress(OSError, RuntimeError):
                self._fs.rm_file(temporary)


class Conditional:
    """An object store: a file shows when it is whole, and mode "xb" is a conditional write."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def replace(self, path: str, data: bytes) -> None:
        """Put the object."""
        self._fs.pipe_file(path, data)

    def create(self, path: str, data: bytes) -> None:
        """Put the object on the condition that there is none."""
        with self._fs.open(path, "xb") as file:
            file.write(data)

    def unfinished(self, root: str) -> Iterator[tuple[str, float]]:
        """Look at the folder itself, where probes are."""
        with suppress(FileNotFoundError, NotADirectoryError):
            self._fs.invalidate_cache()
            for path in self._fs.ls(root, detail=False):
                if UNFINISHED.fullmatch(PurePosixPath(path).name):
                    yield path, self._fs.modified(path).timestamp()
