"""Every error that Evenkeel raises on purpose: what was wrong, where, and what to do.

Anything else that reaches a user is a bug. The console and the jobs print these as one
line and exit with `exit_code`.
"""

from __future__ import annotations

#: Last words of every error about the set-up.
DOCTOR = "`evenkeel doctor` looks at the whole set-up"
#: Advice of an error that no user can cause: a rule of our own code is broken.
FAULT = "This is a fault of Evenkeel: report it with this message and what `evenkeel doctor` prints"
#: Advice for an option of a strategy that is out of the range which the message gives.
IN_RANGE = "Give one in this range, or leave it out for its default"


class EvenkeelError(Exception):
    """Base of all our errors.

    Parameters
    ----------
    what : what is wrong, as a sentence without its full stop
    where : the file, field, table, column or run it was found in
    fix : what the reader can do about it
    """

    exit_code = 2
    #: Trying again may help, with nothing changed.
    retry = False

    def __init__(self, what: str, where: str | None = None, fix: str | None = None) -> None:
        self.what, self.where, self.fix = what, where, fix
        place = f"{where}: " if where else ""
        remedy = f". {fix}" if fix else ""
        super().__init__(f"{place}{what}{remedy}")


def without_advice(error: Exception) -> str:
    """Return what an error says without its advice: the error around it has its own."""
    if not isinstance(error, EvenkeelError):
        return str(error)
    return ": ".join(filter(None, (error.where, error.what)))


class InputError(EvenkeelError):
    """The user's spec, data, parameter or file cannot be used as it is."""


class SetupError(InputError):
    """The installation or a setting cannot work; the message ends with how to look at it all."""

    def __init__(self, what: str, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what, where, "; ".join(filter(None, (fix, DOCTOR))))


class MissingExtraError(SetupError, ImportError):
    """An optional part is not installed. Airflow shows it as any other import error."""


class DamagedError(EvenkeelError):
    """A stored file is torn, edited or of another format: its digest does not fit."""


class FenceError(EvenkeelError):
    """The state is not as it was when this was planned; nothing was changed."""


class UnderWayError(FenceError):
    """State moves to another epoch, or may do so: trying again may help."""

    retry = True


class GateError(EvenkeelError):
    """A data-quality gate did not pass."""

    exit_code = 1


class UnreachableError(EvenkeelError):
    """A service that the work needs cannot be reached now: trying again may help."""

    #: EX_TEMPFAIL of sysexits.h.
    exit_code = 75
    retry = True
