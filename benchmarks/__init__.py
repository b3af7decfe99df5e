"""Side-by-side runs: what is claimed of speed, and the command that shows it."""

import os

# As a cluster's JVM runs: the local set-up's options, for jobs of seconds, leave the optimising
# compiler out.
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS", '--driver-java-options "-XX:+UseParallelGC" pyspark-shell'
)
