"""The errors by which Spark fails. A client of Spark Connect has no JVM, so it lacks py4j's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from delta import exceptions as conflicts
from pyspark.errors import PySparkException

from partitioning.function.sql import OURS, epoch_name

if TYPE_CHECKING:
    from evenkeel.registry.epochs import Epoch

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
#: Delta's errors for a commit that lost against another writer. They share no base class.
CONFLICTS: tuple[type[Exception], ...] = (
    conflicts.ConcurrentAppendException,
    conflicts.ConcurrentDeleteDeleteException,
    conflicts.ConcurrentDeleteReadException,
    conflicts.ConcurrentTransactionException,
    conflicts.ConcurrentWriteException,
    conflicts.DeltaConcurrentModificationException,
    conflicts.MetadataChangedException,
    conflicts.ProtocolChangedException,
)
#: Names of these errors in Java. A client of Spark Connect has classes for them only where
#: somebody imports `delta.connect`.
_LOST_COMMIT = re.compile(
    r"io\.delta\.exceptions\.(Concurrent|DeltaConcurrent|MetadataChanged|ProtocolChanged)\w+"
    r"|\[DELTA_(CONCURRENT_\w+|METADATA_CHANGED|PROTOCOL_CHANGED)[.\]]"
)
#: Delta's error class for a row that a constraint does not admit.
REFUSED = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
#: The constraint in that error.
_REFUSED_BY = re.compile(r"CHECK constraint (\S+)")
#: Error that a writer's own MERGE raises for a row that has moved since it was routed.
_ROW_MOVED = "[USER_RAISED_EXCEPTION] evenkeel_moved"


def java_cause(error: BaseException) -> str:
    """Return the first line of an error of Java."""
    return str(getattr(error, "java_exception", error)).partition("\n")[0]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text: Spark's go on with a plan, or a stack."""
    return str(error).strip().splitlines()[0]


def may_try_again(error: BaseException, epoch: Epoch | None = None) -> bool:
    """Tell whether a write that failed may be tried again, by the epoch that is current then.

    Yes if another commit came first, or a constraint of Evenkeel's refused the rows, or your MERGE
    did by `raise_error('evenkeel_moved')`. None has written anything. A refusal may last for
    minutes, while rows move: wait between two tries. No if the constraint of the very epoch that
    routed the rows refuses them. Then a key is null, or the rows were routed by another column.

    Parameters
    ----------
    error : what Spark raised for your write
    epoch : by which you routed the rows; None: a refusal by its constraint counts as any other
    """
    said = str(error)
    lost = isinstance(error, CONFLICTS) or _LOST_COMMIT.search(said) is not None
    if REFUSED in said and epoch is not None:
        found = _REFUSED_BY.search(said)
        if found is not None and found[1] == epoch_name(epoch.number):
            return False
    return lost or (REFUSED in said and OURS in said) or _ROW_MOVED in said
