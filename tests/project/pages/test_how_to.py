"""The steps of the how-to pages, run as they stand on real Spark, Delta and Airflow."""

import os
import re
import shutil
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

import evenkeel
from evenkeel.spec.loading import load_spec
from tests.support.alerts.promql import fires, rules
from tests.support.docs.reader import HOW_TO, NEEDS, NOT_TRIED, free_port
from tests.support.docs.steps import (
    blocks,
    by_file,
    by_kind,
    by_language,
    by_steps,
    expected,
    file_of,
    missing,
    not_run,
    run,
)
from tests.support.iceberg.catalogs import EXAMPLE, serving
from tests.support.wheel import ROOT, build_wheel
from tests.support.worlds.old_registry import ARCHIVE as OLD_REGISTRY

#: Pages whose steps are run, each in an empty folder of its own. The last one installs more.
RUN = (
    "adopt",
    "choose",
    "cluster",
    "first-table",
    "channels",
    "late-rows",
    "schedule",
)
RUN += ("read", "stream", "write", "writers/split", "operate/alerts", "operate/approve")
RUN += ("operate/evolve", "operate/forget", "operate/recover", "operate/upgrade")
RUN += ("operate/leave", "first-table-s3", "clusters/s3", "engines/duckdb")
RUN += ("engines/warehouses", "formats/iceberg")
#: Pages that install the wheel, so their folder has it.
WITH_WHEEL = ("operate/upgrade", "formats/iceberg")
#: Pages whose fences other tests run: the file that reads the page, and what finds fences that it
#: does not read.
ELSEWHERE = {
    "clusters/yarn": ("evenkeel_airflow/test_yarn.py", by_steps),
    "engines/java": ("clients/test_kafka_and_flink.py", by_file),
    "engines/clients": ("clients/test_usage.py", by_language),
    "formats/iceberg-catalogs": ("support/iceberg/catalogs.py", by_kind),
}
#: Page -> how its fences begin that no test runs. They want a container engine.
NOT_RUN = {"cluster": ["docker compose exec "]}
#: Pages that change what is installed: one upgrades this version, and one takes the package out.
OLDER, CHANGES = "0.0.9", ("operate/upgrade", "operate/leave")
#: After the upgrade: a table that version 0.1.0 wrote, and left half moved, goes on.
OLD_TABLE = """
```sh
export EVENKEEL_TABLES=$PWD/tables AIRFLOW_HOME=$PWD/airflow AIRFLOW__CORE__DAGS_FOLDER=$PWD/dags
export AIRFLOW__CORE__LOAD_EXAMPLES=False
export AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}'
evenkeel repair trips
airflow dags test rebalance_trips --conf '{"force": true, "max_imbalance": 1.01, "window_end": "2013-01-15"}'
evenkeel epochs trips
```
```text
... brought to epoch 2
│ 0 ...
│ 3 ...
```
"""  # noqa: E501
#: Seconds of the clock in which a table of a newcomer's own is rebalanced, installation included;
#: and the file that tells that it is.
FIRST_TABLE, REBALANCED = 1800, "lake/evenkeel/epochs/00000001/epoch.json"

pytestmark = pytest.mark.timeout(2400)


@pytest.mark.slow
@pytest.mark.airflow
def test_the_page_of_the_installation_brings_all_that_it_needs(reader):
    assert shutil.which("evenkeel", path=reader.shell["PATH"]) == str(
        reader.wheel.parent / "venv/bin/evenkeel"
    )
    assert [name for name, value in reader.shell.items() if str(ROOT) in value] == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("name", RUN)
