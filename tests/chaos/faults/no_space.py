"""A disk that is full from some moment on."""

from __future__ import annotations

import resource

from pyspark.sql import SparkSession


class NoSpace:
    """The kernel lets files of this process and its JVM grow no longer than so many bytes.

    It is as on a disk that is full after these: the rest of a file is torn off. `refused` is set by
    who has seen an error of it.
    """

    refused = False

    def __init__(self, spark: SparkSession) -> None:
        java = spark._jvm.java.lang.ProcessHandle.current()
        self._processes = (0, int(java.pid()))
        self._before: list[tuple[int, int]] = []

    def enter(self, most: int) -> None:
        """From now on."""
        for process in self._processes:
            _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
            self._before.append(resource.prlimit(process, resource.RLIMIT_FSIZE, (most, hard)))

    def leave(self) -> None:
        """There is space again."""
        for process, limits in zip(self._processes, self._before, strict=False):
            resource.prlimit(process, resource.RLIMIT_FSIZE, limits)
        self._before.clear()
