"""A shop: a table of words with epoch 0 and one learned run, without any rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from evenkeel.pipeline import steps
from evenkeel.pipeline.publish import publish_checked
from evenkeel.registry.epochs import Epoch, Registry, TableVersion
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from partitioning.function.hashing import KeyColumn, key_hash
from partitioning.strategies.hashing import consistent
from partitioning.workload.profile import Profile, profile_of_keys
from tests.support.raw_json import read_json, write_json

SPEC: dict[str, Any] = {
    "table": "words",
    "key": ["word"],
    "input": {"path": "words.parquet", "time": "at"},
    "state": {"counts": {"path": "state", "columns": {"uses": {"merge": "count"}}}},
    "registry": "registry",
    "channels": 4,
    "slots": 64,
    # An aim and a trigger of its own: some load is left to be seen.
    "trigger": 1.1,
    "max_imbalance": 1.05,
}


KEY = (KeyColumn("word", "string"),)


class Shop:
    """A table with epoch 0 and the profile of a run `r`; no rows anywhere."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder = folder
        self.spec = str(folder / "words.yaml")
        self.respec(**changes)
        self.profile = words_profile()
        self.registry = Registry(str(folder / "registry"))
        spec = load_spec(self.spec)
        first = consistent(self.profile, None, spec.channel_list())
        tables = {name: TableVersion(s.path, 0) for name, s in spec.state.items()}
        self.registry.publish(first, tables)
        self.learn("r")

    def versions(self, first: int) -> dict[str, int]:
        """A version of each state table, the first one's given, each other's one higher."""
        return {name: first + place for place, name in enumerate(load_spec(self.spec).state)}

    def respec(self, **changes: Any) -> None:
        Path(self.spec).write_text(yaml.safe_dump({**SPEC, **changes}))

    def learn(self, run: str, profile: Profile | None = None) -> None:
        """What the Spark job would leave."""
        folder = self.registry.run(run)
        epoch = self.registry.current().number
        folder.write("profile.npz", (profile or self.profile).to_bytes())
        write_json(
            folder, "profile.json", {"tables": self.versions(3), "epoch": epoch, "seconds": 1}
        )

    def learn_row(self, run: str, profile: Profile | None = None) -> None:
        """As `learn`, with the column by which keys may be split."""
        self.learn(run, profile)
        folder = self.registry.run(run)
        row = {"row": {"name": "id", "type": "bigint"}}
        write_json(folder, "profile.json", {**read_json(folder, "profile.json"), **row})

    def plan(self, run: str = "r", **asked: Any) -> str:
        params = Params.of(asked)
        steps.decide(self.spec, run, params)
        return steps.plan(self.spec, run, params)

    def verified(self, run: str = "r") -> None:
        """What migrate and verify would leave: the epoch is published."""
        self.checked(run)
        self.look_and_publish(run)

    def look_and_publish(self, run: str = "r", number: int = 1) -> Epoch:
        """The last thing that verify does; the tables are in order."""
        folder = self.registry.run(run)
        made, spec = steps.read_plan(folder), load_spec(self.spec)
        return publish_checked(spec, self.registry, folder, made, number, lambda: self.versions(9))

    def checked(self, run: str = "r", success: bool = True, attempt: int = 1) -> None:
        """What migrate and verify would leave before the epoch is published."""
        folder = self.registry.run(run)
        digest = steps.read_plan(folder).digest
        write_json(
            folder,
            "gate_tables.json",
            {"success": success, "suite": "after", "results": [], "docs": None},
        )
        verified = {"digest": digest, "epoch": 1, "attempt": attempt, "tables": self.versions(9)}
        write_json(folder, "verify.json", verified)

    def publish(self, run: str, **asked: Any) -> Epoch:
        """A whole run."""
        self.learn(run)
        self.plan(run, **asked)
        self.verified(run)
        return self.registry.epoch(steps.publish(self.spec, run))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def words_profile(seed: int = 3) -> Profile:
    words = [f"word {i}" for i in range(300)]
    load = np.random.default_rng(seed).permutation(1e4 / np.arange(1, 301))
    hashes = key_hash([words], ["string"])
    made = profile_of_keys(KEY, hashes, load, 64, state=np.full(300, 50.0), threshold=100)
    return replace(made, window=("2013-01-01", "2013-01-29"))
