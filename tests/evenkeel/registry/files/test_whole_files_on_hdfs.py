"""The registry on HDFS, by its WebHDFS: Hadoop's mini cluster on loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from fsspec.core import url_to_fs

from evenkeel.registry.files.whole_files import beside
from evenkeel.registry.store import Store
from evenkeel.registry.store_errors import DeniedError, StoreError
from tests.support.cases.hadoop import Hadoop, hadoop

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("EVENKEEL_CLUSTER" not in os.environ, reason="Hadoop's jars: make cluster"),
]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with hadoop(tmp_path_factory.mktemp("hdfs"), yarn=False) as running:
        yield running


@pytest.fixture
def store(hdfs: Hadoop, request: pytest.FixtureRequest) -> Store:
    return Store(f"{hdfs.webhdfs}/{request.node.name}")


def test_of_many_that_create_a_file_one_wins(store: Store) -> None:
    store.check_exclusive()

    def create(i: int) -> bool:
        try:
            store.create("epochs/1.json", str(i).encode() * 1000)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(8)))
    assert sum(won) == 1
    assert store.read("epochs/1.json") == str(won.index(True)).encode() * 1000
    assert store.names("epochs") == ["1.json"] and store.sweep(-1) == 0


def test_a_reader_sees_the_old_file_or_the_new_one(store: Store) -> None:
    store.write("runs/a", b"0" * 10_000)
    with ThreadPoolExecutor(2) as pool:
        writes = pool.submit(
            lambda: [store.write("runs/a", b"%d" % (i % 10) * 10_000) for i in range(30)]
        )
        while not writes.done():
            seen = store.read("runs/a")
            assert len(seen) == 10_000 and len(set(seen)) == 1
        writes.result()
    before = store.stamps("runs")
    store.write("runs/a", b"9" * 10_000)
    assert store.stamps("runs") != before and list(before) == ["a"]


def test_files_and_folders_come_and_go(store: Store) -> None:
    now = datetime.now(UTC)
    assert not store.exists("runs/r/x") and store.names("runs") == []
    with pytest.raises(FileNotFoundError):
        store.read("runs/r/x")
    store.write("runs/r/x", b"x")
    store.write("runs/s", b"")
    assert store.exists("runs/r/x") and store.names("runs") == ["r", "s"]
    assert store.unchanged("runs", now - timedelta(minutes=1)) == []
    assert store.unchanged("runs", now + timedelta(minutes=1)) == ["r", "s"]
    store.remove("runs/s")
    store.remove_folder("runs/r")
    store.remove_folder("nothing")
    assert store.names("runs") == []


def test_what_a_kill_leaves_is_swept(store: Store) -> None:
    store.write("runs/r/x", b"old")
    left = beside(store.path("runs/r/x"))
    url_to_fs(store.url)[0].pipe_file(left, b"torn")
    assert store.read("runs/r/x") == b"old" and store.names("runs/r") == ["x"]
    assert store.sweep(1) == 0 and store.sweep(-1) == 1 and store.sweep(-1) == 0
    assert store.read("runs/r/x") == b"old"


def test_what_hdfs_refuses_is_an_error_of_the_store(store: Store) -> None:
    store.write("file", b"")
    with pytest.raises(StoreError, match=r"cannot be written \(403 .*file/.*below") as error:
        store.write("file/below", b"")
    assert "\n" not in str(error.value) and not isinstance(error.value, DeniedError)
    down = Store("webhdfs://127.0.0.1:1/registry")
    with pytest.raises(StoreError, match="cannot be looked at"):
        down.exists("a")
