"""Records and seconds of tasks that have run, from Spark's status store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from evenkeel_spark.tables.spark_errors import JAVA_ERRORS

#: Local properties of a job group. If they stayed set, later jobs would belong to the group.
_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@dataclass(frozen=True)
class TaskWork:
    """Work of one task: records read from a shuffle, run time and CPU time in seconds."""

    records: int
    seconds: float
    cpu_seconds: float


@contextmanager
def job_group(spark: SparkSession, description: str) -> Iterator[str]:
    """Put the jobs that start inside into a new group, and yield its id."""
    group = f"evenkeel-{uuid.uuid4().hex}"
    spark.sparkContext.setJobGroup(group, description)
    try:
        yield group
    finally:
        for name in _GROUP:
            spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]


def stages(spark: SparkSession, group: str, most: int) -> Iterator[list[TaskWork]]:
    """Yield the stages of a group's jobs, each as a list of its tasks by number.

    Parameters
    ----------
    group : id of the job group
    most : skip stages with more tasks than this. A stage is also skipped if Spark has not kept
        all of its tasks
    """
    context: Any = spark.sparkContext
    tracker, scala = context.statusTracker(), context._jsc.sc()
    # The metrics of a job's last tasks reach the store only after the job has returned.
    try:
        scala.listenerBus().waitUntilEmpty()
    except JAVA_ERRORS:
        # A listener of somebody's is slow: the log of a store, or one that posts elsewhere.
        return
    store = scala.statusStore()
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            found: dict[int, TaskWork] = {}
            tasks = store.taskList(stage, 0, most + 1)
            for i in range(tasks.size()):
                task = tasks.apply(i)
                if task.taskMetrics().isDefined():
                    metrics = task.taskMetrics().get()
                    found[task.index()] = TaskWork(
                        metrics.shuffleReadMetrics().recordsRead(),
                        metrics.executorRunTime() / 1e3,
                        metrics.executorCpuTime() / 1e9,
                    )
            if len(found) <= most and sorted(found) == list(range(len(found))):
                yield [found[i] for i in range(len(found))]
