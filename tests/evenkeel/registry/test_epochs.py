"""The registry: exclusive creation, digests, fences, and names that may not leave the folder."""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from evenkeel.registry.epochs import Registry
from evenkeel.registry.run_folder import safe_name
from evenkeel.registry.store_errors import StoreError
from partitioning.errors import DamagedError, FenceError, InputError, MissingExtraError
from tests.support.raw_json import read_json, write_json
from tests.support.worlds.epochs import TABLES, after, first


@pytest.fixture(params=["local", "memory"])
def registry(request, tmp_path):
    url = str(tmp_path / "registry") if request.param == "local" else f"memory://{tmp_path}"
    return Registry(url)


def test_an_empty_registry_says_what_to_do(registry):
    assert registry.numbers() == []
    with pytest.raises(InputError, match="Bootstrap the table first"):
        registry.current()


def test_published_epochs_come_back_whole(registry):
    published = registry.publish(first(), TABLES)
    again = registry.current()
    assert (again.number, again.tables, again.published) == (0, TABLES, published.published)
    assert again.function.digest == first().digest
    assert again.lookup(["ORD"]).tolist() == first().lookup(["ORD"]).tolist()


def test_publishing_the_same_plan_again_changes_nothing(registry):
    registry.publish(first(), TABLES)
    once = registry.publish(after(first()), TABLES, "d1")
    assert registry.publish(after(first()), TABLES, "d1").published == once.published
    with pytest.raises(FenceError, match="already published by another run"):
        registry.publish(after(first()), TABLES, "d2")
    assert registry.numbers() == [0, 1]


def test_a_function_with_another_parent_is_refused(registry):
    registry.publish(first(), TABLES)
    with pytest.raises(FenceError, match="follows another epoch"):
        registry.publish(after(replace(first(), strategy="other")), TABLES, "d")
    with pytest.raises(FenceError, match="follows another epoch"):
        registry.publish(after(after(first())), TABLES, "d")
    assert registry.numbers() == [0]


def test_of_many_racers_one_publishes(tmp_path):
    registry = Registry(str(tmp_path))
    registry.publish(first(), TABLES)
    rivals = [after(first(), np.full(8, i % 2, dtype=np.int32)) for i in range(8)]

    def attempt(i):
        try:
            return registry.publish(rivals[i], TABLES, f"plan {i}").plan_digest
        except FenceError:
            return None

    with ThreadPoolExecutor(8) as pool:
        winners = [w for w in pool.map(attempt, range(8)) if w]
    assert winners == [registry.epoch(1).plan_digest]


@pytest.mark.parametrize("damage", ["torn", "edited", "empty", "list"])
def test_a_damaged_epoch_is_told_by_its_digest(tmp_path, damage):
    registry = Registry(str(tmp_path))
    registry.publish(first(), TABLES)
    file = tmp_path / "epochs" / "00000000" / "epoch.json"
    data = json.loads(file.read_text())
    data["function"]["slots"][3] ^= 1
    file.write_text(
        {
            "torn": file.read_text()[:-40],
            "edited": json.dumps(data),
            "empty": "",
            "list": "[]",
        }[damage]
    )
    with pytest.raises(DamagedError, match="epoch.json: (torn|not JSON|expected an object)"):
        registry.current()


def test_an_epoch_without_its_file_is_damage_and_not_the_one_before(registry):
    registry.publish(first(), TABLES)
    registry.publish(after(first()), TABLES, "d1")
    registry.store.write("epochs/00000001/plan.json", b"{}")
    registry.store.remove("epochs/00000001/epoch.json")
    registry.store.remove("epochs/00000001/epoch.json")
    for ask in (registry.current, registry.numbers):
        with pytest.raises(DamagedError, match=r"00000001/epoch\.json: is missing, beside plan"):
            ask()
    with pytest.raises(DamagedError):
        registry.publish(after(first()), TABLES, "d2")


