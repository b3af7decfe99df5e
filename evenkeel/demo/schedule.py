"""Choose the number of rounds, and of days per round, that fit a replay's input."""

from __future__ import annotations

from datetime import date

from partitioning.errors import InputError

#: Default number of rounds of the first table, and default days per round.
ROUNDS, DAYS = 3, 28


def fit(
    span: tuple[date, date], days: int | None, rounds: int | None, most: int, where: str
) -> tuple[int, int]:
    """Return days per round and number of rounds, such that every round is whole.

    The state starts with as many days as one round has. If the input is too short, numbers that
    nobody asked for are lowered: days first.

    Parameters
    ----------
    span : first and last day of the input
    days, rounds : numbers asked for; None: as many as fit, up to `DAYS` and `most`
    where : path of the input

    Raises
    ------
    InputError : the input is too short for the numbers asked for
    """
    there = (span[1] - span[0]).days + 1
    wanted = rounds or (most if days is None else max(1, min(most, there // days - 1)))
    if rounds is None and days is None:
        # A round has at least one day.
        wanted = max(1, min(wanted, there - 1))
    chosen = days or max(1, min(DAYS, there // (wanted + 1)))
    if (need := chosen * (wanted + 1)) <= there:
        return chosen, wanted
    if there < 2:
        fix = "A replay needs at least two days of input"
    elif there // (wanted + 1):
        fix = f"Try ARGS='--days {there // (wanted + 1)}'"
    else:
        fix = f"Try ARGS='--rounds {there - 1} --days 1'"
    raise InputError(
        f"{_counted(wanted, 'round')} of {_counted(chosen, 'day')} and as many days before them "
        f"need {_counted(need, 'day')}, the input has {_counted(there, 'day')}",
        where,
        fix,
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("s" if count != 1 else "")
