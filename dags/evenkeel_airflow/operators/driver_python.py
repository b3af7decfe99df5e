"""Which Python a driver on this machine runs: the one of the task that submits it."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def driver_python(master: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return Spark settings that make a driver on this machine run this Python.

    The driver imports this package. Workers on other machines keep the Python that they have, and a
    Python that the user has chosen by a variable stays. It becomes a setting, too: Spark takes each
    of these settings before each of the variables.

    Parameters
    ----------
    master : Spark's master, such as `local[*]`
    env : the environment of spark-submit, with the task's `env_vars`
    """
    settings = {"spark.pyspark.driver.python": "PYSPARK_DRIVER_PYTHON"}
    if master.startswith("local"):
        settings["spark.pyspark.python"] = "PYSPARK_PYTHON"
    return {s: env.get(variable) or sys.executable for s, variable in settings.items()}
