"""What Spark's status store tells of the tasks that ran: records read, seconds taken."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

#: Local properties of a job group: left behind, they would name the jobs that follow.
_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@dataclass(frozen=True)
class TaskWork:
    """Hold the records that a task read from a shuffle, and its run time and CPU in seconds."""

    records: int
    seconds: float
    cpu_seconds: float


@contextmanager
def job_group(spark: SparkSession, description: str) -> Iterator[str]:
    """Jobs started inside belong to a new group, whose id is given."""
    group = f"evenkeel-{uuid.uuid4().hex}"
    spark.sparkContext.setJobGroup(group, description)
    try:
        yield group
    finally:
        for name in _GROUP:
            spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]


def stages(spark: SparkSession, group: str, most: int) -> Iterator[list[TaskWork]]:
    """List the stages of a group's jobs, each with its tasks by their number.

    Parameters
    ----------
    most : stages with more tasks than this are left out, and so are those of which Spark has not
        kept every task
    """
    context: Any = spark.sparkContext
    tracker, scala = context.statusTracker(), context._jsc.sc()
    # What a job's last tasks did reaches the store only after the job has returned.
    scala.listenerBus().waitUntilEmpty()
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
