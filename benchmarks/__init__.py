"""Measure speed side by side: one benchmark for each claim of speed."""

import os

# As a cluster's JVM runs: the local set-up's options, for jobs of seconds, leave the optimising
# compiler out.
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS", '--driver-java-options "-XX:+UseParallelGC" pyspark-shell'
)
