"""Errors of an Iceberg catalog that does not answer, or has not said whether a commit came in.

And of one that refuses commits, because this machine's clock is behind the table's newest commit.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from evenkeel_spark.tables.spark_errors import SPARK_ERRORS
from partitioning.errors import SetupError, UnreachableError

#: Iceberg's exceptions for a catalog's server (rest), database (jdbc) or files (hadoop) that fail.
_FAILS = re.compile(
    r"org\.apache\.iceberg\.(?:exceptions\.(?:RESTException|ServiceFailureException"
    r"|ServiceUnavailableException|RuntimeIOException|(?P<unknown>CommitStateUnknownException))"
    r"|jdbc\.UncheckedSQLException)\b:? ?(?P<said>.*)"
)
_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)*(\S.*)", re.MULTILINE)
#: The same exceptions, if a server or database has answered: it says no, and will say it again.
_SAYS_NO = re.compile(
    r"Unable to process \(code: (?!408|429)4\d\d|No suitable driver|authentication failed"
    r"|(?i:permission denied|access denied)"
)
#: Exceptions of what was tried beside, which decide nothing.
_SUPPRESSED = re.compile(r"^\s+Suppressed: .*(?:\n\s{2,}.*)*", re.MULTILINE)
#: Settings of a database's address, a password among them.
_SETTINGS = re.compile(r"(jdbc:[^\s?;]*)[?;]\S*")


#: Iceberg's refusal, with the moments of the commit and of the newest one (ms since 1970).
_BEHIND = re.compile(r"Invalid update timestamp (\d+): before [\w ]+? (?:at )?(\d+)")


def too_early(error: BaseException) -> SetupError | None:
    """Return an error of Spark as one of ours, if a commit comes before the newest; None: another.

    Iceberg bears a difference of one minute, and names no table.
    """
    if not isinstance(error, SPARK_ERRORS) or (found := _BEHIND.search(str(error))) is None:
        return None
    now, last = (int(at) / 1000 for at in found.groups())
    return SetupError(
        f"its newest commit is {last - now:,.0f} seconds ahead of this machine's clock, and "
        "Iceberg refuses all commits until then",
        fix="Set the clocks right. If that of the last writer was ahead, run this again at "
        f"{datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M} UTC",
    )


def unanswered(error: BaseException, where: str | None = None) -> UnreachableError | None:
    """Return an error of Spark as one of ours, if a catalog did not answer; None: another error.

    Parameters
    ----------
    where : name of the table
    """
    if not isinstance(error, SPARK_ERRORS):
        return None
    text = _SUPPRESSED.sub("", str(error))
    if (found := _FAILS.search(text)) is None or _SAYS_NO.search(text):
        return None
    # The innermost exception names the address, or what the database says.
    causes = _CAUSE.findall(text)
    said = _SETTINGS.sub(r"\1", causes[-1] if causes else found["said"]).strip()[:200]
    if found["unknown"]:
        return UnreachableError(
            f"its catalog has not said whether a commit came in ({said})",
            where,
            "Run this again: it looks at the table first, and does nothing twice",
        )
    return UnreachableError(
        f"its catalog does not answer ({said})",
        where,
        "See whether the catalog runs, and whether Spark's settings of it are right; then run this "
        "again",
    )
