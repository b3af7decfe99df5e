"""The store: what is not there is told from what cannot be known, on real disks and on an S3."""

from __future__ import annotations

import http.client
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from evenkeel.registry.epochs import Registry, TableVersion
from evenkeel.registry.files.whole_files import Conditional
from evenkeel.registry.store import Store
from evenkeel.registry.store_errors import StoreError
from evenkeel.registry.verdict import read_rolled_back
from partitioning.errors import DamagedError, InputError
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn


@pytest.fixture
def no_answer(tmp_path: Path) -> Registry:
    """A registry whose folder of the run `r`, and whose epochs, cannot be looked at: each is a
    link to itself."""
    (tmp_path / "registry" / "runs").mkdir(parents=True)
    for loop in (tmp_path / "registry/runs/r", tmp_path / "registry/epochs"):
        loop.symlink_to(loop)
    return Registry(str(tmp_path / "registry"))


def one_line(error: pytest.ExceptionInfo[StoreError], where: str) -> None:
    assert where in str(error.value) and "\n" not in str(error.value)
    assert error.value.exit_code == 75


def test_a_fence_does_not_pass_where_the_mark_cannot_be_looked_at(no_answer: Registry) -> None:
    with pytest.raises(StoreError, match="cannot be read .*symbolic links") as error:
        read_rolled_back(no_answer.run("r"), "digest")
    one_line(error, "runs/r/rolled_back.json")
    with pytest.raises(StoreError, match="cannot be listed") as error:
        no_answer.current()
    one_line(error, "registry/epochs")


