"""Errors of a store: it is unreachable, or it refuses. Every other error is a fault of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

from fsspec.registry import known_implementations
from fsspec.utils import get_protocol

from evenkeel.extras import install_command
from partitioning.errors import DOCTOR, EvenkeelError, SetupError, UnreachableError

#: Base classes of what clients of remote stores raise, beside OSError. They are named, because a
#: client is imported only where it is used.
_CLIENT_ERRORS = {
    "aiohttp.client_exceptions.ClientError",
    "azure.core.exceptions.AzureError",
    "botocore.exceptions.BotoCoreError",
    "botocore.exceptions.ClientError",
    "fsspec.exceptions.FSTimeoutError",
    "gcsfs.retry.HttpError",
    "google.auth.exceptions.GoogleAuthError",
    "http.client.HTTPException",
    "paramiko.ssh_exception.SSHException",
    "urllib3.exceptions.HTTPError",
}


class StoreError(UnreachableError):
    """A store cannot be reached, is full, or refuses. The state of its files is unknown."""


class DeniedError(StoreError):
    """A store refuses, because this account lacks a right. To try again is of no use.

    Parameters
    ----------
    cannot : what then could not be done
    why : what the store says
    where : to which file or folder
    """

    #: EX_NOPERM of sysexits.h.
    exit_code = 77
    retry = False

    def __init__(self, cannot: str, why: str, where: str) -> None:
        super().__init__(
            f"may not be {cannot} ({why})",
            where,
            f"Give the account that runs this the rights to read, write and delete there; {DOCTOR}",
        )


def cannot_open(url: str, why: Exception) -> SetupError:
    """Return the error for a place that fsspec cannot open, with what to install or to give.

    Parameters
    ----------
    url : of the place
    why : what fsspec raised: ImportError if a package is missing
    """
    protocol = get_protocol(url)
    needs = known_implementations.get(protocol, {}).get("err", "").replace("Please i", "I")
    if protocol in ("s3", "s3a"):
        needs = f"Run: {install_command('s3')}"
    if protocol == "hdfs":
        needs = "Give webhdfs://HOST:PORT/PATH, with the HTTP address of HDFS's name node"
    if isinstance(why, ImportError) and needs:
        return SetupError(f"{protocol}:// needs a package that is not installed", url, needs)
    if isinstance(why, ValueError):
        needs = "Give a path, or a URL that fsspec knows, such as s3://, gs:// or abfs://"
    # The client of hdfs:// names in a line each every place where it looked for Java's libraries.
    (first, *_) = str(why).splitlines() or [type(why).__name__]
    return SetupError(f"cannot be reached ({first})", url, needs)


def _is_store_error(error: Exception) -> bool:
    """Return whether a client of a store raised this about the store."""
    if type(error) is RuntimeError:
        # fsspec raises no other for what HDFS refuses.
        *_, (frame, _) = walk_tb(error.__traceback__)
        return frame.f_globals.get("__name__") == "fsspec.implementations.webhdfs"
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return isinstance(error, OSError) or not _CLIENT_ERRORS.isdisjoint(names)


@contextmanager
def store_errors(cannot: str, where: str, *asked: type[OSError]) -> Iterator[None]:
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
        if not _is_store_error(error):
            # A fault of ours. Nobody should try it again, and take the store for down.
            raise
        why = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, PermissionError):
            raise DeniedError(cannot, why, where) from error
        raise StoreError(
            f"cannot be {cannot} ({why})", where, "Look at the store, then run this again"
        ) from error
