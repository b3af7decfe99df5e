"""How many rounds of how many days a replay's input has room for."""

from __future__ import annotations

from datetime import date

from partitioning.errors import InputError

#: Rounds, of the first table, and days of each, where nobody asks for others.
ROUNDS, DAYS = 3, 28


def fit(
    span: tuple[date, date], days: int | None, rounds: int | None, most: int, where: str
) -> tuple[int, int]:
    """Days of a round and number of rounds, so that state begins with as many days as a round has
    and every round is whole. What was not asked for yields: days first.

    Parameters
    ----------
    span : first and last day of the input
    days, rounds : asked for; None: what fits, up to `DAYS` and `most`
    where : path of the input

    Raises
    ------
    InputError : what was asked for does not fit
    """
    there = (span[1] - span[0]).days + 1
    wanted = rounds or (most if days is None else max(1, min(most, there // days - 1)))
    if rounds is None and days is None:
        # A day each at the least.
        wanted = max(1, min(wanted, there - 1))
    chosen = days or max(1, min(DAYS, there // (wanted + 1)))
    if (need := chosen * (wanted + 1)) <= there:
        return chosen, wanted
    if there < 2:
        fix = "A replay needs two days of input at the least"
    elif there // (wanted + 1):
        fix = f"Try ARGS='--days {there // (wanted + 1)}'"
    else:
        fix = f"Try ARGS='--rounds {there - 1} --days 1'"
    raise InputError(
        f"{_told(there, 'day')}: {_told(wanted, 'round')} of {_told(chosen, 'day')} after as many "
        f"at first need {need}",
        where,
        fix,
    )


def _told(count: int, what: str) -> str:
    return f"{count} {what}" + ("s" if count != 1 else "")
