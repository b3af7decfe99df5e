"""Who may: the login, Airflow's rights on the table's own DAGs, and forms that only we have made.

A mounted app inherits nothing of Airflow's authentication. `get_user` is a dependency of the
whole app, each route asks for its right, and `tests/evenkeel_ui/test_pages.py` asks every route
without
either. The names that FastAPI reads in annotations must stand at module level.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.auth.tokens import get_signing_key
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.dag import DagModel
from fastapi import Depends, Form, HTTPException, Request
from itsdangerous import BadData, URLSafeTimedSerializer

from evenkeel.spec.catalog import Catalog, load_catalog, tables_folder
from evenkeel.table import Table

Method = Literal["GET", "POST", "PUT"]
User = Annotated[BaseUser, Depends(get_user)]
REBALANCE, ROLL_BACK, WATCH = "rebalance_", "roll_back_", "watch_"
#: A form is good for so many seconds.
FORM_AGE = 12 * 3600


def may(
    user: BaseUser, method: Method, dag: str | None, entity: DagAccessEntity | None = None
) -> bool:
    """Whether Airflow lets the user do this with the DAG; None: with DAGs in general."""
    team = DagModel.get_team_name(dag) if dag else None
    return get_auth_manager().is_authorized_dag(
        method=method,
        access_entity=entity,
        details=DagDetails(id=dag, team_name=team),
        user=user,
    )


def require(
    user: BaseUser, method: Method, dag: str, entity: DagAccessEntity | None = None
) -> None:
    """Raise 403 unless Airflow lets the user do this with the DAG."""
    if not may(user, method, dag, entity):
        raise HTTPException(403, "You may not do this with this table. Airflow's rights decide.")


def catalog() -> Catalog:
    """The tables that the DAGs are made from, by the same rule."""
    return load_catalog(tables_folder(Path(__file__).parents[2]))


def named(table: str) -> Table:
    """The table of that name; 404 where there is none. Names come from specs, so that no part of
    a request becomes a path."""
    for spec in catalog().specs.values():
        if spec.table == table:
            return Table(spec)
    raise HTTPException(404, f"There is no table {table!r}. It may have no spec, or a wrong one.")


def readable_table(table: str, user: User) -> Table:
    """The table in the path, for who may read its DAG (403 comes before 404: names are told to
    nobody else)."""
    require(user, "GET", f"{REBALANCE}{table}")
    return named(table)


def table_to_run(prefix: str) -> Callable[..., Table]:
    """A dependency: the table in the path, for who may start its DAG of that prefix."""

    def table_of_path(table: str, user: User) -> Table:
        require(user, "GET", f"{REBALANCE}{table}")
        require(user, "POST", f"{prefix}{table}", DagAccessEntity.RUN)
        return named(table)

    return table_of_path


ReadableTable = Annotated[Table, Depends(readable_table)]


def form_token(user: BaseUser) -> str:
    """What a form carries so that its answer is known to come from a page of ours."""
    return _serializer().dumps(user.get_id())


def own_form(request: Request, user: User, csrf: Annotated[str, Form()] = "") -> None:
    """Raise 403 unless the request comes from a form that we made for this user.

    Airflow's login cookie is SameSite=Lax, which keeps other sites' forms from carrying it, but
    not those of another port or subdomain of this host. So each form holds a token signed with
    Airflow's secret and bound to the user (nothing to store, good in every API worker, unlike a
    double-submitted cookie not to be set by a sibling host), and a browser that says where the
    request comes from must say: from here.
    """
    try:
        whose = _serializer().loads(csrf, max_age=FORM_AGE)
    except BadData:
        whose = None
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    here = site in (None, "same-origin", "none")
    if site is None and origin is not None:
        here = urlsplit(origin).netloc == request.headers.get("host")
    if whose is None or whose != user.get_id() or not here:
        raise HTTPException(403, "This form is too old or not ours. Open the page again.")


def _serializer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(get_signing_key("api", "secret_key"), salt="evenkeel form")
