"""Watch: look at the newest micro-batch of events, and decide whether its skew is met at once."""

import sys

from evenkeel_spark.jobs.watch import main

if __name__ == "__main__":
    sys.exit(main())
