"""A store that is down or stands still, for Spark and Delta and for the registry at once.

Hadoop's local file system gives way to `FaultyStore.java`, which asks a switch before each
request; the registry's requests ask the same switch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from evenkeel.registry import store
from tests.chaos.home import World

_SOURCE = Path(__file__).with_name("FaultyStore.java")


class Outage:
    """What a store suffers below one table's folder, once it `begin`s; `met`: how many requests."""

    def __init__(self, switch: Any, world: World) -> None:
        self._switch, self._folder = switch, f"{world.folder}/"
        self.met = 0

    def begin(self, through: int = 0, seconds: float = 0, lost: bool = False) -> None:
        """Let so many requests through; then every one fails, or stands still for the seconds.

        Parameters
        ----------
        lost : count changes alone; the first that fails is made, and only its answer is lost
        """
        self._switch.on(self._folder, through, round(seconds * 1000), not lost)

    def deny(self) -> None:
        """From now on refuse, below the state tables, whatever would change something."""
        self._switch.on(f"{self._folder}state/", 0, -1, True)

    def end(self) -> None:
        """The store is back."""
        self.met += self._switch.off()

    def ask(self, path: Any) -> None:
        """One request; OSError where it fails."""
        self._of_switch(self._switch.ask, path)

    def answer(self, path: Any) -> None:
        """A request is done; OSError where its answer is lost."""
        self._of_switch(self._switch.answer, path)

    def _of_switch(self, request: Any, path: Any) -> None:
        try:
            request(str(path))
        except Py4JJavaError as error:
            raise OSError(error.java_exception.getMessage()) from None


@contextmanager
def outage(spark: SparkSession, world: World) -> Iterator[Outage]:
    """A store that is well until told otherwise, and again afterwards."""
    switch = _compiled(spark.sparkContext)
    found = Outage(switch, world)
    store_errors, unlink = store.store_errors, Path.unlink

    @contextmanager
    def asking(cannot: str, where: str, *errors: type[OSError]) -> Iterator[None]:
        with store_errors(cannot, where, *errors):
            found.ask(where)
            yield
            if cannot in ("written", "removed"):
                found.answer(where)

    def unlinking(path: Path, *args: Any, **kwargs: Any) -> None:
        found.ask(path)
        unlink(path, *args, **kwargs)
        found.answer(path)

    switch.install(True)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "store_errors", asking)
            # The only request of a store's that goes no other way.
            patch.setattr(Path, "unlink", unlinking)
            yield found
    finally:
        found.end()
        switch.install(False)


@cache
def _compiled(context: SparkContext) -> Any:
    """The switch, of a class made in the context's JVM: once, as Py4J knows classes by name."""
    jvm: Any = context._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE.read_text())
    return compiler.getClassLoader().loadClass("FaultyStore$Switch").newInstance()
