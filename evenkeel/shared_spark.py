"""The folder by which jobs find a Spark that stays up, and wait for their turn in it.

`evenkeel spark FOLDER` keeps one Spark for many jobs, so that not each of them starts a JVM. Jobs
run in it one after the other, because they share a cache. A job must not read rows that another one
has cached from an older version of its table. A job that is killed may leave a statement under way,
so its JVM is not used again.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from evenkeel.private_file import write_private
from partitioning.errors import InputError, SetupError, UnreachableError

#: Folder of a Spark that stays up (`evenkeel spark FOLDER`). Jobs then run in it, and start none of
#: their own.
VARIABLE = "EVENKEEL_SPARK"
_ADDRESS, _SERVER, _TURN = "address.json", "server.lock", "turn.lock"
#: Seconds between two looks at a lock or a file; those that Spark may take to start, and to end.
LOOK_SECONDS, _START_SECONDS, _END_SECONDS = 0.1, 300.0, 40.0
#: Jobs after which the JVM is replaced. Py4j keeps the objects of jobs that have ended.
JOBS_PER_JVM = 100
#: Line that a job writes when it ends by itself, with or without an error.
_TURN_ENDED = "ended\n"
#: End of the line that a job writes when it begins.
_JOB_END = ")\n"


def shared_versions(pyspark: str, evenkeel: str) -> str:
    """Return the versions that a job and the Spark that it runs in must share."""
    return f"PySpark {pyspark}, Evenkeel {evenkeel}"


@dataclass(frozen=True)
class Address:
    """How to reach a Spark that stays up.

    Parameters
    ----------
    server : id of the process that keeps it
    port : of its JVM's gateway, on the loopback interface
    secret : that the gateway asks for
    versions : of PySpark and Evenkeel, which must be those of the job
    """

    server: int
    port: int
    secret: str
    versions: str


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
        InputError : another process keeps a Spark here, other users may enter the folder, or it is
            a file or cannot be made
        SetupError : the folder is another user's
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise InputError(
                f"expected a folder, or one that can be made ({error.strerror})",
                str(self.folder),
                "Give a folder that is not there yet, in a place where you may write",
            ) from error
        self.check_user()
        if self.folder.stat().st_mode & 0o077:
            raise InputError(
                "other users may enter this folder, and use this Spark",
                str(self.folder),
                f"chmod 700 {self.folder}; or give a folder that is not there yet",
            )
        until = time.monotonic() + _END_SECONDS
        while True:
            # One that ends keeps the folder for as long as its JVM does, and a job that looks
            # whether somebody keeps it does so for a moment.
            with suppress(BlockingIOError):
                file = _locked(self.folder / _SERVER, fcntl.LOCK_EX)
                # A program that was killed left it. Its process id may be another's by now.
                self.withdraw()
                return file
            if self.address() is not None or time.monotonic() > until:
                break
            time.sleep(LOOK_SECONDS)
        raise InputError(
            "a Spark stays up here already", str(self.folder), "Use it, or give another folder"
        )

    def check_user(self) -> None:
        """Refuse a folder of another user, who alone may enter it; nothing is said if it is gone.

        Raises
        ------
        SetupError : names both users
        """
        with suppress(FileNotFoundError, PermissionError):
            if (owner := self.folder.stat().st_uid) != (user := os.getuid()):
                raise SetupError(
                    f"expected a folder of user {_name(user)}, found one of {_name(owner)}",
                    str(self.folder),
                    f"Run jobs and `evenkeel spark` as one user, or unset {VARIABLE}",
                )

    def begin(self, address: Address) -> None:
        """Tell jobs of a Spark in which none has run yet. The caller has the turn."""
        (self.folder / _TURN).write_text("")
        self.tell(address)

    def tell(self, address: Address) -> None:
        """Tell jobs where Spark is."""
        write_private(self.folder / _ADDRESS, json.dumps(asdict(address)))

    def keep(self) -> None:
        """Keep these files from a program that removes old ones."""
        for name in (_SERVER, _TURN, _ADDRESS):
            (self.folder / name).touch()

    def withdraw(self) -> None:
        """Have jobs find no Spark here."""
        (self.folder / _ADDRESS).unlink(missing_ok=True)

    def address(self) -> Address | None:
        """Return where Spark is; None: it has not started, or the process that kept it is gone."""
        # A host that crashed may leave an empty file, and another release has other fields.
        with suppress(
            FileNotFoundError, PermissionError, ProcessLookupError, ValueError, TypeError
        ):
            file = self.folder / _ADDRESS
            if file.stat().st_uid != os.getuid():
                return None
            found = Address(**json.loads(file.read_text()))
            os.kill(found.server, 0)
            return found
        return None

    def find(self) -> Address:
        """Return where Spark is; wait for it while it starts.

        Raises
        ------
        UnreachableError : none stays up here
        SetupError : the folder is another user's
        """
        self.check_user()
        until = time.monotonic() + _START_SECONDS
        while (found := self.address()) is None:
            # The program that starts Spark has this lock before there is an address.
            with suppress(BlockingIOError):
                if os.access(self.folder, os.W_OK | os.X_OK):
                    _locked(self.folder / _SERVER, fcntl.LOCK_SH).close()
                raise self.gone()
            if time.monotonic() > until:
                raise self.gone()
            time.sleep(LOOK_SECONDS)
        return found

    def gone(self) -> UnreachableError:
        """Return the error of a job that finds no Spark, or loses it."""
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
        return _locked(self.folder / _TURN, fcntl.LOCK_EX)

    def turn(self, job: str, waits: Callable[[str], object]) -> IO[str]:
        """Wait for the turn in a JVM that is fit to use, and take it until the file is closed.

        Parameters
        ----------
        job : name of the job, for those that wait
        waits : called once with the job that has the turn, if one has it
        """
        told = False
        while True:
            try:
                file = self.free()
            except BlockingIOError:
                other = "".join(self._lines()[-1:])
                if not told and other.endswith(_JOB_END):
                    waits(other.strip())
                    told = True
            else:
                if self.address() is not None and not self.worn():
                    file.write(f"{job} (process {os.getpid()}{_JOB_END}")
                    file.flush()
                    return file
                # Its program replaces the JVM, or tells of it, as soon as it gets the turn.
                file.close()
                self.find()
            time.sleep(LOOK_SECONDS)

    def wear(self) -> None:
        """Have no job use the JVM again; the caller has the turn."""
        with (self.folder / _TURN).open("a") as file:
            file.write("the JVM has ended\n")

    def worn(self) -> bool:
        """Return whether the JVM is not to be used again; the caller has the turn."""
        lines = self._lines()
        return bool(lines) and (
            lines[-1] != _TURN_ENDED or lines.count(_TURN_ENDED) >= JOBS_PER_JVM
        )

    def _lines(self) -> list[str]:
        return (self.folder / _TURN).read_text().splitlines(keepends=True)


def end_turn(file: IO[str]) -> None:
    """Give the turn back at the end of a job that was not killed."""
    file.write(_TURN_ENDED)
    file.close()


def _name(user: int) -> str:
    """Return the name of a user by its id, or the id if it has none."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _locked(path: Path, kind: int) -> IO[str]:
    """Open a file and lock it.

    Raises
    ------
    BlockingIOError : another process has locked it
    """
    file = path.open("a")
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise
    return file
