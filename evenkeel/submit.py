"""Start a job of Evenkeel by spark-submit, wherever the package is installed."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from evenkeel.extras import check_spark_here, install_command, require_packages
from evenkeel.shared_spark import SharedSpark
from partitioning.errors import InputError, SetupError

#: In the extra of an Airflow connection to YARN: where the resource manager answers.
RM_ADDRESS = "yarn_resourcemanager_webapp_address"
#: Exit code of a shell for a program that a signal has ended, less the signal's number.
SIGNALLED = 128
#: Exit code of spark-submit without Java. A driver that ended with another one had a Java.
NO_JAVA = 1


@cache
def jobs_folder() -> Path:
    """Return the folder of the jobs, without importing them.

    Raises
    ------
    SetupError : the package `evenkeel_spark` is not on the Python path
    """
    package = find_spec("evenkeel_spark")
    if package is None or not package.submodule_search_locations:
        raise SetupError(
            "expected the package evenkeel_spark on the Python path, found none",
            fix="Install the evenkeel wheel, or put the folder spark_jobs/ on PYTHONPATH",
        )
    return Path(package.submodule_search_locations[0]) / "jobs"


def job_file(job: str) -> str:
    """Return the path of a job's file, without importing the job."""
    return str(jobs_folder() / f"{job}.py")


def job_command(job: str, arguments: Sequence[str]) -> list[str]:
    """Return the command of a job that runs in a Spark that stays up."""
    return [sys.executable, job_file(job), *arguments]


def demo_command(arguments: Sequence[str]) -> list[str]:
    """Return the command of the program that makes and joins the tables which the demo adopts."""
    return [sys.executable, str(jobs_folder().parent / "demo.py"), *arguments]


def spark_server() -> str:
    """Return the path of the program that keeps a Spark up, without importing it."""
    return str(jobs_folder().parent / "runtime" / "spark_server.py")


def job_names() -> list[str]:
    """List the names of the jobs."""
    return sorted(p.stem for p in jobs_folder().glob("*.py") if p.stem != "__init__")


