"""A folder of the registry: the bytes of its files."""

from __future__ import annotations

from evenkeel.registry.store import Store
from partitioning.errors import InputError


class Folder:
    """Files of one purpose in one folder of a store; an empty name is the store's own folder."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder

    def exists(self, file: str) -> bool:
        """Return whether this file is there."""
        return self._store.exists(self._name(file))

    def stamps(self) -> dict[str, str]:
        """List the files that are there with a stamp of each, which changes with the file."""
        return self._store.stamps(self._folder)

    def find(self, file: str) -> bytes | None:
        """Return the file's bytes; None: it is missing."""
        try:
            return self._store.read(self._name(file))
        except FileNotFoundError:
            return None

    def read(self, file: str) -> bytes:
        """Return the file's bytes.

        Raises
        ------
        InputError : it is missing
        """
        data = self.find(file)
        if data is None:
            raise InputError(f"{file} is missing", self.url, "Run the steps before this one first")
        return data

    def write(self, file: str, data: bytes) -> str:
        """Write a file, replacing that of an earlier attempt. Return its path."""
        return self._store.write(self._name(file), data)

    def create(self, file: str, data: bytes) -> None:
        """Create a file, or raise FileExistsError. If several call at once, one wins."""
        self._store.create(self._name(file), data)

    def remove(self, file: str) -> None:
        """Remove the file of an earlier attempt, if there is one."""
        self._store.remove(self._name(file))

    def path(self, file: str) -> str:
        """Return the full path of the file, even if it is missing."""
        return self._store.path(self._name(file))

    @property
    def url(self) -> str:
        """Full path of the folder."""
        return f"{self._store.url.rstrip('/')}/{self._folder}".rstrip("/")

    def _name(self, file: str) -> str:
        return f"{self._folder}/{file}" if self._folder else file
