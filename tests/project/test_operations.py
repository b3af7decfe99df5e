"""Operations, alerts and the cluster: the example runs, and what the pages quote is said."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from evenkeel.cli import app
from evenkeel.registry.files.run_files import MEMBER_RECORDS, SPEC_CHANNELS, WINDOWS

# Before its example imports Airflow, whose folder would be one in the user's home.
from tests.support.airflow_env import HOME
from tests.support.alerts.receivers import json_receiver

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "docs/how-to/operate/alerts.md"
PAGES = (ROOT / "docs/how-to/cluster.md", ROOT / "docs/OPERATIONS.md", ALERTS)
TEXT = "\n".join(page.read_text() for page in PAGES)
SOURCE = "\n".join(
    file.read_text()
    for package in ("partitioning", "evenkeel", "spark_jobs", "dags")
    for file in sorted((ROOT / package).rglob("*.py"))
)


def policy() -> str:
    """The example of Airflow's local settings."""
    (code,) = [c for c in re.findall(r"```python\n(.*?)```", TEXT, re.S) if "task_policy" in c]
    return code


def test_the_example_tells_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    with json_receiver() as (url, heard):
        monkeypatch.setenv("ALERT_URL", url)
        made: dict[str, object] = {}
        exec(policy(), made)
        tasks = [
            SimpleNamespace(dag=SimpleNamespace(tags=tags), on_failure_callback=callbacks)
            for tags, callbacks in (
                ({"evenkeel"}, None),
                ({"evenkeel"}, [print]),
                ({"other"}, None),
            )
        ]
        for task in tasks:
            made["task_policy"](task)
        # Callbacks of notifiers stay.
        assert tasks[1].on_failure_callback[0] is print
        assert tasks[2].on_failure_callback is None
        (tell,) = tasks[0].on_failure_callback
        failed = SimpleNamespace(dag_id="rebalance_t", task_id="verify")
        tell({"task_instance": failed, "run_id": "r1", "exception": ValueError("why")})
        asyncio.run(made["late"]({"dag_run": {"dag_id": "rebalance_t", "dag_run_id": "r2"}}))
    assert heard == [
        {"dag": "rebalance_t", "run": "r1", "task": "verify", "error": "why"},
        {"dag": "rebalance_t", "run": "r2", "error": "late"},
    ]


@pytest.mark.airflow
def test_the_example_gives_a_rebalance_two_hours() -> None:
    """That Airflow takes the deadline; a triggerer does what it says two hours later."""
    sdk = pytest.importorskip("airflow.sdk")
    from airflow.configuration import AIRFLOW_HOME
    from airflow.serialization.serialized_objects import DagSerialization

    assert str(HOME) == AIRFLOW_HOME
    code = policy()
    made: dict[str, object] = {}
    exec(code, made)
    for name, count in (("rebalance_t", 1), ("maintain_t", 0)):
        dag = sdk.DAG(name, schedule=None, tags=["evenkeel"])
        made["dag_policy"](dag)
        stored = DagSerialization.to_dict(dag)["dag"].get("deadline") or []
        assert len(stored) == count
        assert all("airflow_local_settings.late" in str(one) for one in stored)


def test_dags_of_the_pages_with_our_operators_have_the_tag_that_the_example_looks_for() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    codes = [
        c
        for page in pages
        for c in re.findall(r"^ *```python\n(.*?)^ *```", page.read_text(), re.M | re.S)
    ]
    tags = []
    for tree in (ast.parse(textwrap.dedent(code)) for code in codes):
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        if names & {"ApplyWindow", "RebalanceTaskGroup", "SparkJob"}:
            (dag,) = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "DAG"]
            tags += [ast.literal_eval(k.value) for k in dag.keywords if k.arg == "tags"] or [[]]
    assert len(tags) >= 2
    assert [given for given in tags if "evenkeel" not in given] == []


def test_what_it_quotes_is_said_somewhere() -> None:
    """Errors in the table of faults; N, STEP and dots stand for what differs."""
    table = TEXT[TEXT.index("## Recover") : TEXT.index("## Slow it down")]
    quoted = [
        q for q in re.findall(r"`([^`]+)`", table) if " " in q and not q.startswith("evenkeel ")
    ]
    assert len(quoted) >= 6
    code = re.sub(r'"\s*\n\s*f?"', "", SOURCE)
    for quote in quoted:
        for part in re.split(r"\.\.\.| N |N$", quote.replace('"done": false', "done")):
            assert part.strip() in code, quote


