"""Pages of docs/reference that come from code: what is committed is what the code says today."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Callable

import pytest
from jsonschema import Draft202012Validator

from evenkeel.pipeline.metrics import run_metrics
from evenkeel_spark.migration.placement import REPAIRING
from evenkeel_spark.tables.delta.constraints import epoch_name, moving_name
from setup.docs import causes
from setup.docs.reference import gates, settings
from setup.docs.reference.__main__ import FOLDER, PAGES
from setup.docs.reference.commands import parser_of
from setup.docs.reference.errors import kinds, messages
from setup.docs.reference.markdown import GENERATED, fields, sources, table
from setup.docs.reference.registry import schema
from tests.support.wheel import ROOT


@pytest.mark.parametrize(("name", "make"), PAGES.items())
def test_the_page_is_what_the_code_says(name: str, make: Callable[[], str]) -> None:
    assert (FOLDER / name).read_text() == make(), "run `make reference` and commit its pages"


def test_no_page_is_left_that_nothing_makes() -> None:
    marked = [p for p in FOLDER.rglob("*.md") if GENERATED in p.read_text()]
    assert len(marked) > 10
    assert {p.relative_to(FOLDER).as_posix() for p in marked} == {
        name for name in PAGES if name.endswith(".md") and not name.startswith("../")
    }


def test_each_expectation_of_a_gate_says_what_it_means_and_what_to_do() -> None:
    named = [
        what for module in gates.SUITES.values() for what, _ in gates.expectations(ROOT / module)
    ]
    assert len(named) > 25 and sorted(named) == sorted(gates.TEXTS)
    warn = [
        w
        for module in gates.SUITES.values()
        for w, warns in gates.expectations(ROOT / module)
        if warns
    ]
    assert warn == [
        "The bytes written are as predicted",
        "Each channel holds the rows that were predicted",
    ]
    page = gates.page_text()
    assert all(page.count(f"| {what} ") == 1 for what in named)


def test_a_job_is_asked_for_its_options_without_being_run() -> None:
    parser = parser_of("learn")
    assert {"--spec", "--run", "--relearn"} <= set(parser._option_string_actions)
    assert parser.parse_args(["--spec", "s", "--run", "r"]).relearn is False
    assert isinstance(parser, argparse.ArgumentParser)


def test_errors_are_found_with_what_to_do() -> None:
    found = {message.what: message for message in messages()}
    one = found["{text} is not a whole number"]
    assert (one.kind, one.path) == ("InputError", "spark_jobs/evenkeel_spark/jobs/generate.py")
    # A text that is a constant of another module.
    assert found["is missing, beside {others}: epoch {number} was published"].fix
    # Two modules have a constant of one name: each error has the text of its own module.
    assert found["epoch {number} is current, the plan starts from epoch {parent_epoch}"].fix == (
        "Plan again: start a new run"
    )
    assert len(found) > 250
    # Advice that a class or a table of texts has, and a message that a class words itself.
    assert "the watch then starts with an empty state" in found["torn or edited: {problem}"].fix
    assert "as in 2:0.3. *Or:* Give SIGMA:PHI" in one.fix
    assert found["may not be {cannot} ({why})"].fix.startswith("Give the account that runs this")
    assert "used" not in found
    # A function that returns the advice, and a value that depends on what was found.
    assert "evenkeel repair {table}" in found["{operation} came between, as version {version}"].fix
    assert (
        ". *Or:* Find in DESCRIBE HISTORY" in found["expected column {column}, found {there}"].fix
    )


def test_what_airflows_tasks_raise_themselves_is_found() -> None:
    found = {message.what: message for message in messages() if message.path.startswith("dags/")}
    clear = "Clear {first} with the tasks after it, so that DAGs that wait"
    of_run = "The run failed at {where}, but its epoch is published"
    assert found[of_run].fix.startswith(clear)
    assert found[of_run].kind == "AirflowFailException"
    assert found["the job {job} ended with {code}"].kind == "AirflowException"


def test_errors_of_the_demo_say_what_to_do() -> None:
    calls = [
        (file.name, call.lineno)
        for file in sorted((ROOT / "evenkeel" / "demo").rglob("*.py"))
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call)
        and getattr(call.func, "id", "") in ("InputError", "DamagedError")
        if len(call.args) < 3 and "fix" not in {word.arg for word in call.keywords}
    ]
    assert calls == []


def test_every_error_says_what_to_do() -> None:
    assert [f"{m.path}: {m.what}" for m in messages() if not m.fix] == []


def test_every_error_says_why_it_happens() -> None:
    """What it expected and found is no cause: it does not say how a user came there."""
    found = messages()
    assert causes.OF_CLASSES.keys() < {kind.__name__ for kind in kinds()}
    assert {f"{m.path}: {m.what}" for m in found if not causes.cause(m.what, m.fix)} == set()
    assert causes.unused([m.what for m in found]) == []
    page = PAGES["errors/registry.md"]()
    assert re.search(r"\| `not JSON \(\{error\}\)` \| The file does not hold .+ \| Restore", page)
    assert not causes.cause("the weather is bad", "")


def test_each_metric_has_a_unit_and_a_meaning_of_its_own() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", PAGES["metrics.md"](), re.M)
    assert {name for name, _, _ in rows} == fields(run_metrics.__doc__ or "").keys()
    assert {unit for _, unit, _ in rows} == {"ratio", "bytes", "rows", "seconds", "count", "0 or 1"}
    assert len({meaning for _, _, meaning in rows}) == len(rows) > 10


def test_each_number_of_a_spec_says_its_unit() -> None:
    row = re.compile(r"^\| `(\w+)` \| (?:whole )?number[^|]* \| .* \| (.+) \|$", re.M)
    meanings = dict(row.findall(PAGES["spec.md"]()))
    units = "number of|share|imbalance|days|bytes|rows|files|minutes|micro-batches|channels|loads?"
    unit = rf"\b({units})\b"
    assert {name for name, text in meanings.items() if not re.search(unit, text)} == set()
    assert len(meanings) > 18


def test_the_schema_takes_and_refuses_files() -> None:
    made = json.loads(schema())
    Draft202012Validator.check_schema(made)
    validator = Draft202012Validator(made)
    assert validator.is_valid({"asked.json": {"digest": "0a"}})
    assert not validator.is_valid({"asked.json": {"digest": 1}})
    assert not validator.is_valid({"migration.json": {"digest": "0a", "tables": 3}})


#: Delta's properties that the code reads, or lets others set, and never sets itself.
OF_OTHERS = {
    "delta.appendOnly",
    "delta.checkpoint",
    "delta.dataSkipping",
    "delta.generationExpression",
    "delta.setTransactionRetentionDuration",
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
    "delta.columnMapping.physicalName",
}


def test_the_page_of_settings_lists_each_property_and_constraint() -> None:
    texts = {
        node.value
        for _, tree, _ in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    named = {text for text in texts if re.fullmatch(r"delta(\.[a-zA-Z]+)+", text)} - OF_OTHERS
    assert named > {"delta.columnMapping.mode", "delta.logRetentionDuration"}
    constraints = {epoch_name(0), moving_name(0, "PLAN"), REPAIRING}
    page = settings.page_text()
    listed = named | {name.replace("0", "N") for name in constraints}
    assert [name for name in sorted(listed) if f"| `{name}` |" not in page] == []
    assert [name for name in sorted(OF_OTHERS) if f"| `{name}` |" in page] == []


def test_docstrings_and_tables_are_read_as_they_are_written() -> None:
    text = """Do it.

    one, two : first
        and second
    KEY : no field
    """
    assert fields(text) == {"one": "first and second", "two": "first and second"}
    assert table(["a", "b"], [["x|y", ""]]) == "| a |\n| --- |\n| x\\|y |"
