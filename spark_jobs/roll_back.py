"""Roll back: the inverse migration, to the epoch that the plan started from."""

import sys

from evenkeel_spark.jobs.roll_back import main

if __name__ == "__main__":
    sys.exit(main())
