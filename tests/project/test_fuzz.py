"""Inputs of people and disks, damaged at random: an answer, or an error of ours in one line.

`EVENKEEL_FUZZ=N` tries N of each kind (`make fuzz`: 15,000, 150,000 in all); otherwise forty.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evenkeel.pipeline.steps import read_plan
from evenkeel.registry.epochs import Registry
from evenkeel.registry.verdict import read_rolled_back
from evenkeel.render.formatting import read_bytes
from evenkeel.spec.loading import load_spec
from evenkeel.spec.run_params import Params
from evenkeel.watch import state_file
from evenkeel.watch.state import PendingDecision, WatchState
from partitioning.errors import DamagedError, EvenkeelError, InputError
from partitioning.function.canonical import digest
from partitioning.function.channels import numbered_channels
from partitioning.function.hashing import KeyColumn
from partitioning.planning.plan import Plan, make_plan
from partitioning.strategies.hashing import consistent
from partitioning.strategies.skew import Threshold
from partitioning.watch.controller import Controller
from partitioning.watch.mitigation import Mitigation, Sample
from partitioning.workload.profile import (
    Profile,
    Sketch,
    profile_of_keys,
)
from tests.conftest import SPEC
from tests.support import airflow_env  # noqa: F401 - before plugins import Airflow
from tests.support.cases.damage import SCALARS, damaged, torn
from tests.support.reached import must_reach, reach

pytestmark = pytest.mark.filterwarnings("ignore")
fuzz = settings(
    max_examples=int(os.environ.get("EVENKEEL_FUZZ", "40")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def _example() -> tuple[Profile, Plan]:
    key, channels = (KeyColumn("k", "string"),), numbered_channels(3)
    hashes = np.arange(-20, 20, dtype=np.int64) * 10**17
    profile = profile_of_keys(key, hashes, np.arange(40.0) ** 2, 16, threshold=1000.0)
    previous = consistent(profile, None, channels)
    return profile, make_plan("t", profile, previous, channels, tables={"s": 3})


PROFILE, PLAN = _example()
PLAN_JSON = json.loads(json.dumps(PLAN.to_dict()))
WHOLE_SPEC = {**SPEC, "split": {"by": "id", "copies": 3}, "watch": {"every": 15, "eta": 2}}


def answered(what: Any, *errors: type[EvenkeelError]) -> Any:
    """The answer, or an error of these, that says where in one line; anything else is a bug."""
    try:
        return what()
    except errors as error:
        return None if error.what else pytest.fail("an error that says nothing")


#: What YAML is made of: tags with and without a value of theirs, numbers, dates, brackets, aliases.
TOKENS = st.sampled_from(
    [
        *(
            "!!bool ",
            "!!int ",
            "!!float ",
            "!!timestamp ",
            "!!binary ",
            "!!set ",
            "!!omap ",
            "!!map ",
        ),
        *("2026-02-30", "2026-02-03", "12:61:99", "-0x", "0o9", "1_0", ".", ".inf", "~", "yes"),
        *("[", "]", "{", "}", ": ", "- ", "? ", ", ", "&a ", "*a", "<<: ", "|", ">", "'", '"'),
        *("\n", "\n  ", "# ", "%", "---\n", "keep: ", "options: ", "input: ", "a", "-", "=", "@"),
        "9" * 5000,
        "[" * 1000,
    ]
)
YAML_TEXT = st.lists(TOKENS, max_size=12).map("".join)
#: A field of a spec that is right otherwise, so that the rest is read, too.
YAML_FIELD = YAML_TEXT.map(lambda text: f"{yaml.safe_dump(WHOLE_SPEC)}keep: {text}\n")


@fuzz
@given(
    st.one_of(YAML_TEXT, YAML_FIELD, damaged(WHOLE_SPEC).map(yaml.safe_dump), st.text(max_size=60))
)
def test_specs(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.yaml"
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        spec = answered(lambda: load_spec(file), InputError)
        assert spec is None or spec.channel_list()


@must_reach("a damaged plan is read")
@fuzz
@example(PLAN_JSON)
@example({**PLAN_JSON, "table": "another"})
@given(damaged(PLAN_JSON))
def test_plans(data: Any) -> None:
    plan = answered(lambda: Plan.from_dict(data), DamagedError)
    if plan is not None:
        if data != PLAN_JSON:
            reach("a damaged plan is read")
        # Whatever else it is, it is not the plan that was approved, unless it is that very one.
        same = json.dumps(plan.to_dict(), sort_keys=True) == json.dumps(PLAN_JSON, sort_keys=True)
        assert same == (plan.digest == PLAN.digest)


@must_reach("an epoch of a damaged function is read")
@fuzz
@example(PLAN_JSON["function"], True)
@example({**PLAN_JSON["function"], "strategy": "another"}, True)
@given(damaged(PLAN_JSON["function"]), st.booleans())
def test_epochs(function: Any, signed: bool) -> None:
    registry = Registry(f"memory://fuzz-{os.getpid()}")
    data = {
        "format": 1,
        "number": 0,
        "function": function,
        "plan_digest": None,
        "tables": {"s": {"path": "p", "version": 3}},
        "published": "2026-01-01T00:00:00+00:00",
    }
    try:
        sign = digest(data) if signed else "0" * 64
    except ValueError:
        # What canonical JSON does not write, a person's editor may: NaN, half a character.
        sign = "0" * 64
    file = json.dumps({**data, "digest": sign}).encode()
    registry.store.write("epochs/00000000/epoch.json", file)
    epoch = answered(registry.current, DamagedError)
    if epoch is not None:
        if function != PLAN_JSON["function"]:
            reach("an epoch of a damaged function is read")
        key = [["a"] if c.type == "string" else [1] for c in epoch.function.key]
        assert signed and len(epoch.lookup(*key)) == 1


@fuzz
@given(st.one_of(damaged(PLAN_JSON).map(lambda d: json.dumps(d).encode()), st.binary(max_size=99)))
def test_files_of_a_run(data: bytes) -> None:
    registry = Registry(f"memory://fuzz-{os.getpid()}")
    registry.store.write("runs/r/plan.json", data)
    answered(lambda: read_plan(registry.run("r")), DamagedError)


def _watched() -> bytes:
    """watch.json of a watch that has seen batches and spread a key."""
    spread = {-5: Mitigation(0, (1, 2), {1: 1.0, 2: 1.0}, 1)}
    sample = Sample(((np.array([1.5, 2, 3]), {-5: 1.5}),))
    watch = Controller(Threshold(0.5, 0.4, 0.6), 7, sample, spread, {-5: (3, 7)}, 2)
    decided = PendingDecision("r", 7, {-5: {0: 1.0}}, watch)
    registry = Registry(f"memory://fuzz-watch-{os.getpid()}")
    state_file.write(registry, WatchState("s", 3, watch, np.zeros(3), decided, "told"))
    return registry.store.read(registry.files.watch.name)


WATCHED = _watched()


@must_reach("a watch is read")
@fuzz
@example(WATCHED)
@given(st.one_of(torn(WATCHED), damaged(json.loads(WATCHED)).map(lambda d: json.dumps(d).encode())))
def test_watch_files(data: bytes) -> None:
    registry = Registry(f"memory://fuzz-watch-{os.getpid()}")
    registry.store.write(registry.files.watch.name, data)
    found = answered(lambda: state_file.read(registry), DamagedError)
    if found is not None:
        reach("a watch is read")
        state_file.write(registry, found)
        assert registry.store.read(registry.files.watch.name) == WATCHED


@fuzz
@given(torn(PROFILE.to_bytes()))
def test_profiles(data: bytes) -> None:
    answered(lambda: Profile.from_bytes(data), DamagedError)


@fuzz
@given(torn(PROFILE.sketch().to_bytes()))
def test_sketches(data: bytes) -> None:
    answered(lambda: Sketch.from_bytes(data), DamagedError)


@fuzz
@given(torn(b'{"digest": "d", "done": true}') | st.just(b"{}") | st.just(b"[" * 200_000))
def test_marks_of_runs_that_go_back(data: bytes) -> None:
    registry = Registry(f"memory://fuzz-mark-{os.getpid()}")
    registry.store.write("runs/r/rolled_back.json", data)
    mark = answered(lambda: read_rolled_back(registry.run("r"), "d"), DamagedError)
    assert mark is None or mark.digest == "d"


@fuzz
@given(
    st.dictionaries(
        st.sampled_from([*Params.model_fields, "else"]), SCALARS | st.lists(SCALARS, max_size=3)
    )
)
def test_params(values: dict[str, Any]) -> None:
    problems = Params.problems(values)
    params = answered(lambda: Params.of(values), InputError)
    assert (params is None) == bool(problems)


#: What people write into forms: numbers with units, of any length, and anything else.
ENTRIES = (
    st.builds(
        "{}{}{}".format,
        st.integers().map(str) | st.floats().map(str) | st.sampled_from(["9" * 310, "1,000", "٣"]),
        st.sampled_from(["", " ", "\u00a0"]),
        st.sampled_from(["", "kB", "TB", "PB", "%"]),
    )
    | st.sampled_from(["on", "off", "", "2013-02-30", "1e999", "1 2 x", "\x00"])
    | st.text(max_size=8)
)


@pytest.mark.airflow
@fuzz
@given(st.dictionaries(st.sampled_from([*Params.model_fields, "csrf", "else"]), ENTRIES))
def test_forms(given: dict[str, str]) -> None:
    forms = pytest.importorskip("evenkeel_ui.pages.forms")
    params, problems = forms.read_params(given)
    assert (params is None) == bool(problems)
    assert all(problems.values())


@pytest.mark.parametrize("text", ["9" * 310, "9" * 310 + " TB", "9" * 308 + " PB"])
def test_more_bytes_than_a_number_holds(text: str) -> None:
    with pytest.raises(InputError, match="a finite number of bytes"):
        read_bytes(text)
