"""Bootstrap: make the state tables and publish epoch 0, by consistent hashing."""

import sys

from evenkeel_spark.jobs.bootstrap import main

if __name__ == "__main__":
    sys.exit(main())
