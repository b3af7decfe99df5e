"""A page that the registry keeps."""

from __future__ import annotations

from typing import Self

from partitioning.errors import DamagedError


class Html(str):
    """A page."""

    __slots__ = ()

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Self:
        """Return the page of the file `where`.

        Raises
        ------
        DamagedError : its bytes are not UTF-8
        """
        try:
            return cls(data.decode())
        except UnicodeDecodeError as error:
            raise DamagedError(
                f"expected a page in UTF-8, found {error.reason} at byte {error.start}",
                where,
                "Restore the file from a backup. The task report of a run makes its report again",
            ) from error

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        return self.encode()
