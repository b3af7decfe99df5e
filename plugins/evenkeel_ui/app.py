"""The app that Airflow mounts at /evenkeel: its pages, behind Airflow's login."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPMethod
from math import inf
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.routing import Match, Route

from evenkeel.registry.store_errors import DeniedError
from evenkeel.render.charts import loads_svg
from evenkeel.spec.field_errors import field_error
from evenkeel_ui import views, web
from evenkeel_ui.pages import channel, compare, forms, overview, plans, quality, recovery, tables
from evenkeel_ui.spec_folders import tables_with_dags
from evenkeel_ui.statuses import STATUSES
from partitioning.errors import (
    DamagedError,
    EvenkeelError,
    FenceError,
    InputError,
    UnreachableError,
)

HEADINGS = {401: "Not logged in", 403: "Not allowed", 404: "Not found", 409: "Too late"}
#: (error class, HTTP status, heading). The first class that fits counts: narrow ones come first.
ERRORS: tuple[tuple[type[EvenkeelError], int, str], ...] = (
    (DamagedError, 500, "A file is damaged"),
    (DeniedError, 503, "The server lacks a right"),
    (UnreachableError, 503, "A store cannot be reached"),
    (InputError, 404, "Not found"),
    (FenceError, 409, "Too late"),
    (EvenkeelError, 409, "The request failed"),
)


@asynccontextmanager
async def warmed(_: FastAPI) -> AsyncIterator[None]:
    """Draw a chart and read all tables in a thread at the start: the first time takes longest."""
    threading.Thread(target=_warm, daemon=True).start()
    yield


def _warm() -> None:
    loads_svg(["0"], [1.0], [1.0], [1.0])
    STATUSES.rows([*tables_with_dags().specs.values()], first=inf)


# FastAPI's own OpenAPI pages would need no login. The route below needs one.
app = FastAPI(
    title="Evenkeel",
    description="Why state moves, at what price, what exactly will run, and a way back.",
    dependencies=[Depends(get_user)],
    openapi_url=None,
    lifespan=warmed,
    redirect_slashes=False,
)


@app.middleware("http")
async def headers(request: Request, proceed: Callable[[Request], Awaitable[Response]]) -> Response:
    """Add headers: no other host, no content sniffing, no cached copies of pages with rights."""
    response = await proceed(request)
    response.headers.setdefault("Content-Security-Policy", web.POLICY)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    response.headers.setdefault("Cache-Control", "no-store")
    return response


@app.exception_handler(StarletteHTTPException)
async def refused(
    request: Request, error: StarletteHTTPException, heading: str | None = None
) -> HTMLResponse:
    """Answer an HTTP error with a page; without a login it has its styles inline."""
    login, styles, message = None, None, str(error.detail)
    back = _page_of(request)
    if error.status_code == 401:
        message = "These pages are behind Airflow's login."
        login = get_auth_manager().get_url_login(next_url=back)
        styles = Markup(web.style())
    heading = heading or HEADINGS.get(error.status_code, "The request failed")
    answer = web.page(
        request,
        "error.html.j2",
        error.status_code,
        heading=heading,
        message=message,
        login=login,
        back=back if request.method == "POST" else None,
        styles=styles,
    )
    answer.headers.update(error.headers or {})
    if styles:
        answer.headers["Content-Security-Policy"] = web.DOCUMENT_POLICY
    return answer


def _page_of(request: Request) -> str:
    """Return the address of the page that was asked for, or that has the form which was sent."""
    if request.method == "POST":
        return re.sub("/(answer|recover|repair)$", "", request.url.path)
    return f"{request.url.path}?{request.url.query}".removesuffix("?")


@app.exception_handler(RequestValidationError)
async def unreadable(request: Request, error: RequestValidationError) -> HTMLResponse:
    """Answer a wrong address or form with a page that names each wrong part."""
    told = "; ".join(f"{e['loc'][-1]}: {field_error(e)}" for e in error.errors())
    return await refused(request, HTTPException(404 if request.method == "GET" else 422, told))


@app.exception_handler(EvenkeelError)
async def wrong(request: Request, error: EvenkeelError) -> HTMLResponse:
    """Answer one of our errors with its status, heading and message."""
    code, heading = next((c, h) for kind, c, h in ERRORS if isinstance(error, kind))
    return await refused(request, HTTPException(code, str(error)), heading)


@app.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> dict[str, Any]:
    """Return the OpenAPI description of these routes."""
    return {**app.openapi(), "servers": [{"url": request.scope.get("root_path", "")}]}


@app.get("/static/style.css", include_in_schema=False)
def style() -> Response:
    """Return the styles of the pages."""
    return Response(web.style(), media_type="text/css", headers={"Cache-Control": "private"})


@app.get("/static/page.js", include_in_schema=False)
def script() -> Response:
    """Return the script of the pages."""
    return _script("page.js")


@app.get("/static/times.js", include_in_schema=False)
def times_script() -> Response:
    """Return the script that writes times in Airflow's zone; documents of runs have it, too."""
    return _script("times.js")


@app.get("/static/theme.js", include_in_schema=False)
def theme() -> Response:
    """Return the script that takes over Airflow's theme; documents of runs have it, too."""
    return _script("theme.js")


def _script(name: str) -> Response:
    headers = {"Cache-Control": "private"}
    return Response(web.script(name), media_type="text/javascript", headers=headers)


for part in (overview, tables, channel, plans, forms, recovery, compare, quality, views):
    app.include_router(part.router)


@app.api_route("/{path:path}", methods=[*HTTPMethod], include_in_schema=False)
def nothing(request: Request, path: str) -> None:
    """Answer 404 or 405 to every other request, after the login.

    The router's own 405 would come before the login.
    """
    pages = (r for r in app.routes if isinstance(r, Route))
    methods = {
        method
        for page in pages
        if page.matches(request.scope)[0] is Match.PARTIAL
        for method in page.methods or ()
    }
    if methods:
        raise HTTPException(
            405,
            f"This page does not accept {request.method}.",
            {"Allow": ", ".join(sorted(methods))},
        )
    raise HTTPException(404, "There is no such page.")
