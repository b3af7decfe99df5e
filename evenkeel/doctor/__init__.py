"""Look at an installation and say what works, what does not, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a thing is. Only `wrong` makes the command fail."""

    ok = "ok"
    #: An optional part that is not installed.
    absent = "absent"
    #: It may work, and was not tested or cannot be seen from here.
    warning = "warning"
    wrong = "wrong"


@dataclass(frozen=True)
class Finding:
    """Hold what was looked at, how it is, what was found, and what to do about it."""

    what: str
    status: Status
    found: str
    fix: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return JSON values."""
        return {**asdict(self), "status": str(self.status)}


def of_series(what: str, said: str, found: str, tested: Sequence[str], fix: str) -> Finding:
    """Judge a version by the series that were tested: it is ok, or a warning.

    Parameters
    ----------
    said : the version as the table shows it
    found : the version
    tested : series, such as 4.1
    """
    if any(re.match(re.escape(series) + r"\b", found) for series in tested):
        return Finding(what, Status.ok, said)
    return Finding(what, Status.warning, f"{said}, tested: {', '.join(tested)}", fix)
