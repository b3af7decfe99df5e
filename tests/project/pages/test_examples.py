"""The example specs are right, two of them make tables, and their README lists each."""

import re
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evenkeel.runs.planning import plan_next
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.table import Table
from partitioning.function.function import KeyColumn
from partitioning.function.hashing import key_hash
from tests.support.wheel import ROOT

SPECS = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("file", SPECS, ids=lambda file: file.stem)
def test_an_example_is_a_right_spec(file):
    assert load_spec(file).table == file.stem


FIRST = date(2026, 1, 1)
#: What pandas makes of the events of a key, by the name of the merge.
FOLDS = {"count": "size", "sum": "sum", "min": "min", "max": "max"}


def made_up(spec, count=2000):
    """Events of a week with the columns that a spec names; the first key has half of them."""
    rng = np.random.default_rng(3)
    keys = np.where(rng.random(count) < 0.5, 0, rng.integers(1, 200, count))
    frame = pd.DataFrame({name: [f"{name} {k}" for k in keys] for name in spec.key})
    frame[spec.input.time] = [FIRST + timedelta(days=int(d)) for d in rng.integers(0, 7, count)]
    numbers = {c.of for state in spec.state.values() for c in state.columns.values() if c.of}
    for name in sorted(numbers - {*frame}):
        frame[name] = rng.integers(1, 100, count)
    if spec.split is not None:
        frame[spec.split.by] = [f"id {i}" for i in range(count)]
    return frame


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", ["sales_daily", "split_key"])
def test_an_example_makes_its_tables(name, spark, tmp_path):
    from evenkeel_spark.jobs.bootstrap import bootstrap
    from evenkeel_spark.jobs.learn import learn

    file = tmp_path / f"{name}.yaml"
    text = (ROOT / "examples" / file.name).read_text()
    file.write_text(text.replace("/data/", f"{tmp_path}/"))
    table = Table(load_spec(file))
    events, folder = made_up(table.spec), Path(table.spec.input.path)
    folder.mkdir(parents=True)
    events.to_parquet(folder / "events.parquet", index=False)
    end = FIRST + timedelta(days=7)
    assert bootstrap(spark, table, end)
    grouped = events.groupby(table.spec.key)
    for state in table.spec.state:
        found = table.state(state).toPandas().set_index(table.spec.key).sort_index()
        for column, how in table.spec.state[state].columns.items():
            expected = getattr(grouped[how.of] if how.of else grouped, FOLDS[how.merge])()
            assert found[column].to_dict() == expected.to_dict()
    # The next plan shares the heavy key where the spec says so, and no other.
    profile, _ = learn(spark, table, end)
    split, epoch = table.spec.split, table.epoch()
    row = split and KeyColumn(split.by, "string")
    made = plan_next(table.spec, table.registry, epoch, profile, Params(), {}, row)
    first = key_hash([[f"{table.spec.key[0]} 0"]], ["string"]).tolist()
    assert made.function.split.keys.tolist() == (first if split else [])


def test_the_readme_lists_each_example():
    text = (ROOT / "examples" / "README.md").read_text()
    assert set(re.findall(r"\]\((\w+\.yaml)\)", text)) == {file.name for file in SPECS}
    assert len(SPECS) == 7