def spark_submit(env: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of spark-submit: of `SPARK_HOME`, on PATH, or of this Python's PySpark.

    Parameters
    ----------
    env : the environment that it starts with
    """
    home = env.get("SPARK_HOME")
    places = [
        *([str(Path(home) / "bin")] if home else []),
        *os.get_exec_path(env),
        str(Path(sys.executable).parent),
    ]
    return shutil.which("spark-submit", path=os.pathsep.join(places))


def check_own_driver() -> None:
    """Refuse to start a job where the environment names a Spark that cannot be the job's own.

    Raises
    ------
    SetupError : names the Spark Connect server; or SPARK_HOME, which has no Spark
    """
    if remote := os.environ.get("SPARK_REMOTE"):
        raise SetupError(
            f"expected a Spark of the job's own, found the Spark Connect server {remote}",
            "$SPARK_REMOTE",
            "Unset SPARK_REMOTE for this command: jobs ask the JVM of their own driver, and "
            "Spark Connect gives none",
        )
    # A driver that spark-submit has started needs no SPARK_HOME. YARN's may have /dev/null there.
    home = None if "PYSPARK_GATEWAY_PORT" in os.environ else os.environ.get("SPARK_HOME")
    if home and not (Path(home) / "bin" / "spark-submit").is_file():
        raise SetupError(
            "expected a folder with bin/spark-submit, found none",
            f"$SPARK_HOME, {home}",
            "Set it to the folder of a Spark, or unset it to use that of PySpark",
        )


def spark_conf(env: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of Spark's own settings, whether or not it is there; None: no Spark is.

    Parameters
    ----------
    env : the environment that Spark starts with
    """
    if folder := env.get("SPARK_CONF_DIR"):
        return Path(folder)
    home = spark_home(env)
    return home and home / "conf"


def spark_home(env: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the Spark that spark-submit starts; None: there is none.

    Parameters
    ----------
    env : the environment that Spark starts with
    """
    if home := env.get("SPARK_HOME"):
        return Path(home)
    if (program := spark_submit(env)) is None:
        return None
    # As pip installs it, this program asks where the package is.
    if (Path(program).parent / "find_spark_home.py").is_file() and (found := find_spec("pyspark")):
        return Path(str(found.origin)).parent
    return Path(program).resolve().parents[1]


def spark_env(env: Mapping[str, str] = os.environ) -> Path | None:
    """Return Spark's own spark-env.sh, which may set another Java; None if there is none.

    Parameters
    ----------
    env : the environment that Spark starts with
    """
    file = (spark_conf(env) or Path()) / "spark-env.sh"
    # It is False also where the folder may not be entered.
    return file if os.path.isfile(file) else None  # noqa: PTH113


def check_java(env: Mapping[str, str] = os.environ) -> None:
    """Look for the Java that spark-submit starts. Call this after it has ended with `NO_JAVA`.

    If there is a spark-env.sh, nobody can tell from here.

    Parameters
    ----------
    env : the environment that it had

    Raises
    ------
    SetupError : there is none
    """
    home = env.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else env.get("PATH"))
    if found is None and spark_env(env) is None:
        raise SetupError(
            "expected a Java for Spark, found none",
            f"$JAVA_HOME, {home}" if home else "PATH",
            "Install Java 17 to 22, or set JAVA_HOME to one",
        )


def submit(
    job: str, arguments: Sequence[str], variables: Mapping[str, str], options: str = ""
) -> int:
    """Run a job by spark-submit, or in a Spark that stays up, and wait; return its exit code.

    Parameters
    ----------
    arguments : of the job
    variables : what the environment has beside or instead
    options : of spark-submit, as a shell splits them. With any, the job has a Spark of its own

    Raises
    ------
    InputError : no job has this name, or the options have a quote without its end
    SetupError : spark-submit or Java is missing, PySpark is of two versions, or Spark Connect is
        asked for
    MissingExtraError : PySpark or Delta is not installed
    """
    if job not in job_names():
        raise InputError(f"there is no job {job!r}", fix=f"Known: {', '.join(job_names())}")
    given = _split(options)
    require_packages("spark", "pyspark", "delta")
    check_own_driver()
    if SharedSpark.of_environment() is not None and not options:
        check_spark_here()
        return _call(job, job_command(job, arguments), {**os.environ, **variables})
    # The driver needs this package, so it runs this Python; so do workers on this machine.
    here = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    env = {**here, **os.environ, **variables}
    command = spark_submit(env)
    if command is None:
        raise SetupError(
            "expected spark-submit in $SPARK_HOME/bin or on PATH, found none",
            fix=f"Set SPARK_HOME, or install Spark with: {install_command('spark')}",
        )
    code = _call(job, [command, *given, job_file(job), *arguments], env)
    if code == NO_JAVA:
        check_java(env)
    return code


def _split(options: str) -> list[str]:
    try:
        return shlex.split(options)
    except ValueError as error:
        raise InputError(
            f"{options!r} cannot be split ({error})", "--submit", "Close the quotes"
        ) from None


def _call(job: str, command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the program of a job and return its exit code; if a signal ended it, say so.

    Ctrl-C comes to the program, too, which ends in its own way: a job cancels what Spark does for
    it. A second one ends it at once.
    """
    process = subprocess.Popen(command, env=env)
    with suppress(KeyboardInterrupt):
        return _exit_code(job, process.wait())
    with suppress(KeyboardInterrupt):
        return _exit_code(job, process.wait())
    process.kill()
    return _exit_code(job, process.wait())


def _exit_code(job: str, code: int) -> int:
    """Return an exit code as a shell has it: 128 and more for a signal, which leaves no line.

    Python of a driver that a signal ends is such a code of spark-submit, too.
    """
    number = -code if code < 0 else code - SIGNALLED
    # A job ends in its own way after Ctrl-C, and says so.
    if number in signal.valid_signals() and number != signal.SIGINT:
        name = signal.strsignal(number) or f"signal {number}"
        fix = "If nobody did that, look for a lack of memory. Run it again: it goes on from there"
        sys.stderr.write(f"evenkeel: error: the job {job} was ended from outside ({name}). {fix}\n")
    return SIGNALLED - code if code < 0 else code


def keep_spark(folder: Path, variables: Mapping[str, str], options: str = "") -> NoReturn:
    """Keep a Spark up for jobs, in place of this process, until a signal ends it.

    Parameters
    ----------
    folder : by which jobs find it
    variables, options : as for `submit`

    Raises
    ------
    InputError : the options have a quote without its end
    SetupError : PySpark is of two versions, or Spark Connect is asked for
    MissingExtraError : PySpark or Delta is not installed
    """
    _split(options)
    check_spark_here()
    check_own_driver()
    # The server starts Spark itself: spark-submit would not let it start a second one.
    given = {"PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell"} if options else {}
    env = {**os.environ, **variables, **given}
    os.execve(sys.executable, [sys.executable, spark_server(), str(folder)], env)
