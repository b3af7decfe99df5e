"""How long snapshots stay, whatever a table asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from evenkeel_spark.tables.iceberg.retention import kept_for

AGE = "history.expire.max-snapshot-age-ms"


@pytest.mark.parametrize("age", [2**63 - 1, 10**14, 10**15])
def test_an_age_that_means_for_ever_is_a_date_that_can_be_written(age: int) -> None:
    kept = kept_for({AGE: str(age)}, 7)
    assert kept is not None and kept > timedelta(days=36_000)
    now = datetime.now(UTC)
    assert now - kept < now < now + kept


def test_the_longer_of_the_table_and_the_spec_counts() -> None:
    day = 86_400_000
    assert kept_for({AGE: str(3 * day)}, 7) == timedelta(days=7)
    assert kept_for({AGE: str(9 * day)}, 7) == timedelta(days=9)
    assert kept_for({}, 7) == timedelta(days=7)
    assert kept_for({"gc.enabled": "False"}, 7) is None
