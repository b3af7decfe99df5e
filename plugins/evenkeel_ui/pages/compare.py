"""Compare two epochs: which keys and slots moved, from where to where, bytes and reasons."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from evenkeel.inspect.epoch_diff import compare
from evenkeel.registry.profiles import newest_profile
from evenkeel_ui.access import ReadableTable
from evenkeel_ui.pages.plans import MAX_MOVES, MOVED, MOVES_SHOWN
from evenkeel_ui.web import page, sort
from partitioning.errors import EvenkeelError

router = APIRouter(prefix="/tables/{table}", tags=["pages"])


@router.get("/compare", response_class=HTMLResponse)
def comparison(
    request: Request,
    found: ReadableTable,
    old: int | None = None,
    new: int | None = None,
    every: bool = False,
) -> HTMLResponse:
    """Show the moves between two epochs; by default the last two."""
    registry = found.registry
    numbers = registry.numbers()
    if not numbers:
        raise HTTPException(404, f"{found.spec.table} has no epoch yet.")
    new = numbers[-1] if new is None else new
    old = max(new - 1, numbers[0]) if old is None else old
    profile, problems = None, []
    try:
        profile = newest_profile(registry).profile
    except EvenkeelError as error:
        problems.append(str(error))
    result = compare(registry, old, new, profile)
    moves = sort(request, result.moves, MOVED, "-load")
    longer = max(result.old.function.channels, result.new.function.channels, key=len)
    return page(
        request,
        "compare.html.j2",
        table=found.spec.table,
        numbers=numbers[::-1],
        result=result,
        problems=[*problems, *result.problems],
        names=[c.name for c in longer],
        moves=moves[: MAX_MOVES if every else MOVES_SHOWN],
    )
