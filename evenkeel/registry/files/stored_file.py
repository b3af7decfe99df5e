"""One file of a folder, read and written as a value of one type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from evenkeel.registry.files.folder import Folder
from evenkeel.registry.store import RESTORE
from partitioning.errors import DamagedError
from partitioning.function.canonical import canonical_json

T = TypeVar("T")
#: Plain words for names of Python in pydantic's messages.
_WANTED = dict.fromkeys(("model_type", "dataclass_type"), "an object") | {"too_short": "an entry"}


class FileModel(BaseModel):
    """Base of what a JSON file holds.

    Types are strict: true is no number, and "1" is none either. Unknown fields are ignored, because
    a later release may have written the file.
    """

    #: Advice for a damaged file.
    advice: ClassVar[str] = RESTORE

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", populate_by_name=True, serialize_by_alias=True
    )


class StoredFile(Generic[T]):
    """One file of a folder.

    Parameters
    ----------
    kind : type of what it holds. One that has `from_bytes` and `to_bytes` converts itself. Any
        other is JSON, which pydantic checks: a FileModel, a dataclass, a list
    form : model of the fields of a kind that converts itself from JSON; it is checked first
    """

    def __init__(
        self, folder: Folder, name: str, kind: type[T], form: type[FileModel] | None = None
    ) -> None:
        self._folder, self.name, self._kind, self._form = folder, name, kind, form

    @property
    def path(self) -> str:
        """Full path of the file, even if it is missing."""
        return self._folder.path(self.name)

    def exists(self) -> bool:
        """Return whether the file is there."""
        return self._folder.exists(self.name)

    def read(self) -> T:
        """Return what the file holds.

        Raises
        ------
        InputError : it is missing
        DamagedError : it holds something else
        """
        return self._parsed(self._folder.read(self.name))

    def find(self) -> T | None:
        """Return what the file holds; None: it is missing. DamagedError as for `read`."""
        data = self._folder.find(self.name)
        return None if data is None else self._parsed(data)

    def write(self, value: T) -> str:
        """Replace the file, and return its path."""
        return self._folder.write(self.name, dump(self._kind, value))

    def create(self, value: T) -> bool:
        """Create the file; False: it is there. If several call at once, one wins."""
        try:
            self._folder.create(self.name, dump(self._kind, value))
        except FileExistsError:
            return False
        return True

    def remove(self) -> None:
        """Remove what an earlier attempt left, if there is any."""
        self._folder.remove(self.name)

    def _parsed(self, data: bytes) -> T:
        if self._form is not None:
            parse(self._form, data, self.path)
        return parse(self._kind, data, self.path)


class FileOf(Generic[T]):
    """Declaration of a file in a class of folders, by its name and the type of its content.

    Parameters
    ----------
    kind, form : as in `StoredFile`
    """

    def __init__(self, name: str, kind: type[T], form: type[FileModel] | None = None) -> None:
        self.name, self._kind, self._form = name, kind, form

    def __get__(self, folder: Folder, owner: type[Folder]) -> StoredFile[T]:
        return StoredFile(folder, self.name, self._kind, self._form)


def parse(kind: type[T], data: bytes, where: str) -> T:
    """Return what the bytes of the file `where` hold; DamagedError if it is something else."""
    convert: Callable[[bytes, str], T] | None = getattr(kind, "from_bytes", None)
    return parse_model(kind, data, where) if convert is None else convert(data, where)


def parse_model(kind: type[T], data: bytes, where: str) -> T:
    """Return what the JSON of the file `where` holds, as pydantic reads it, or DamagedError."""
    try:
        return _adapter(kind).validate_json(data, strict=True)
    except ValidationError as error:
        raise DamagedError(_problem(error), where, getattr(kind, "advice", RESTORE)) from error


def dump(kind: type[T], value: T) -> bytes:
    """Return the bytes of the file. Equal values give equal bytes."""
    if hasattr(value, "to_bytes"):
        return bytes(value.to_bytes())
    return canonical_json(
        _adapter(kind).dump_python(value, mode="json", by_alias=True, exclude_unset=True)
    )


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(kind)


def _problem(error: ValidationError) -> str:
    """Return the first problem in words."""
    first: Any = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"not JSON ({first['ctx']['error']})"
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"{place} is missing"
    wanted = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    wanted = _WANTED.get(first["type"], wanted)
    return f"{place}: expected {wanted}, found {first['input']!r:.40}".removeprefix(": ")
