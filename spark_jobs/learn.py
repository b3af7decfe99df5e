"""Learn: sketch what is new of the window, merge the stored sketches, weigh the state."""

import sys

from evenkeel_spark.jobs.learn import main

if __name__ == "__main__":
    sys.exit(main())
