"""Verify: measure every state table after its migration, ask the gate, and seal."""

import sys

from evenkeel_spark.jobs.verify import main

if __name__ == "__main__":
    sys.exit(main())
