"""Folders of the registry: what the steps of a run leave, and what an epoch keeps of it."""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from typing import Any

from evenkeel.registry.store import RESTORE, Store, parsed_json, shaped
from partitioning.errors import DamagedError, InputError
from partitioning.function.function import canonical_json

#: What a look leaves in a run that is to carry out its decision.
WATCHED = "watched.json"

#: What tells a kept file that is torn or was edited: the sha256 of each.
MANIFEST = "kept.json"


class Folder:
    """Files of one purpose in one folder of a store."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder

    def exists(self, file: str) -> bool:
        """Whether this file is there."""
        return self._store.exists(f"{self._folder}/{file}")

    def read(self, file: str) -> bytes:
        """The file's bytes; InputError where it is missing."""
        try:
            return self._store.read(f"{self._folder}/{file}")
        except FileNotFoundError:
            raise InputError(
                f"{file} is missing", self.url, "Run the steps before this one first"
            ) from None

    def read_json(self, file: str) -> Any:
        """The file's JSON; errors as for `read`, and DamagedError."""
        return parsed_json(self.read(file), self.path(file))

    def path(self, file: str) -> str:
        """Where the file stands, or would."""
        return self._store.path(f"{self._folder}/{file}")

    @property
    def url(self) -> str:
        """Where the folder stands."""
        return f"{self._store.url.rstrip('/')}/{self._folder}"


class RunFolder(Folder):
    """The folder of one run: what its steps leave for each other and for people."""

    def __init__(self, store: Store, name: str) -> None:
        self.name = safe_name(name)
        super().__init__(store, f"runs/{self.name}")

    def write(self, file: str, data: bytes) -> str:
        """Leave a file, replacing what an earlier attempt left; returns its path."""
        return self._store.write(f"{self._folder}/{file}", data)

    def write_json(self, file: str, value: Any) -> str:
        """Leave `value` as canonical JSON."""
        return self.write(file, canonical_json(value))

    def create_json(self, file: str, value: Any) -> None:
        """Leave `value` as canonical JSON, or raise FileExistsError: of any number of callers, one
        wins."""
        self._store.create(f"{self._folder}/{file}", canonical_json(value))

    def remove(self, file: str) -> None:
        """Take away what an earlier attempt left; nothing where there is nothing."""
        self._store.remove(f"{self._folder}/{file}")


class EpochArchive(Folder):
    """What an epoch keeps of the run that led to it, beside its epoch.json.

    A manifest holds the digest of every file that does not change any more. An epoch whose keeping
    was killed half-way has none yet: its files are then read as they are.
    """

    def __init__(self, store: Store, number: int) -> None:
        super().__init__(store, f"epochs/{number:08d}")

    def keep(self, files: dict[str, bytes], changing: dict[str, bytes]) -> None:
        """Keep these files, and the digests of the first."""
        for name, data in {**files, **changing}.items():
            self._store.write(f"{self._folder}/{name}", data)
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        self._store.write_json(f"{self._folder}/{MANIFEST}", {"sha256": digests})

    def read(self, file: str) -> bytes:
        """The file's bytes.

        Raises
        ------
        InputError : it is missing
        DamagedError : it is not what was kept
        """
        data = super().read(file)
        known = self._digests.get(file)
        if known is not None and hashlib.sha256(data).hexdigest() != known:
            raise DamagedError(
                "torn or edited: not the file that was kept", self.path(file), RESTORE
            )
        return data

    @cached_property
    def _digests(self) -> dict[str, str]:
        if not self.exists(MANIFEST):
            return {}
        found = parsed_json(super().read(MANIFEST), self.path(MANIFEST))
        digests: dict[str, str] = shaped(found, self.path(MANIFEST), sha256=dict)["sha256"]
        return digests


def safe_name(name: str) -> str:
    """A run's name as a folder name: anything but letters, digits, dot, dash and underscore
    becomes a dash (Airflow's run ids hold colons and plus signs)."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".-")
    if not cleaned:
        raise InputError(f"{name!r} cannot name a run")
    return cleaned[:200]
