"""The errors by which Spark fails. A client of Spark Connect has no JVM, so it lacks py4j's."""

from __future__ import annotations

from pyspark.errors import PySparkException

try:
    from py4j.protocol import Py4JAuthenticationError, Py4JError, Py4JJavaError, Py4JNetworkError
except ImportError:  # pyspark-client comes without py4j
    JAVA_ERRORS: tuple[type[Exception], ...] = ()
    GATEWAY_ERRORS = LOST_ERRORS = JAVA_ERRORS
else:
    #: Errors of Java that PySpark has no class for, such as those of file systems.
    JAVA_ERRORS = (Py4JJavaError,)
    #: All errors of a call into the JVM.
    GATEWAY_ERRORS = (Py4JError, ConnectionRefusedError)
    #: Those of a JVM that is gone, or that another one has taken the place of.
    LOST_ERRORS = (Py4JNetworkError, Py4JAuthenticationError, ConnectionRefusedError)

#: All errors of a statement that Spark could not carry out.
SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException, *JAVA_ERRORS)


def java_cause(error: BaseException) -> str:
    """Return the first line of an error of Java."""
    return str(getattr(error, "java_exception", error)).partition("\n")[0]
