"""Generate: keyed events of a made-up stream, as Parquet sorted by day."""

import sys

from evenkeel_spark.jobs.generate import main

if __name__ == "__main__":
    sys.exit(main())
