"""Tasks are dealt to cores as Spark's scheduler does it: in order, to the core that is free."""

import pytest

from benchmarks.skew.skewed_join import fullest


@pytest.mark.parametrize(
    ("rows", "cores", "most"),
    [
        ([5, 1, 1, 1], 4, 5),
        ([5, 1, 1, 1], 2, 5),
        # The last task comes to the core that has 2, not to the one that has 3.
        ([3, 1, 1, 3], 2, 5),
        ([1] * 33, 16, 3),
        ([4], 16, 4),
    ],
)
def test_the_fullest_core(rows: list[int], cores: int, most: int) -> None:
    assert fullest(rows, cores) == most