def told() -> Iterator[tuple[bool, str, list[str]]]:
    """Each `evenkeel COMMAND ...` of the docs: whether it is a step, the command and its words."""
    fence = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.M | re.S)
    pages = [*ROOT.glob("*.md"), *ROOT.glob("examples/*.md"), *(ROOT / "docs").rglob("*.md")]
    for text in (page.read_text() for page in pages):
        steps = [
            (language == "sh", line)
            for language, block in fence.findall(text)
            if language in ("", "sh")
            for line in block.replace("\\\n", " ").split("\n")
        ]
        sentences = [
            (False, said)
            for said in re.findall(r"`((?:\S*/)?evenkeel [^`]+)`", fence.sub("", text))
        ]
        for step, said in steps + sentences:
            line = re.sub(r"\S*spark_jobs/(\w+)\.py", r"evenkeel job \1", " ".join(said.split()))
            for words in re.findall(r"(?:^|[ /(])evenkeel ([a-z][^|>&;)]*)", line):
                name, *rest = shlex.split(words, comments=True)
                yield step, name, rest


def options(words: list[str]) -> set[str]:
    """The options among a command's words; a value may hold options of another program."""
    return {w.split("=")[0] for w in words if re.match(r"--\w[^ ]*$", w)}


def test_the_console_takes_every_command_that_a_page_tells() -> None:
    known = typer.main.get_group(app).commands
    seen = set()
    for step, name, words in told():
        assert name in known, (name, words)
        seen.add(name)
        # A shell puts a variable's value there first.
        if step and not any("$" in word for word in words):
            known[name].make_context(name, [*words])
        elif name != "job":
            there = {o for p in known[name].params for o in (*p.opts, *p.secondary_opts)}
            assert options(words) <= {*there, "--help"}, (name, words)
    assert seen == set(known)


def test_jobs_take_what_its_commands_give_them(capsys: pytest.CaptureFixture[str]) -> None:
    # The wheel has no spark_jobs/: only the composed cluster, whose image is a checkout, names it.
    assert set(re.findall(r"spark_jobs/(\w+)\.py", TEXT)) == {"bootstrap"}
    commands = [
        (job, given)
        for _, name, words in told()
        if name == "job"
        for job in [next((w for w in words if re.match(r"[a-z]", w)), None)]
        if job and (given := options(words) - {"--submit", "--help"})
    ]
    jobs = {"apply_window", "bootstrap", "learn", "migrate", "maintain", "watch"}
    assert jobs <= {job for job, _ in commands} and len(commands) > 20
    for job, given in commands:
        with pytest.raises(SystemExit):
            importlib.import_module(f"evenkeel_spark.jobs.{job}").main(["--help"])
        usage = re.findall(r"(\[?)(--[\w-]+)", capsys.readouterr().out.split("\n\n")[0])
        assert given <= {name for _, name in usage}, job
        assert {name for way, name in usage if not way} <= given, job


def test_jobs_by_hand_get_the_secret_of_the_composed_cluster() -> None:
    assert "deploy/entry.sh" in (ROOT / "deploy/Dockerfile").read_text()
    inside = re.findall(r"docker compose exec (\S+ \S+) spark-submit --master (\S+)", TEXT)
    assert inside == [("scheduler deploy/entry.sh", "spark://spark-master:7077")]
    assert TEXT.index("spark_jobs/bootstrap.py") < TEXT.index("## Stores")


def test_rules_and_panels_name_metrics_that_there_are() -> None:
    page = ALERTS.read_text()
    known = re.findall(r"^\| `(\w+)`", (ROOT / "docs/reference/metrics.md").read_text(), re.M)
    rules = set(re.findall(r"airflow_evenkeel_sales_(\w+)", page))
    shown = page[page.index("## 5.") : page.index("## 7.")]
    told = {n for n in re.findall(r"`([a-z]+_\w+)`", shown) if n != "max_imbalance"}
    assert len(rules) >= 6 and len(told) >= 8
    assert {n.replace("_sales", "_TABLE") for n in rules} | told <= set(known)


def test_what_cannot_be_made_again_is_backed_up() -> None:
    backup = TEXT[TEXT.index("## Back up") : TEXT.index("## Recover")]
    upgrade = (ROOT / "docs" / "how-to" / "operate" / "upgrade.md").read_text()
    copied = "\n".join(
        line for line in upgrade.splitlines() if "registry/" in line or "for " in line
    )
    for folder in ("epochs", SPEC_CHANNELS, MEMBER_RECORDS, WINDOWS):
        assert f"`{folder}/`" in backup, folder
        assert re.search(rf"\b{folder}\b", copied), folder


def test_files_and_settings_that_it_names_are_there() -> None:
    files = re.findall(r"`((?:deploy|tests|partitioning|spark_jobs|docs)/[\w./]+)`", TEXT)
    linked = [
        page.parent / name
        for page in PAGES
        for name in re.findall(r"\]\(([\w/.-]+\.md)", page.read_text())
    ]
    assert len(files) > 5 and len(linked) > 3
    assert [name for name in files if not (ROOT / name).exists()] == []
    assert [page for page in linked if not page.exists()] == []
    assert "spark.evenkeel.oneDriver" in SOURCE
