"""Keep a Spark up for the jobs of this machine: `evenkeel spark FOLDER`.

Each job is a process of its own that attaches to this one's JVM. The JVM is replaced when a job was
killed in it, and before it holds too much of jobs that have ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from evenkeel.shared_spark import VARIABLE, Address, SharedSpark
from evenkeel_spark.runtime.attached import versions
from evenkeel_spark.runtime.command import fail
from evenkeel_spark.runtime.session import own_spark
from evenkeel_spark.tables.spark_errors import GATEWAY_ERRORS
from partitioning.errors import EvenkeelError

#: Seconds between two looks at the JVM and the turn, and those in which a JVM has to end.
REST_SECONDS, _JVM_END_SECONDS = 0.5, 30.0
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(argv: Sequence[str] | None = None) -> int:
    """Keep Spark up until a signal ends it."""
    folder, *claimed = sys.argv[1:] if argv is None else argv
    shared = SharedSpark(Path(folder).absolute())
    for number in _ENDING:
        # nohup has SIGHUP ignored; a shell, SIGINT for each program in the background.
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        with open(int(claimed[0]), "a") if claimed else shared.claim() as lock:  # noqa: PTH123
            shared.withdraw()
            _keep(shared)
            # PySpark starts one JVM in a process. The lock goes over to the program's next life.
            os.set_inheritable(lock.fileno(), True)
            again = [sys.executable, sys.argv[0], folder, str(lock.fileno())]
            os.execv(sys.executable, again)
    except KeyboardInterrupt:
        return 0
    except EvenkeelError as error:
        return fail(error)


def _keep(shared: SharedSpark) -> None:
    """Start Spark, and keep it up for as long as it is fit to use."""
    with _started() as spark:
        address, is_told = _address(spark), False
        try:
            while True:
                time.sleep(REST_SECONDS)
                # While a job has the turn, its JVM is not looked at: the job sees what it does.
                with suppress(BlockingIOError), shared.free():
                    if not is_told:
                        shared.begin(address)
                        is_told = True
                        where = f"{VARIABLE}={shared.folder}"
                        print(f"Spark stays up for jobs with {where}", flush=True)
                    if not _is_up(spark):
                        shared.wear()
                    if shared.worn():
                        return
                    if shared.address() is None:
                        shared.tell(address)
                    shared.keep()
        finally:
            shared.withdraw()


@contextmanager
def _started() -> Iterator[SparkSession]:
    """Start Spark; end it and its JVM, with what a killed job has left in it."""
    spark = own_spark("evenkeel")
    gateway: Any = spark.sparkContext._gateway
    try:
        yield spark
    finally:
        # A second signal must not leave the JVM behind.
        before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
        # It ends when its standard input does, once it has removed its files.
        gateway.proc.stdin.close()
        try:
            gateway.proc.wait(_JVM_END_SECONDS)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


def _address(spark: SparkSession) -> Address:
    java: Any = spark.sparkContext._gateway.java_parameters
    return Address(os.getpid(), java.port, java.auth_token, versions())


def _is_up(spark: SparkSession) -> bool:
    context: Any = spark.sparkContext
    try:
        return context._gateway.proc.poll() is None and not context._jsc.sc().isStopped()
    except GATEWAY_ERRORS:
        return False


if __name__ == "__main__":
    sys.exit(main())
