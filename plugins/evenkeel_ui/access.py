"""Check access: the login, Airflow's rights on the table's DAGs, and the token of a form.

A mounted app does not inherit Airflow's authentication. `get_user` is a dependency of the whole
app, and each route requires its right. `tests/evenkeel_ui/test_pages.py` calls every route without
them. Names that FastAPI reads in annotations must be at module level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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

from evenkeel.table import Table
from evenkeel_ui.airflow_versions import readable_of_team, teams_of
from evenkeel_ui.spec_folders import tables_with_dags

Method = Literal["GET", "POST", "PUT"]
User = Annotated[BaseUser, Depends(get_user)]
REBALANCE, ROLL_BACK, WATCH = "rebalance_", "roll_back_", "watch_"
MAINTAIN, REPAIR, APPLY = "maintain_", "repair_", "apply_"
ADOPT, RELEASE = "adopt_", "release_"
#: Kinds of DAGs whose runs leave a folder in the registry, and so have a page of their own.
PAGED = (REBALANCE, ROLL_BACK, WATCH)
#: Kinds of DAGs whose runs leave no folder in the registry, and so have no page of their own.
PAGELESS = (MAINTAIN, REPAIR, APPLY, ADOPT, RELEASE)
#: Every kind of DAG that a table can have; the name of the table follows.
KINDS = (*PAGED, *PAGELESS)
#: Seconds for which a form is valid.
FORM_AGE = 12 * 3600


def may(
    user: BaseUser, method: Method, dag: str | None, entity: DagAccessEntity | None = None
) -> bool:
    """Return whether Airflow lets the user do this with the DAG; None: with any DAG."""
    team = DagModel.get_team_name(dag) if dag else None
    return get_auth_manager().is_authorized_dag(
        method=method,
        access_entity=entity,
        details=DagDetails(id=dag, team_name=team),
        user=user,
    )


def readable_dags(user: BaseUser, dags: list[str]) -> set[str]:
    """Return those of many DAGs that the user may read, asked once for each team.

    An auth manager may ask another host, so it is not asked for each DAG.
    """
    known, teams = teams_of(dags), dict[str | None, set[str]]()
    for dag in dags:
        teams.setdefault(known.get(dag), set()).add(dag)
    manager = get_auth_manager()
    each = (readable_of_team(manager, user, own, team) for team, own in teams.items())
    return set().union(*each)


def nameable(user: BaseUser, table: str, names: Iterable[str]) -> list[str]:
    """Return those of the table's run folders `names` that the user may see, without a query.

    A rollback may be named only to users who may read the roll-back DAG. The folder's name says
    whether it is one. Release 0.1.0 named no DAG there, so its runs count as rollbacks.
    """
    others = tuple(f"{kind}{table}--" for kind in (REBALANCE, WATCH))
    return [n for n in names if n.startswith(others) or may(user, "GET", f"{ROLL_BACK}{table}")]


def require(
    user: BaseUser, method: Method, dag: str, entity: DagAccessEntity | None = None
) -> None:
    """Raise 403 unless Airflow lets the user do this with the DAG."""
    if not may(user, method, dag, entity):
        what = {"GET": "see", "POST": "start runs of", "PUT": "change runs of"}[method]
        # Only the first: a table's name may begin as a kind of DAG does.
        table = next((dag.removeprefix(k) for k in KINDS if dag.startswith(k)), dag)
        raise HTTPException(403, f"You may not {what} {table}. Airflow's rights on {dag} decide.")


def named(table: str) -> Table:
    """Return the table of that name, or raise 404.

    The name is compared with those of specs, so that no part of a request becomes a path.
    """
    for spec in tables_with_dags().specs.values():
        if spec.table == table:
            return Table(spec)
    raise HTTPException(
        404, f"There is no table {table!r}. Check that its spec exists and has no error."
    )


def readable_table(table: str, user: User) -> Table:
    """Return the table in the path if the user may read its DAG, else raise 403.

    403 comes before 404, so that other users do not learn the names of tables.
    """
    require(user, "GET", f"{REBALANCE}{table}")
    return named(table)


def table_to_run(prefix: str) -> Callable[..., Table]:
    """Create a dependency: the table in the path, if the user may start its DAG `prefix`."""

    def table_of_path(table: str, user: User) -> Table:
        require(user, "GET", f"{REBALANCE}{table}")
        require(user, "POST", f"{prefix}{table}", DagAccessEntity.RUN)
        return named(table)

    return table_of_path


ReadableTable = Annotated[Table, Depends(readable_table)]


def form_token(user: BaseUser) -> str:
    """Return the token that shows that a form comes from one of our pages."""
    return _serializer().dumps(user.get_id())


def own_form(request: Request, user: User, csrf: Annotated[str, Form()] = "") -> None:
    """Raise 403 unless the request comes from a form that we made for this user.

    Check the user's right first: a user without it must read that, and not of a form. So routes
    take this as their last dependency (`OwnForm`), or call it after `require`.

    Airflow's login cookie is SameSite=Lax. Forms of other sites do not carry it, but forms of
    another port or subdomain of this host do. Each form therefore has a token, signed with
    Airflow's secret and bound to the user. It needs no storage, works in every API worker, and a
    sibling host cannot set it, unlike a double-submitted cookie. If the browser says where the
    request comes from, that must be this host.
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


OwnForm = Annotated[None, Depends(own_form)]
Token = Annotated[str, Form()]


def _serializer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(get_signing_key("api", "secret_key"), salt="evenkeel form")
