"""Places that a spec names: its input is read, its state folders and registry are written."""

from __future__ import annotations

import csv
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import fsspec
import pyarrow.parquet as pq

from evenkeel.doctor import Finding, Status
from evenkeel.doctor.iceberg_settings import look_at_iceberg
from evenkeel.doctor.jars import s3_connector
from evenkeel.log_store import ONE_DRIVER, commits_exclude, store_scheme
from evenkeel.registry.store import Store
from evenkeel.registry.store_errors import store_errors
from evenkeel.spec.table_spec import TableSpec
from partitioning.errors import EvenkeelError

#: Folders that are followed down to the first file of an input.
_DEPTH = 8
#: Schemes that only Spark reaches: fsspec's own client of HDFS needs Java's libjvm.
_BY_HADOOP = ("hdfs", "viewfs")
#: Schemes that Spark reaches by connectors, also where fsspec has no client of them.
_BY_CONNECTOR = ("abfs", "abfss", "gs", "oci", "oss", "s3", "s3a", "s3n", "wasb", "wasbs")
#: Errors that a place gives: of its store, of its address, or for want of its client.
_FAULTS = (EvenkeelError, ImportError, ValueError, OSError)


def look_at_table(spec: TableSpec, conf: Mapping[str, str]) -> Iterator[Finding]:
    """Look at the places of one table.

    Parameters
    ----------
    conf : Spark's settings
    """
    yield readable(f"{spec.table}: input", spec.input.path, spec)
    places = [spec.input.path, *(state.path for state in spec.state.values())]
    if any(place.startswith("s3a://") for place in places):
        yield s3_connector(f"{spec.table}: connector of S3", conf)
    for scheme in sorted({urlsplit(place).scheme for place in places} & {"s3", "s3n"}):
        if f"spark.hadoop.fs.{scheme}.impl" not in conf:
            said = f"Spark's own Hadoop cannot open {scheme}://"
            fix = "Write s3a://, unless this Spark brings a connector for it, as EMR's does"
            yield Finding(f"{spec.table}: connector of {scheme}", Status.warning, said, fix)
    yield from look_at_iceberg(spec, conf)
    for name, state in spec.state.items():
        if state.format == "iceberg":
            # Spark alone reaches its files, by the catalog.
            continue
        made = state.plain and _no_delta(f"{spec.table}: state {name}", state.path)
        yield made or writable(f"{spec.table}: state {name}", state.path)
        yield log_store(f"{spec.table}: log store of {name}", state.path, conf)
    yield exclusive(f"{spec.table}: registry", spec.registry)


def readable(what: str, url: str, spec: TableSpec | None = None) -> Finding:
    """Look into the first file of an input: a file, a folder or a pattern.

    Parameters
    ----------
    spec : names the columns that it must have; None: any
    """
    if unseen := _unseen(what, url):
        return unseen
    if "{" in url:
        said = f"{url}: has a pattern that only jobs resolve, so it was not looked at"
        return Finding(what, Status.warning, said)
    try:
        with store_errors("read", url):
            if spec is not None and spec.input.format != "delta" and _is_delta(url):
                said = (
                    f"{url}: a Delta table, read as {spec.input.format}: removed rows would count"
                )
                return Finding(what, Status.wrong, said, "Set input.format to delta")
            if spec is not None and spec.input.format == "delta" and not _is_delta(url):
                said = f"{url}: expected a Delta table, found none"
                return Finding(what, Status.wrong, said, "Correct input.path or input.format")
            return _first_file(what, url, spec)
    except _FAULTS as error:
        return _wrong(what, url, error, "Correct input.path, or let this account read it")


def _unseen(what: str, url: str) -> Finding | None:
    """Return a warning for a place of jobs that only Spark reaches from here; None: look at it."""
    scheme, said, fix = urlsplit(url).scheme, "only jobs reach it, so it was not looked at", ""
    if scheme in _BY_CONNECTOR:
        try:
            fsspec.get_filesystem_class(scheme)
        except (ImportError, ValueError):
            fix = f"To have it looked at, install fsspec's client of {scheme}://"
    if not fix and scheme not in _BY_HADOOP:
        return None
    return Finding(what, Status.warning, f"{url}: {said}", fix)


