"""Take tables that a team made itself under Evenkeel, or release them again."""

import sys

from evenkeel_spark.jobs.adopt import main

if __name__ == "__main__":
    sys.exit(main())
