"""Bring every state table to the epoch in force."""

import sys

from evenkeel_spark.jobs.repair import main

if __name__ == "__main__":
    sys.exit(main())
