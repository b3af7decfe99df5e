"""Apply a window: each channel folds its keys' events into the state tables, exactly once."""

import sys

from evenkeel_spark.jobs.apply_window import main

if __name__ == "__main__":
    sys.exit(main())
