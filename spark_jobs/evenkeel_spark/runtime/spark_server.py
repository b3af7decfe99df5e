"""Keep a Spark up for the jobs of this machine: `evenkeel spark FOLDER`.

Each job is a process of its own that attaches to this one's JVM, so it can be killed like any
other. A query that it has left in the JVM is cancelled here.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from evenkeel.shared_spark import VARIABLE, Address, SharedSpark
from evenkeel_spark.runtime.attached import cancel_all
from evenkeel_spark.runtime.command import fail
from evenkeel_spark.runtime.session import own_spark
from evenkeel_spark.tables.spark_errors import JAVA_ERRORS
from partitioning.errors import EvenkeelError

#: Jobs after which the JVM is replaced. Py4j keeps the objects of jobs that have ended.
JOBS_PER_JVM = 100
#: Seconds between two looks at what a job has left.
REST_SECONDS = 1.0


def main(argv: Sequence[str] | None = None) -> int:
    """Keep Spark up until a signal ends it; return 1 if its JVM ends by itself."""
    (folder,) = sys.argv[1:] if argv is None else argv
    shared = SharedSpark(Path(folder).absolute())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return _serve(shared)
    except KeyboardInterrupt:
        return 0
    except EvenkeelError as error:
        return fail(error)


def _serve(shared: SharedSpark) -> int:
    with shared.claim(), ExitStack() as end:
        end.callback(shared.withdraw)
        while True:
            shared.withdraw()
            spark = own_spark("evenkeel")
            gateway: Any = spark.sparkContext._gateway
            java = gateway.java_parameters
            shared.tell(Address(java.port, java.auth_token, pyspark.__version__))
            print(f"Spark stays up for jobs with {VARIABLE}={shared.folder}", flush=True)
            while gateway.proc.poll() is None:
                with suppress(BlockingIOError, *JAVA_ERRORS), shared.free():
                    # Nobody is there for whom a query could still run.
                    cancel_all(spark)
                    if shared.jobs() >= JOBS_PER_JVM:
                        _end(shared, spark, gateway)
                        break
                time.sleep(REST_SECONDS)
            else:
                print("evenkeel: error: Spark's JVM has ended", file=sys.stderr, flush=True)
                return 1


def _end(shared: SharedSpark, spark: SparkSession, gateway: Any) -> None:
    """End Spark and its JVM, so that another one can be started in this process."""
    shared.withdraw()
    of_process: Any = type(spark.sparkContext)
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    of_process._gateway = of_process._jvm = None


if __name__ == "__main__":
    sys.exit(main())
