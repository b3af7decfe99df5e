"""Repair: bring every state table to the epoch in force, whatever was broken off or done by
hand."""

import sys

from evenkeel_spark.jobs.repair import main

if __name__ == "__main__":
    sys.exit(main())
