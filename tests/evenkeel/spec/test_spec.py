"""Specs: defaults, paths, and an error that names file, field, value and what is allowed."""

import re
from pathlib import Path

import pytest

import evenkeel
from evenkeel.spec.loading import find_spec, load_spec
from partitioning.errors import InputError
from partitioning.strategies import PRODUCTION, STRATEGIES
from tests.support.cases.specs import GOOD, write

COPY = {"merge": "copy", "of": "city"}
#: One folder, written in two ways.
#: One state table inside the folder of another.
INSIDE = {"a": "/lake/state", "b": "/lake/state/more/b"}
TWICE = {"a": "state", "b": "./x/../state/"}


def test_defaults_and_paths(tmp_path):
    spec = load_spec(write(tmp_path))
    assert (spec.slots, spec.strategy, spec.null_keys, spec.window) == (
        4096,
        "frontier",
        "refuse",
        28,
    )
    assert spec.input.path == str(tmp_path / "in.parquet")
    assert spec.registry == str(tmp_path / "registry")
    assert spec.state["flights"].path == str(tmp_path / "state")
    assert [c.name for c in spec.channel_list()] == ["0", "1", "2", "3"]


def test_a_table_of_copies_is_a_build_side(tmp_path):
    cities = {"path": "cities", "columns": {"city": COPY, "zone": {**COPY, "of": "zone"}}}
    spec = load_spec(write(tmp_path, state={**GOOD["state"], "cities": cities}))
    assert {n: t.copied for n, t in spec.state.items()} == {"flights": False, "cities": True}


@pytest.mark.parametrize("name", PRODUCTION)
def test_a_production_strategy_is_taken(tmp_path, name):
    spec = load_spec(write(tmp_path, split={"by": "id"}, strategy=name, max_imbalance=1.2))
    assert spec.strategy == name and (spec.split.by, spec.split.copies) == ("id", None)


@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - set(PRODUCTION)))
@pytest.mark.parametrize("split", [None, {"by": "id"}])
def test_a_baseline_is_refused_in_one_error(tmp_path, name, split):
    file = write(tmp_path, strategy=name, split=split)
    with pytest.raises(InputError) as error:
        load_spec(file)
    said = (
        f"strategy: expected one of uniform, consistent, scan, redist, readj, frontier; found "
        f"{name!r}, a baseline, which only backtests run: set frontier"
    )
    assert said in str(error.value) and str(file) in str(error.value)
    assert str(error.value).count("strategy") == 1


