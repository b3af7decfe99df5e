"""Migrate: move the rows of every state table to where the approved plan puts them."""

import sys

from evenkeel_spark.jobs.migrate import main

if __name__ == "__main__":
    sys.exit(main())
