"""Measure speed side by side: one benchmark for each claim of speed."""

import os

from evenkeel.local_env import environment

# A shell without the checkout's variables runs `.venv/bin/python -m benchmarks...` as make does.
if "SPARK_CONF_DIR" not in os.environ:
    os.environ.update(environment())

# As a cluster's JVM runs: the local set-up's options, for jobs of seconds, leave the optimising
# compiler out.
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS", '--driver-java-options "-XX:+UseParallelGC" pyspark-shell'
)
