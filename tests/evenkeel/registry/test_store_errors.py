"""What a store's errors say: which package to install for a place, and what the place needs."""

from __future__ import annotations

import socket
import sys

import fsspec
import pytest
from fsspec.registry import _registry as loaded

from evenkeel.registry.files import whole_files
from evenkeel.registry.store import Store
from evenkeel.registry.store_errors import StoreError
from partitioning.errors import SetupError


class Broken(fsspec.AbstractFileSystem):
    """A client whose own libraries are missing, as those of hdfs:// are without Java."""

    protocol = "broken"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        raise OSError("Unable to load libjvm\ndlopen(/a) failed\ndlopen(/b) failed")


@pytest.mark.parametrize(
    ("url", "package", "fix"),
    [
        ("s3://lake/x", "s3fs", "Run: pip install 's3fs>=2025.3'; "),
        ("s3a://lake/x", "s3fs", "Run: pip install 's3fs>=2025.3'; "),
        ("gs://lake/x", "gcsfs", "Install gcsfs to access Google Storage; "),
        ("abfs://lake/x", "adlfs", "Install adlfs to access Azure Datalake Gen2 and "),
        ("sftp://lake/x", "paramiko", 'SFTPFileSystem requires "paramiko" to be installed; '),
    ],
)
def test_a_missing_package_is_named(
    url: str, package: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = url.partition(":")[0]
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(loaded, protocol, raising=False)
    with pytest.raises(SetupError) as refused:
        Store(url)
    assert str(refused.value).startswith(
        f"{url}: {protocol}:// needs a package that is not installed. {fix}"
    )


@pytest.mark.parametrize("url", ["nowhere://lake/x", "zip::nowhere://lake/x"])
def test_an_unknown_protocol_is_named_with_what_is_expected(url: str) -> None:
    with pytest.raises(SetupError) as refused:
        Store(url)
    assert str(refused.value).startswith(
        f"{url}: cannot be reached (Protocol not known: nowhere). "
        "Give a path, or a URL that fsspec knows, such as s3://, gs:// or abfs://; "
    )


def test_a_client_that_cannot_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loaded, "broken", Broken)
    with pytest.raises(SetupError, match=r"\(Unable to load libjvm\)") as refused:
        Store("broken://lake/x")
    assert "dlopen" not in str(refused.value)


def test_a_name_node_that_does_not_answer_is_an_error_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole_files, "READ_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = Store(f"webhdfs://127.0.0.1:{silent.getsockname()[1]}/registry")
        with pytest.raises(StoreError, match=r"cannot be looked at .*[Tt]imed out") as refused:
            store.exists("epochs")
    assert refused.value.retry
