"""Work of tasks: measured where Spark tells it in time, and missing where a listener is slow."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from evenkeel_spark.runtime.task_metrics import job_group, stages

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: Spark waits ten seconds for its listeners. This one takes longer for the first job that ends.
LISTENER = """
public class Slow extends org.apache.spark.scheduler.SparkListener {
    private boolean met;
    public void onJobEnd(org.apache.spark.scheduler.SparkListenerJobEnd end) {
        if (met) return;
        met = true;
        try {
            Thread.sleep(14000);
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }
}
"""


def measured(spark: SparkSession) -> list[int]:
    """How many tasks each stage of a job has."""
    with job_group(spark, "a job") as group:
        spark.range(100).repartition(3).collect()
    return [len(tasks) for tasks in stages(spark, group, 10)]


def test_a_slow_listener_of_somebodys_costs_the_measure_alone(spark: SparkSession) -> None:
    """An event log on a store, or a listener that posts elsewhere, failed the window."""
    jvm = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(LISTENER)
    slow = compiler.getClassLoader().loadClass("Slow").newInstance()
    context = spark.sparkContext._jsc.sc()
    context.addSparkListener(slow)
    try:
        assert measured(spark) == []
        assert 3 in measured(spark)
    finally:
        context.removeSparkListener(slow)