def test_a_publish_that_was_killed_or_is_under_way_is_no_damage(tmp_path):
    registry = Registry(str(tmp_path))
    registry.publish(first(), TABLES)
    folder = tmp_path / "epochs" / "00000001"
    folder.mkdir()
    assert registry.numbers() == [0]
    (folder / ".epoch.json.0123abcd").write_bytes(b"{")
    assert registry.current().number == 0
    assert registry.publish(after(first()), TABLES, "d1").number == 1
    assert registry.published(1, "d1")
    assert not registry.published(1, "d2")
    assert not registry.published(2, "d1")


def test_an_unknown_epoch_names_those_there_are(registry):
    registry.publish(first(), TABLES)
    with pytest.raises(InputError, match="there is no epoch 7.*Published: 0 to 0"):
        registry.epoch(7)


def test_runs_keep_what_steps_leave(registry):
    run = registry.run("manual__2026-01-01T00:00:00+00:00")
    with pytest.raises(InputError, match=r"plan.json is missing.*Run the steps before"):
        read_json(run, "plan.json")
    write_json(run, "plan.json", {"b": 1, "a": [2]})
    assert run.read("plan.json") == b'{"a":[2],"b":1}'
    assert run.exists("plan.json") and not run.exists("profile.npz")


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../b", "", "a\\..\\b"])
def test_no_name_leaves_the_folder(registry, name):
    with pytest.raises(InputError, match="not a name inside the folder"):
        registry.store.write(name, b"")


@pytest.mark.parametrize("column", ["route", "slot", "is_split"])
def test_columns_of_spark_say_that_spark_is_missing(registry, monkeypatch, column):
    epoch = registry.publish(first(), TABLES)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match="pyspark is not installed"):
        getattr(epoch, column)()


def test_a_run_id_becomes_a_folder_name():
    assert safe_name("manual__2026-01-01T00:00:00+00:00") == "manual__2026-01-01T00-00-00-00-00"
    assert safe_name("../../x") == "x"
    with pytest.raises(InputError):
        safe_name("...")


def test_what_killed_writes_left_is_swept_and_nothing_else(tmp_path):
    registry = Registry(str(tmp_path / "registry"))
    registry.publish(first(), TABLES)
    folder = tmp_path / "registry" / "epochs" / "00000000"
    torn = [folder / f".plan.json.{'0a' * 16}", folder / f".epoch.json.{'1b' * 16}"]
    for file in (*torn, folder / ".keep"):
        file.write_text("{")
    assert registry.store.sweep(1) == 0
    old = time.time() - 2 * 3600
    for file in [torn[0], *folder.iterdir()]:
        os.utime(file, (old, old))
    os.utime(torn[1])
    assert registry.store.sweep(1) == 1
    assert sorted(p.name for p in folder.iterdir()) == [torn[1].name, ".keep", "epoch.json"]
    assert Registry(f"memory://{tmp_path}").store.sweep(0) == 0


class Plain(MemoryFileSystem):
    """A store whose client knows no exclusive create, as old ones of S3."""

    protocol = "plain"

    def _open(self, path, mode="rb", **more):
        if mode == "xb":
            raise NotImplementedError("File mode not supported")
        return super()._open(path, mode, **more)


class Forgetful(MemoryFileSystem):
    """A store whose exclusive create is none, as an old S3-compatible server's."""

    protocol = "forgetful"

    def open(self, path, mode="rb", **kwargs):
        return super().open(path, mode.replace("x", "w"), **kwargs)


def test_a_store_that_creates_a_file_twice_is_refused(registry):
    registry.store.check_exclusive()
    assert registry.store._fs.find(registry.store._root) == []
    fsspec.register_implementation("forgetful", Forgetful)
    with pytest.raises(InputError, match="two runs could publish one epoch"):
        Registry("forgetful://registry").store.check_exclusive()
    fsspec.register_implementation("plain", Plain)
    with pytest.raises(InputError, match="created once only .File mode not supported"):
        Registry("plain://registry").store.check_exclusive()
    # It may be back soon: no answer, and so no refusal.
    with pytest.raises(StoreError, match="cannot be written"):
        Registry("/proc/evenkeel").store.check_exclusive()
