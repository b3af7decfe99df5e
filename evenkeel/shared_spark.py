"""The folder by which jobs find a Spark that stays up, and wait for their turn in it.

`evenkeel spark FOLDER` keeps one Spark for many jobs, so that not each of them starts a JVM. Jobs
run in it one after the other, because they share a cache. A job must not read rows that another one
has cached from an older version of its table.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from evenkeel.private_file import write_private
from partitioning.errors import InputError, UnreachableError

#: Folder of a Spark that stays up (`evenkeel spark FOLDER`). Jobs then run in it, and start none of
#: their own.
VARIABLE = "EVENKEEL_SPARK"
_ADDRESS, _SERVER, _TURN = "address.json", "server.lock", "turn.lock"
#: Seconds between two looks at a lock or a file.
LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Address:
    """How to reach a Spark that stays up.

    Parameters
    ----------
    port : of its JVM's gateway, on the loopback interface
    secret : that the gateway asks for
    version : of PySpark, which must be that of the job
    """

    port: int
    secret: str
    version: str


@dataclass(frozen=True)
class SharedSpark:
    """A folder in which a Spark stays up, or is to."""

    folder: Path

    @classmethod
    def of_environment(cls) -> SharedSpark | None:
        """Return the one that the environment names; None: a job starts a Spark of its own."""
        folder = os.environ.get(VARIABLE)
        return cls(Path(folder)) if folder else None

    def claim(self) -> IO[str]:
        """Make the folder one's own, for as long as the file is open.

        Raises
        ------
        InputError : another process keeps a Spark here
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            return _locked(self.folder / _SERVER)
        except BlockingIOError:
            raise InputError(
                "a Spark stays up here already", str(self.folder), "Use it, or give another folder"
            ) from None

    def tell(self, address: Address) -> None:
        """Tell jobs where Spark is; none has run in it yet."""
        (self.folder / _TURN).write_text("")
        write_private(self.folder / _ADDRESS, json.dumps(asdict(address)))

    def withdraw(self) -> None:
        """Have jobs find no Spark here."""
        (self.folder / _ADDRESS).unlink(missing_ok=True)

    def is_up(self) -> bool:
        """Return whether jobs are told where Spark is."""
        return (self.folder / _ADDRESS).exists()

    def find(self) -> Address:
        """Return where Spark is; wait for it while it starts.

        Raises
        ------
        UnreachableError : none stays up here
        """
        while True:
            with suppress(FileNotFoundError):
                return Address(**json.loads((self.folder / _ADDRESS).read_text()))
            # Its program has this lock before there is an address.
            with suppress(BlockingIOError, FileNotFoundError), _locked(self.folder / _SERVER):
                raise self.gone()
            if not self.folder.is_dir():
                raise self.gone()
            time.sleep(LOOK_SECONDS)

    def gone(self) -> UnreachableError:
        """Return the error of a job that finds no Spark."""
        return UnreachableError(
            "expected a Spark that stays up, found none",
            f"{VARIABLE}={self.folder}",
            f"Start it with `evenkeel spark {self.folder}`; or unset {VARIABLE}, and each job "
            "starts a Spark of its own",
        )

    def free(self) -> IO[str]:
        """Take the turn, until the file is closed.

        Raises
        ------
        BlockingIOError : a job has it
        """
        return _locked(self.folder / _TURN)

    def turn(self, waits: Callable[[], object]) -> IO[str]:
        """Wait for the turn, and take it; a job that ends in any way gives it back.

        Parameters
        ----------
        waits : called once, if another job has it
        """
        try:
            file = self.free()
        except BlockingIOError:
            waits()
            file = (self.folder / _TURN).open("a")
            fcntl.flock(file, fcntl.LOCK_EX)
        # A byte a job.
        file.write(".")
        file.flush()
        return file

    def jobs(self) -> int:
        """Return how many jobs have had the turn since Spark started."""
        return (self.folder / _TURN).stat().st_size


def _locked(path: Path) -> IO[str]:
    """Open a file and lock it.

    Raises
    ------
    BlockingIOError : another process has locked it
    """
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise
    return file
