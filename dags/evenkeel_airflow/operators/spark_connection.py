"""Airflow's hook of a Spark connection, with what it passes over as an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow.exceptions import AirflowNotFoundException

from partitioning.errors import SetupError

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook


def hook_of(make: Callable[[], SparkSubmitHook], connection: str) -> SparkSubmitHook:
    """Return the hook of a connection.

    Parameters
    ----------
    make : makes it, in Airflow's way
    connection : its id

    Raises
    ------
    SetupError : there is no such connection, or its master needs a provider that is not installed
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
    try:
        hook.get_connection(connection)
    except AirflowNotFoundException:
        # The hook would take a YARN that nobody named.
        raise SetupError(
            "Airflow has no such connection",
            where,
            f"Add it: airflow connections add {connection} --conn-type spark --conn-host MASTER",
        ) from None
    return hook