def test_a_page_does_what_it_says(name, reader, tmp_path, tmp_path_factory):
    section, variable = NEEDS.get(name, ("", ""))
    without = None if variable in os.environ else section
    upgrades = name == "operate/upgrade"
    if upgrades:
        older = build_wheel(tmp_path_factory.mktemp("older"), OLDER)
        reader.pip("install", "-q", "--no-deps", "--force-reinstall", str(older))
        shutil.unpack_archive(OLD_REGISTRY, tmp_path)
        (tmp_path / "trips").rename(tmp_path / "tables")
    if name in WITH_WHEEL:
        shutil.copy(reader.wheel, tmp_path)
    began = time.time()
    try:
        outputs = run(
            HOW_TO / f"{name}.md", tmp_path, {**reader.shell, "PORT": free_port()}, without
        )
        if upgrades:
            versions = re.findall(r"^Version: (.+)", "".join(outputs), re.M)
            assert versions == [OLDER, evenkeel.__version__]
            (tmp_path / "old_table.md").write_text(OLD_TABLE)
            run(tmp_path / "old_table.md", tmp_path, reader.shell)
    finally:
        if name in CHANGES:
            reader.pip("install", "-q", "--no-deps", "--force-reinstall", str(reader.wheel))
    if name == "first-table":
        took = (tmp_path / REBALANCED).stat().st_mtime - began
        print(f"Install took {reader.seconds:.0f} s, and the first rebalance {took:.0f} s more")
        assert reader.seconds + took < FIRST_TABLE
    if name == "operate/alerts":
        found = alerts(HOW_TO / f"{name}.md", tmp_path / "heard.txt")
        assert set().union(*found) == {"GateFailed", "Uneven"} and found[-1] == set()


def alerts(page, heard):
    """Return which alerts of a page fire after each gauge that is heard."""
    gauges, found = {}, []
    for name, value in re.findall(r"^(airflow\.\S+) (\S+)$", heard.read_text(), re.M):
        gauges[name.replace(".", "_")] = float(value)
        found.append({alert for alert, rule in rules(page).items() if fires(rule, gauges)})
    assert {name.rpartition("sales_")[2] for name in gauges} >= {"floor", "rolled_back"}
    return found