def test_channels_by_name_and_capacity(tmp_path):
    spec = load_spec(write(tmp_path, channels=[{"name": "a"}, {"name": "b", "capacity": 2}]))
    assert [(c.name, c.capacity) for c in spec.channel_list()] == [("a", 1.0), ("b", 2.0)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chanels": 4}, r"chanels: there is no such field \(got 4; allowed: table, key, "),
        (
            {"input": {"path": "x", "tme": "day"}},
            r"input.tme: there is no such field \(got 'day'; allowed: path, format, time\)",
        ),
        (
            {"state": {"s": {"path": "p", "x": 1, "columns": {"n": {"merge": "count", "y": 2}}}}},
            r"columns.n.y: .*\(got 2; allowed: merge, of, by\).*x: .*\(got 1; allowed: path, f",
        ),
        (
            {"state": {"s": {"path": "p", "columns": {"n": COPY, "m": {**COPY, "merge": "max"}}}}},
            r"yaml: state.s.columns: 'm' is merged by max, and 'n' by copy\. .*, so all "
            r"columns must be copy\. .* \(got \{'m'",
        ),
        (
            {"channels": [{"name": "a", "weight": 2}]},
            r"channels.0.weight: there .*\(got 2; allowed: name, capacity\)",
        ),
        (
            {"watch": {"evry": 5}},
            r"watch.evry: there is no such .*\(got 5; allowed: every, eta, tau, speed, memory\)",
        ),
        (
            {"watch": {"every": 1440}},
            r"watch.every: expected less than 1440 minutes, those of schedule @daily \(got 1440\)",
        ),
        ({"watch": {"every": 7}}, r"watch.every: must divide a day, 1440 minutes \(got 7\)"),
        (
            {"watch": {}, "input": {"path": "x"}},
            "watch: micro-batches are cut by input.time, which is not set",
        ),
        ({"channels": 0}, r"channels: must be 1 or more \(got 0; allowed: a number"),
        (
            {"channels": -3},
            r"yaml: channels: must be 1 or more \(got -3; allowed: a number from 1 to 100,000, or "
            r"a list of names and capacities\)\. Correct",
        ),
        (
            {"channels": "many"},
            r"yaml: channels: must be a whole number \(got 'many'; allowed: [^;]*$",
        ),
        ({"channels": [{"name": "a", "capacity": -1}]}, r"yaml: channels.0.capacity: [^;]*-1\)"),
        ({"channels": []}, r"channels: must have 1 entry or more \(got \[\]"),
        ({"key": ["dest", "Slot"]}, r"key: \['Slot'\] are names of columns that Evenkeel adds"),
        ({"key": ["channel"]}, r"key: \['channel'\] are names of columns that Evenkeel adds"),
        (
            {"state": {n: {**GOOD["state"]["flights"], "path": p} for n, p in TWICE.items()}},
            r"state.b.path: is that of state.a.path \(got '.*state'\)",
        ),
        (
            {"state": {n: {**GOOD["state"]["flights"], "path": p} for n, p in INSIDE.items()}},
            r"state.b.path: is inside of state.a.path \(got '.*state/more/b'\)",
        ),
        (
            {"registry": f"{GOOD['state']['flights']['path']}/registry"},
            r"registry: is inside of state.flights.path \(got '.*/registry'\)",
        ),
        ({"channels": [{"name": "a"}, {"name": "a"}]}, "channel names must differ"),
        ({"key": []}, "key: must have 1 entry or more"),
        ({"key": ["a", "A"]}, "key: key columns must differ, a column is given twice"),
        (
            {
                "state": {
                    "b": {
                        "path": "s",
                        "columns": {"n": {"merge": "count"}, "N": {"merge": "count"}},
                    }
                }
            },
            r"state.b.columns: \['N', 'n'\] differ by case alone; rename one",
        ),
        (
            {"input": {"path": "x"}, "schedule": {"partitions": ["s3://lake/x"]}},
            "schedule: partitions are days of input.time, which is not set",
        ),
        (
            {"null_keys": "ignore"},
            r"null_keys: must be 'refuse', 'drop' or 'keep' \(got 'ignore'\)",
        ),
        (
            {"sketch": "lossy"},
            "sketch: .*'exact', 'approx_top_k', 'space_saving' or 'lossy_counting'.*got 'lossy'",
        ),
        *(
            (
                {"sketch": name, "load": "n"},
                f"yaml: sketch: {name} counts events, and load is 'n'; take exact or space_saving",
            )
            for name in ("approx_top_k", "lossy_counting")
        ),
        ({"decay": 2}, "decay: must be 1 or less"),
        (
            {"decay": "often"},
            r"decay: must be 'auto' \(got 'often'; allowed: auto, or a number from 0",
        ),
        (
            {"strategy": "magic"},
            "strategy: expected one of uniform, .*found 'magic', which is no strategy",
        ),
        (
            {"split": {"row": "id"}},
            r"split.by: is missing; split.row: there is no .*allowed: by, copies, worth\)",
        ),
        ({"split": {"by": "dest"}}, "split.by: 'dest' is the same in all events of a key"),
        ({"split": {"by": "id", "copies": 1}}, "split.copies: must be 2 or more"),
        ({"split": {"by": "id", "worth": -1}}, "split.worth: must be 0 or more"),
        (
            {"split": {"by": "id"}, "options": {"resources": "LC"}},
            "options: with `split`, `resources` must name one resource only",
        ),
        ({"options": {"resorces": "L"}}, "options: .*no option 'resorces'. It has: .*resources"),
        ({"options": {"seconds": "long"}}, "options: .*frontier.seconds cannot be 'long'"),
        (
            {"trigger": 1.01, "max_imbalance": 1.5},
            "max_imbalance: may not be over trigger .got 1.5, trigger 1.01.",
        ),
        ({"input": {"path": "x", "format": "orc"}}, "input.format: .*'parquet'.*got 'orc'"),
        ({"table": "a b"}, "table: must begin with a letter, and have only letters, digits and _"),
        ({"state": {"s": 3}}, r"state.s: must be a mapping of fields \(got 3\)"),
        ({"state": 3}, r"state: must be a mapping of fields \(got 3\)"),
        ({"window": 2.5}, r"window: must be a whole number \(got 2.5\)"),
        ({"table": 7}, r"table: must be text \(got 7\)"),
        ({"channels": [{"name": ""}]}, r"channels.0.name: must not be empty \(got ''\)"),
        (
            {"state": {"s": {"path": "p", "columns": {"slot": {"merge": "count"}}}}},
            r"state.s: \['slot'\] are names of the key or",
        ),
        (
            {"state": {"s": {"path": "p", "columns": {"m": {"merge": "sum"}}}}},
            "state.s.columns.m: .*every other merge needs one",
        ),
        (
            {"state": {"s": {"path": "p", "columns": {"m": {"merge": "mean", "of": "x"}}}}},
            r"s.columns.m.merge: there is no such merge; allowed: count, .*copy \(got 'mean'",
        ),
        (
            {
                "state": {
                    "s": {"path": "p", "columns": {"m": {"merge": "max", "of": "x", "by": "t"}}}
                }
            },
            "state.s.columns.m: max takes no `by`; only last does",
        ),
        (
            {
                "input": {"path": "x"},
                "state": {"s": {"path": "p", "columns": {"m": {"merge": "last", "of": "x"}}}},
            },
            "yaml: state.s.columns.m: last needs `by`, or input.time",
        ),
        ({"trigger": float("inf")}, "trigger: must be a finite number"),
        ({"keep": 10**6}, "keep: must be 36,500 or less"),
        ({"options": {"resources": "B"}}, "options: resources must have L"),
        ({"schedule": "none"}, r"schedule: expected a cron .* or null .* \(got 'none'\)"),
        ({"schedule": "0 0 * *"}, r"schedule: expected a cron expression"),
        ({"schedule": 5}, r"schedule: must be text \(got 5\)"),
        ({"schedule": []}, r"schedule: must have 1 entry or more \(got \[\]\)"),
        ({"schedule": [7]}, r"schedule\.0: must be text \(got 7\)"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_what_is_allowed(tmp_path, changes, message):
    file = write(tmp_path, **changes)
    with pytest.raises(InputError, match=message) as caught:
        load_spec(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)
    # No word of pydantic's own messages.
    assert not re.search("[Ii]nput should|should have|valid |validation", str(caught.value))


@pytest.mark.parametrize("schedule", ["@daily", "@quarterly", "@once", "0 2 * * 1-5", None])
def test_a_schedule_that_airflow_reads_is_taken(tmp_path, schedule):
    assert load_spec(write(tmp_path, schedule=schedule)).schedule == schedule


def test_a_missing_field_is_named(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("table: x")
    with pytest.raises(InputError, match="key: is missing; input: is missing"):
        load_spec(file)


@pytest.mark.parametrize(
    "text", ["{", "- a", "", "a: !!python/object/apply:os.system [ls]", "\x00"]
)
def test_what_is_not_a_spec_is_refused(tmp_path, text):
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"x\.yaml"):
        load_spec(file)


def test_a_table_is_found_by_name(tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    assert evenkeel.open_table("flights").spec.key == ["dest"]
    with pytest.raises(InputError, match="there is no table 'fligths'.*Known: flights"):
        find_spec("fligths")


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).resolve().parents[3] / "tables").glob("*.yaml"))
)
def test_the_examples_are_good(file):
    assert load_spec(file).table == file.stem
