"""Make the two Iceberg tables that `make run` adopts, or join them by key."""

import sys

from evenkeel_spark.jobs.demo import main

if __name__ == "__main__":
    sys.exit(main())
