"""Pages of places that nobody had: what of their steps can be checked without the place."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from evenkeel.extras import delta_package
from evenkeel.log_store import commits_exclude
from evenkeel.spec.loading import check_enough_slots, load_spec
from evenkeel.submit import job_names
from tests.support.docs.reader import HOW_TO, NOT_TRIED
from tests.support.docs.steps import blocks, file_of
from tests.support.wheel import ROOT, resolve

WITH_STEPS = ("clusters/emr", "clusters/kubernetes")
#: A setting of Spark, as spark-defaults.conf has it.
SETTING = re.compile(r"^ *(spark\.\S+)\s+(\S+)$", re.M)


def page(name: str) -> Path:
    """Return the file of a page."""
    return HOW_TO / f"{name}.md"


@pytest.mark.parametrize("name", NOT_TRIED)
def test_it_says_that_nobody_has_run_it_before_its_first_step(name: str) -> None:
    begin, _, steps = page(name).read_text().partition("\n## ")
    assert re.search(r"\*\*Nobody has run [^*]+\*\*", begin)
    assert "(../cluster.md#places-that-were-tried)" in begin
    headings = re.findall(r"^## (\d+)\. ", f"## {steps}", re.M)
    assert [int(number) for number in headings] == [*range(1, len(headings) + 1)]
    place = page("cluster").read_text()
    assert f"]({name}.md)" in place.partition("## Places that were tried")[2]


@pytest.mark.parametrize("name", WITH_STEPS)
def test_its_spec_is_right_and_its_programs_are_python(name: str, tmp_path: Path) -> None:
    files = {file_of(text): text for _, text in blocks(page(name)) if file_of(text)}
    spec = tmp_path / "sales.yaml"
    spec.write_text(files["tables/sales.yaml"])
    found = load_spec(spec)
    check_enough_slots(found, str(spec))
    assert found.schedule is None and found.registry.startswith("s3://")
    for path, text in files.items():
        if path and path.endswith(".py"):
            compile(text, path, "exec")
    for column in found.input_columns:
        assert f'"{column}"' in files["events.py"]


@pytest.mark.parametrize("name", WITH_STEPS)
def test_its_jobs_are_there_and_its_connection_keeps_a_driver_with_its_task(name: str) -> None:
    text = page(name).read_text()
    assert set(re.findall(r"evenkeel job (\w+)", text)) <= set(job_names())
    (given,) = re.findall(r'\{"conn_type": .*?\}\}', text, re.S)
    connection = json.loads(" ".join(given.split()))
    assert connection["extra"]["deploy-mode"] == "client"
    (master,) = re.findall(r'--submit "--master (\S+?)[" ]', text)
    port = f":{connection['port']}" if "port" in connection else ""
    assert master == connection["host"] + port


@pytest.mark.parametrize(
    ("name", "spark"), [("clusters/emr", "4.0.2"), ("clusters/kubernetes", "")]
)
def test_its_versions_go_together(name: str, spark: str) -> None:
    text = page(name).read_text()
    (own,) = {*re.findall(r"pyspark==(\S+)", text)}
    assert {*re.findall(r"pyspark-client==(\S+)", text)} == {own}
    if spark:
        assert own == spark and f"Spark {spark}" in text
        assert {*re.findall(r"io\.delta:delta-spark_[\w.:-]+", text)} == {delta_package(own)}
        assert f"delta-storage-s3-dynamodb:{delta_package(own).rpartition(':')[2]}" in text
    else:
        assert f"`apache/spark:{own}`" in text
        manifest = (ROOT / "deploy/kubernetes/spark.yaml").read_text()
        assert f"apache/spark:{own}" in manifest and delta_package(own) in manifest


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_STEPS)
def test_pip_finds_versions_for_what_it_installs(name: str, tmp_path: Path) -> None:
    text = page(name).read_text().replace("\\\n", " ")
    (line,) = re.findall(
        r'pip install [^\n]*?"\$\(ls \S+evenkeel-\*\.whl\)(\[\S+\])" ([^\n]+)', text
    )
    extras, others = line
    found = resolve(tmp_path, f"evenkeel{extras} @ {ROOT.as_uri()}", *others.split())
    pinned = [other for other in others.split() if "==" in other]
    assert pinned and set(pinned) <= set(found.splitlines())
    assert {"apache-airflow", "great-expectations"} <= set(re.findall(r"^([\w-]+)==", found, re.M))


def test_with_the_change_of_a_trial_jobs_take_the_store(tmp_path: Path) -> None:
    """On Kubernetes an edit of the manifest makes it, and on EMR the settings have it."""
    shutil.copytree(ROOT / "deploy/kubernetes", tmp_path / "manifests")
    text = page("clusters/kubernetes").read_text()
    (edit,) = re.findall(r"^(sed -i .*)$", text, re.M)
    before = (tmp_path / "manifests/spark.yaml").read_text()
    subprocess.run(["bash", "-c", edit], cwd=tmp_path, check=True)
    after = (tmp_path / "manifests/spark.yaml").read_text()
    assert len(set(before.splitlines()) - set(after.splitlines())) == 1
    manifest = yaml.safe_load(after)
    conf = dict(SETTING.findall(manifest["data"]["spark-defaults.conf"]))
    (settings,) = (json.loads(t) for lang, t in blocks(page("clusters/emr")) if lang == "json")
    for found, scheme in ((conf, "s3a"), (settings[0]["Properties"], "s3")):
        assert found.keys() > {"spark.sql.extensions", "spark.sql.catalog.spark_catalog"}
        assert f"spark.delta.logStore.{scheme}.impl" not in found
        assert "one writer" in str(commits_exclude(scheme, found.get))


def test_the_log_store_has_the_sdk_that_it_is_built_for() -> None:
    said = page("clusters/s3").read_text()
    (sdk,) = re.findall(r"`(com\.amazonaws:\S+)`", said)
    packages = (ROOT / "deploy/kubernetes/spark.yaml").read_text()
    assert re.search(
        rf"spark\.jars\.packages .*delta-storage-s3-dynamodb.*{re.escape(sdk)}\n", packages
    )