def test_what_cannot_be_read_or_written_is_one_line(no_answer: Registry, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for store, name in ((no_answer.store, "runs/r/x"), (Store(str(tmp_path / "file")), "x")):
        for act in (store.write, store.create):
            with pytest.raises(StoreError, match="cannot be written") as error:
                act(name, b"")
            one_line(error, store.path(name))
        with pytest.raises(StoreError, match="cannot be read") as error:
            store.read(name)
        one_line(error, store.path(name))
    beside_a_file = Store(str(tmp_path / "file"))
    assert not beside_a_file.exists("x") and beside_a_file.names("x") == []


def _errors_of_clients() -> list[Exception]:
    """Errors as clients of stores raise them, of classes that are no OSError but for the last."""
    import aiohttp
    import urllib3
    from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
    from fsspec.exceptions import FSTimeoutError

    return [
        ClientError({"Error": {"Code": "503", "Message": "Slow Down"}}, "GetObject"),
        EndpointConnectionError(endpoint_url="http://nowhere"),
        NoCredentialsError(),
        aiohttp.ClientPayloadError("cut off"),
        urllib3.exceptions.ProtocolError("cut off"),
        http.client.IncompleteRead(b""),
        FSTimeoutError(),
        TimeoutError("too late"),
        OSError("no route"),
    ]


ACTS: list[Callable[[Store], object]] = [
    lambda store: store.exists("x"),
    lambda store: store.names("x"),
    lambda store: store.read("x"),
    lambda store: store.write("x", b""),
    lambda store: store.create("x", b""),
]


class Failing:
    """A file system of which every call raises this."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> object:
        def fail(*_: object, **__: object) -> None:
            raise self.error

        return (lambda: None) if name == "invalidate_cache" else fail


def failing(error: Exception) -> Store:
    store = Store("memory://lake/registry")
    store._fs = Failing(error)
    store._files = Conditional(store._fs)
    return store


@pytest.mark.parametrize("act", ACTS)
def test_an_error_of_a_stores_client_is_an_outage(act: Callable[[Store], object]) -> None:
    errors = list(_errors_of_clients())
    assert errors
    for error in errors:
        with pytest.raises(StoreError, match="cannot be") as raised:
            act(failing(error))
        one_line(raised, "lake/registry/x")


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    "error", [TypeError("x"), KeyError("x"), AttributeError("x"), ValueError()]
)
def test_a_fault_of_ours_is_no_outage(error: Exception, act: Callable[[Store], object]) -> None:
    """Else Airflow would try it again and again, and people would look at the store."""
    with pytest.raises(type(error)):
        act(failing(error))


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a name inside the folder"):
        Store(str(tmp_path)).exists("a\0b")


class Counted(Store):
    """Counts what it is asked."""

    asked = 0

    def __getattribute__(self, name: str) -> object:
        if name in ("exists", "names", "read"):
            self.asked += 1
        return super().__getattribute__(name)


def published(folder: Path, count: int) -> Registry:
    """A registry of so many epochs, which keep a plan each."""
    registry = Registry(str(folder))
    function = PartitioningFunction(
        (KeyColumn("k", "string"),), numbered_channels(2), np.arange(8) % 2, strategy="uniform"
    )
    for number in range(count):
        registry.publish(function, {"t": TableVersion("state/t", 3)}, f"d{number}")
        registry.store.write(f"epochs/{number:08d}/plan.json", b"{}")
        function = replace(function, epoch=number + 1, parent=function.digest)
    return registry


def test_fences_ask_as_often_for_many_epochs_as_for_few(tmp_path: Path) -> None:
    asked = []
    for count in (2, 40):
        registry = published(tmp_path / str(count), count)
        registry.store = counted = Counted(registry.url)
        assert registry.current().number == count - 1
        assert registry.published(count - 1, f"d{count - 1}")
        assert not registry.published(count, "d")
        assert registry.numbers() == list(range(count))
        asked.append(counted.asked)
    assert asked[0] == asked[1] <= 10


def test_an_older_epoch_without_its_file_is_told_when_it_is_read(tmp_path: Path) -> None:
    registry = published(tmp_path, 4)
    registry.store.remove("epochs/00000001/epoch.json")
    assert registry.current().number == 3
    for left in (True, False):
        if not left:
            registry.store.remove("epochs/00000001/plan.json")
        with pytest.raises(
            DamagedError, match=r"00000001/epoch\.json: is missing, but epoch 3 was"
        ):
            registry.epoch(1)
        with pytest.raises(DamagedError):
            registry.published(1, "d1")


@pytest.mark.parametrize("gone", [0, 1])
def test_an_older_epoch_without_its_folder_is_no_epoch_that_never_was(
    tmp_path: Path, gone: int
) -> None:
    registry = published(tmp_path, 4)
    shutil.rmtree(tmp_path / f"epochs/{gone:08d}")
    assert registry.current().number == 3
    with pytest.raises(DamagedError, match=rf"{gone:08d}/.*: is missing, but epoch 3 was"):
        registry.epoch(gone)
    with pytest.raises(DamagedError):
        registry.published(gone, f"d{gone}")
    for never in (-1, 4):
        with pytest.raises(InputError, match=r"there is no epoch .*Published: 0 to 3"):
            registry.epoch(never)


@pytest.mark.slow
def test_a_bucket_answers_until_it_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    s3fs = pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        s3fs.S3FileSystem().mkdir("lake")
        store = Store("s3://lake/registry")
        assert not store.exists("a/b") and store.names("a") == []
        with pytest.raises(FileNotFoundError):
            store.read("a/b")
        store.create("a/b", b"1")
        assert store.exists("a/b") and store.names("a") == ["b"] and store.read("a/b") == b"1"
        # A kill between the two leaves the probe, which is all that is swept.
        for name in (f".probe.{'0a' * 16}", ".probe.x"):
            store.write(name, b"one")
        assert (store.sweep(1), store.sweep(-1)) == (0, 1)
        assert store.exists("a/b") and store.exists(".probe.x")
        hour = timedelta(hours=1)
        for file in ("runs/old/x", "runs/old/below/y"):
            store.write(file, b"")
        assert store.unchanged("runs", datetime.now(UTC) - hour) == []
        assert store.unchanged("runs", datetime.now(UTC) + hour) == ["old"]
        for _ in range(2):
            store.remove_folder("runs/old")
            assert store.unchanged("runs", datetime.now(UTC) + hour) == []
        server.stop()
        for act in (lambda: store.exists("a/b"), lambda: store.write("c", b"")):
            with pytest.raises(StoreError, match="cannot be") as error:
                act()
            one_line(error, "lake/registry/")
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.stop()