def _no_delta(what: str, url: str) -> Finding | None:
    """Return what is wrong with a place that must have a team's Delta table; None: nothing."""
    with suppress(*_FAULTS):
        if not _unseen(what, url) and not _is_delta(url):
            said = f"{url}: expected a Delta table, found nothing"
            return Finding(what, Status.wrong, said, "Correct its path")
    return None


def _is_delta(url: str) -> bool:
    fs, place = fsspec.core.url_to_fs(url)
    return bool(fs.exists(f"{place.rstrip('/')}/_delta_log"))


def _first_file(what: str, url: str, spec: TableSpec | None) -> Finding:
    fs, place = fsspec.core.url_to_fs(url)
    if any(mark in place for mark in "*?["):
        place = next(iter(fs.glob(place)), place)
    for _ in range(_DEPTH):
        if not fs.isdir(place):
            break
        inside = (p.rstrip("/") for p in fs.ls(place, detail=False))
        shown = (p for p in inside if not p.rpartition("/")[2].startswith(("_", ".")))
        if (first := next(shown, None)) is None:
            return Finding(what, Status.warning, f"{url}: the folder is empty")
        place = first
    with fs.open(place, "rb") as file:
        file.read(1)
        if spec is None or (columns := _columns(file, spec.input.format)) is None:
            return Finding(what, Status.ok, url)
    # Folders of a partitioned input, `day=2026-01-01`, are columns, too.
    columns += [part.partition("=")[0] for part in place.split("/") if "=" in part]
    missing = [f"{c!r} ({f})" for c, f in spec.input_columns.items() if c not in columns]
    if not missing:
        return Finding(what, Status.ok, url)
    said = f"{place}: there is no column {', '.join(missing)}"
    return Finding(what, Status.wrong, said, f"Its columns: {', '.join(columns[:40])}")


def _columns(file: IO[bytes], kind: str) -> list[str] | None:
    """Return the columns of an input's file; None: only Spark can tell."""
    file.seek(0)
    if kind == "parquet":
        return list(pq.read_schema(file).names)
    if kind != "csv":
        return None
    first = file.readline()
    with suppress(UnicodeDecodeError):
        return next(csv.reader([first.decode("utf-8-sig")]), [])
    # Compressed, or in another encoding.
    return None


def writable(what: str, url: str) -> Finding:
    """Write a probe file and remove it; its name is hidden from Delta and from listings."""
    if unseen := _unseen(what, url):
        return unseen
    try:
        store = Store(existing(url))
        name = f".probe.{uuid.uuid4().hex}"
        try:
            store.write(name, b"probe")
        finally:
            store.remove(name)
    except _FAULTS as error:
        return _wrong(what, url, error, "Correct its path, or let this account write there")
    return Finding(what, Status.ok, url)


def exclusive(what: str, url: str) -> Finding:
    """Try whether the registry's store creates a file only once."""
    try:
        Store(existing(url)).check_exclusive()
    except _FAULTS as error:
        return _wrong(what, url, error, "Correct registry, or let this account write there")
    return Finding(what, Status.ok, url)


def log_store(what: str, url: str, conf: Mapping[str, str]) -> Finding:
    """Judge whether two drivers that commit to a table at once exclude each other."""
    scheme = store_scheme(url, conf.get)
    if by := commits_exclude(scheme, conf.get):
        return Finding(what, Status.ok, by)
    fix = (
        f"Set spark.delta.logStore.{scheme}.impl to a log store that lets one commit in, such as "
        "io.delta.storage.S3DynamoDBLogStore on S3, or "
        f"{ONE_DRIVER}=true if no two programs ever write at once"
    )
    return Finding(what, Status.warning, "none in spark-defaults.conf: jobs will refuse", fix)


def existing(url: str) -> str:
    """Return the place itself, or the nearest folder over it that is there on a local disk."""
    scheme, found, rest = url.partition("://")
    if found and scheme != "file":
        return url
    place = Path(rest if found else url)
    # It is False also where a folder over it may not be entered, or a name is too long.
    while not os.path.exists(place) and place != place.parent:  # noqa: PTH110
        place = place.parent
    return str(place)


def _wrong(what: str, url: str, error: Exception, fix: str) -> Finding:
    said = str(error).strip().splitlines() or [type(error).__name__]
    if not isinstance(error, EvenkeelError) and url not in said[0]:
        said[0] = f"{url}: {said[0]}"
    return Finding(what, Status.wrong, said[0], fix)
