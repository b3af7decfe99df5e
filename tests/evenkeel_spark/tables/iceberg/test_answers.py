"""Which errors of Spark say that an Iceberg catalog is silent, and what is said of them."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from evenkeel.registry.store_errors import DeniedError
from evenkeel_spark.runtime.command import known_error
from evenkeel_spark.tables.iceberg.answers import too_early, unanswered

ICEBERG = "An error occurred while calling o1.sql.\n: org.apache.iceberg."
REFUSED = "\n\tat a.B\nCaused by: java.net.ConnectException: Connection refused\n\tat c.D"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"exceptions.RESTException: Error occurred{REFUSED}", "ConnectException: Connection ref"),
        ("exceptions.RESTException: Unable to process (code: 429, type: null)", "code: 429"),
        ("exceptions.ServiceUnavailableException: Service is away", "Service is away"),
        ("exceptions.ServiceFailureException: Server error: Internal", "Server error: Internal"),
        (
            "exceptions.RuntimeIOException: Failed to refresh the table\n\tat a.B\nCaused by: "
            "java.io.IOException: 503 Slow Down: /lake\n\tat c.D",
            "503 Slow Down",
        ),
        (f"jdbc.UncheckedSQLException: Failed to connect{REFUSED}", "Connection refused"),
        (
            "jdbc.UncheckedSQLException: Failed\nCaused by: org.postgresql.util.PSQLException: "
            "gone: jdbc:postgresql://h/db?user=u&password=secret is",
            "gone: jdbc:postgresql://h/db is",
        ),
    ],
)
def test_a_catalog_that_does_not_answer_is_named_and_asked_again(text: str, said: str) -> None:
    error = unanswered(PySparkException(ICEBERG + text), "lake.db.orders")
    assert error is not None and error.exit_code == 75 and error.retry
    assert "does not answer" in error.what and said in error.what
    assert "secret" not in str(error) and "lake.db.orders" in str(error)


def test_a_commit_of_which_nobody_knows_is_told_as_such() -> None:
    text = f"exceptions.CommitStateUnknownException: gateway timed out{REFUSED}"
    error = unanswered(PySparkException(ICEBERG + text))
    assert error is not None and "has not said whether a commit came in" in error.what


@pytest.mark.parametrize(
    "text",
    [
        "exceptions.RESTException: Unable to process (code: 405, type: null): not allowed",
        "exceptions.RESTException: Unable to process (code: 404, type: null): no such page",
        "jdbc.UncheckedSQLException: Failed\nCaused by: java.sql.SQLException: No suitable driver",
        "jdbc.UncheckedSQLException: Failed\nCaused by: FATAL: password authentication failed",
        "exceptions.CommitFailedException: Requirement failed: branch main has changed",
        f"exceptions.ValidationException: Missing{REFUSED}",
        "exceptions.ValidationException: Missing\n\tat a.B\n\tSuppressed: org.apache.iceberg."
        "exceptions.RESTException: not cleaned up\n\t\tat c.D",
    ],
)
def test_a_catalog_that_says_no_has_answered(text: str) -> None:
    assert unanswered(PySparkException(ICEBERG + text)) is None


def test_a_right_that_is_lacking_is_no_silence() -> None:
    text = "exceptions.ServiceFailureException: Server error: AccessDeniedException: /lake"
    assert isinstance(known_error(PySparkException(ICEBERG + text), None), DeniedError)
    assert unanswered(RuntimeError(ICEBERG + "exceptions.RESTException: of another kind")) is None


@pytest.mark.parametrize(
    "log", ["last snapshot log entry at", "the latest metadata log entry timestamp"]
)
def test_a_commit_before_the_newest_one_says_whose_clock_to_look_at(log: str) -> None:
    text = f"o1.sql: Invalid update timestamp 1000000: before {log} 8200000"
    error = too_early(PySparkException(text))
    assert error is not None and not error.retry
    assert "7,200 seconds ahead" in error.what and "1970-01-01 02:16 UTC" in str(error)
    assert str(known_error(PySparkException(text), None)) == str(too_early(PySparkException(text)))
    assert too_early(PySparkException("Invalid update of another kind")) is None
