"""Airflow's hook of a Spark connection, with what it passes over as an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow.exceptions import AirflowNotFoundException

from partitioning.errors import SetupError, UnreachableError

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

#: Master of the hook where Airflow has not found the connection: a YARN that nobody named.
_NOBODYS = "yarn"


def hook_of(make: Callable[[], SparkSubmitHook], connection: str) -> SparkSubmitHook:
    """Return the hook of a connection.

    Parameters
    ----------
    make : makes it, in Airflow's way
    connection : its id

    Raises
    ------
    SetupError : its master needs a provider that is not installed
    UnreachableError : Airflow has not found the connection. It says the same while it cannot ask
    """
    where = f"connection {connection}"
    try:
        hook = make()
    except NameError as error:
        # Airflow's hook imports its Kubernetes provider, and passes over an ImportError.
        if error.name != "kube_client":
            raise
        raise SetupError(
            "expected Airflow's provider of Kubernetes for its master k8s://, found none",
            where,
            "Install apache-airflow-providers-cncf-kubernetes beside Airflow",
        ) from None
    if hook._connection["master"] == _NOBODYS and not _names_yarn(hook, connection):
        raise UnreachableError(
            "Airflow has no such connection, or could not ask for it",
            where,
            f"Add it: airflow connections add {connection} --conn-type spark --conn-host MASTER",
        )
    return hook


def _names_yarn(hook: SparkSubmitHook, connection: str) -> bool:
    """Return whether the connection itself has that master, which it gives as its host."""
    try:
        return bool(hook.get_connection(connection).host == _NOBODYS)
    except AirflowNotFoundException:
        return False
