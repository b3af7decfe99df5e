"""Maintain: few files sorted by slot in every channel, and no file that nobody needs."""

import sys

from evenkeel_spark.jobs.maintain import main

if __name__ == "__main__":
    sys.exit(main())