def alive(process):
    """Whether a process runs; not if it only waits for its new parent to bury it."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def test_a_page_that_says_something_wrong_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\necho one '  ' two\n```\n```text\none ... two\n```\n")
    env = {"PATH": os.environ["PATH"]}
    assert run(page, tmp_path, env) == ["\none    two\n"]
    said = "echo one '  ' two; echo; echo three; echo '[  1.2 s] four  table=t run=r'; echo five"
    for right in ("one ...\nthree\n", "one...\n...\nfive\n", "three\n\nfour\n", "... two\n"):
        page.write_text(f"```sh\n{said}\n```\n```text\n{right}```\n")
        run(page, tmp_path, env)
    wrongs = ("one three", "two ... one", "four\nthree", "one", "two", "four\n...\nfour")
    for wrong in wrongs:
        page.write_text(f"```sh\n{said}\n```\n```text\n{wrong}\n```\n")
        with pytest.raises(AssertionError, match=wrong.split("\n")[0]):
            run(page, tmp_path, env)
    page.write_text("```sh\nfalse\necho one\n```\n")
    with pytest.raises(AssertionError):
        run(page, tmp_path, env)
    # What a page leaves in the background is gone, though it fails.
    page.write_text("```sh\nsleep 600 > log 2>&1 & echo $! > pid\nfalse\n```\n")
    with pytest.raises(AssertionError):
        run(page, tmp_path, env)
    left = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 30
    while alive(left):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_each_fence_of_a_page_is_run_or_named_here(tmp_path):
    pages = {str(p.relative_to(HOW_TO).with_suffix("")): p for p in HOW_TO.rglob("*.md")}
    assert set(pages) == {*RUN, *ELSEWHERE, *NOT_TRIED, "install"}
    for name, (reader, left_by) in ELSEWHERE.items():
        text = (ROOT / "tests" / reader).read_text()
        assert pages[name].name in text
        assert blocks(pages[name]) and left_by(pages[name], text) == [], name
        more = tmp_path / "more.md"
        more.write_text(f"{pages[name].read_text()}\n```sql\n1\n```\n")
        assert left_by(more, text) != [], name
    here = {n: page for n, page in pages.items() if n not in {*ELSEWHERE, *NOT_TRIED}}
    left = {name: found for name, page in here.items() if (found := not_run(page))}
    assert left.keys() == NOT_RUN.keys()
    for name, begins in NOT_RUN.items():
        for line, begin in zip(left[name], begins, strict=True):
            assert line.startswith(begin), name
    page = tmp_path / "page.md"
    page.write_text(
        "```text\nearly\n```\n- one\n\n  ```sh\n  true\n  ```\n\n  ```\n  bare\n  ```\n"
    )
    assert not_run(page) == ["early", "bare"]
    page.write_text(
        "```python\n# a.py\n1\n```\n```python\n2\n```\n```sh\n3\n```\n```text\n4\n```\n"
    )
    assert not_run(page) == ["2"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["jdbc", "rest"])
def test_the_page_of_catalogs_goes_with_the_page_of_tables(kind, reader, tmp_path):
    """The steps of the page of Iceberg tables, with the settings and steps for another catalog."""
    catalogs, tables = (
        HOW_TO / "formats" / f"{name}.md" for name in ("iceberg-catalogs", "iceberg")
    )
    sections = re.findall(r"^## .*?(?=^## )", catalogs.read_text(), re.M | re.S)
    (section,) = (each for each in sections if each.startswith(f"## {kind.upper()}: "))
    fences = re.findall(r"^```\w+\n.*?^```\n", section, re.M | re.S)
    (settings, commands) = (text.replace("/data/lake", f"{tmp_path}/lake") for text in fences)
    (_, shared) = re.findall(r"^```\w+\n(.*?)^```\n", catalogs.read_text(), re.M | re.S)[:2]
    for driver in re.findall(r"`(org\.xerial:\S+)`", section):
        shared = re.sub(r"(jars.packages .*)", rf"\1,{driver}", shared)
    mine = [line for line in settings.splitlines() if line.startswith("spark.")]
    settings = f"```properties\n{shared}{chr(10).join(mine)}\n```\n"
    text = tables.read_text()
    hadoop = re.compile(r"^```properties\n# conf/spark-defaults.conf\n.*?^```\n", re.M | re.S)
    text = hadoop.sub(lambda _: settings, text)
    place = "The tables are `orders`,"
    assert text.count(place) == text.count(settings) == 1
    shutil.copy(reader.wheel, tmp_path)
    with serving(tmp_path) if kind == "rest" else nullcontext() as server:
        text = text.replace(EXAMPLE, server.uri) if server else text
        (tmp_path / "page.md").write_text(text.replace(place, f"{commands}\n{place}"))
        run(tmp_path / "page.md", tmp_path, {**reader.shell, "PORT": free_port()})
    assert (tmp_path / "lake/catalog.db").exists()


def test_the_page_of_catalogs_shares_spec_and_settings_with_the_page_that_is_run(tmp_path):
    page, other = (HOW_TO / "formats" / name for name in ("iceberg-catalogs.md", "iceberg.md"))
    spec, shared = (text for _, text in blocks(page)[:2])
    (tmp_path / "customers.yaml").write_text(spec)
    tables = load_spec(str(tmp_path / "customers.yaml")).state
    assert {table.path.split(".")[0] for table in tables.values()} == {"lake"}
    settings = next(text for language, text in blocks(other) if language == "properties")
    assert set(shared.splitlines()) < set(settings.splitlines())


def test_a_section_that_needs_more_is_left_out_alone(tmp_path):
    whole = [name for name, (section, _) in NEEDS.items() if not section]
    assert whole == ["clusters/yarn"] and NEEDS.keys() - whole <= {*RUN}
    for name in whole:
        reader, variable = ELSEWHERE[name][0], NEEDS[name][1]
        assert f'skipif("{variable}" not in os.environ' in (ROOT / "tests" / reader).read_text()
    for name, (section, variable) in NEEDS.items():
        if name in whole:
            continue
        page = HOW_TO / f"{name}.md"
        every, rest = blocks(page), blocks(page, section)
        left_out = [text for block in every if block not in rest for text in block[1:]]
        assert 0 < len(left_out) == len(every) - len(rest)
        assert any(variable in text for text in left_out)
    page = tmp_path / "page.md"
    page.write_text("## A\n```sh\nfalse\n```\n## B\n```sh\necho b\n```\n```text\nb\n```\n")
    assert run(page, tmp_path, {"PATH": os.environ["PATH"]}, "A") == ["\nb\n"]


def test_the_pages_that_are_run_have_steps_and_tell_what_they_print():
    pages = [HOW_TO / f"{name}.md" for name in ("install", *RUN)]
    for page in pages:
        assert sum(language == "sh" for language, _ in blocks(page)) > 2, page
        assert any(file_of(text) for _, text in blocks(page)), page
    assert sum(len(lines) for page in pages for lines in expected(page)) > 6
    assert missing("a ... c", "a b") and not missing("a ... c", "a b c")


def test_each_page_says_where_its_shell_comes_from():
    for name in RUN:
        page = HOW_TO / f"{name}.md"
        begin = page.read_text().split("```")[0]
        up = "../" * name.count("/")
        assert f"[shell of Install]({up}install.md#a-fresh-shell)" in begin, name
