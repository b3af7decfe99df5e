"""docker-compose.yml: what can be known of it without an engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import evenkeel
from evenkeel.log_store import ONE_DRIVER
from evenkeel.spec.loading import load_spec

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
#: Variables of services that hold a secret, by name.
SECRET = re.compile(r"PASSWORD|SECRET|KEY|_USER$|CONN$")
#: What needs no secret for it: names, paths.
OPEN = {"POSTGRES_USER", "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"}


def variables(text: str) -> set[str]:
    return set(re.findall(r"\$\{(\w+)", text))


def test_every_part_is_there() -> None:
    said = {n: " ".join(s.get("command", [])) for n, s in SERVICES.items()}
    for part in ("api-server", "scheduler", "dag-processor", "triggerer"):
        assert said[part].startswith(f"airflow {part}")
    assert "deploy.master.Master" in said["spark-master"]
    assert "deploy.worker.Worker" in said["spark-worker"]
    assert SERVICES["spark-worker"]["deploy"]["replicas"] >= 2
    assert SERVICES["api-server"]["environment"]["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].startswith(
        "postgresql+"
    )


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned_and_health_is_checked(name: str) -> None:
    service = SERVICES[name]
    image, tag = service["image"].rsplit(":", 1)
    assert image and tag not in ("latest", "stable", "main")
    assert re.search(r"\d+[.-]\d+", tag)
    if service["restart"] == "no":
        # It ends, and others wait for that.
        waits = [s.get("depends_on", {}).get(name) for s in SERVICES.values()]
        assert {"condition": "service_completed_successfully"} in waits
    else:
        assert service["healthcheck"]["test"]
        assert service["restart"] == "unless-stopped"
    for before in service.get("depends_on", {}):
        assert before in SERVICES
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:")
    for volume in service.get("volumes", []):
        assert volume.split(":")[0] in COMPOSE["volumes"]


def test_nothing_starts_with_a_password_of_ours() -> None:
    asked = set()
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if SECRET.search(name) and name not in OPEN:
                assert re.search(r"\$\{\w+:\?[^}]+\}", value), f"{name} is not asked for"
            asked |= variables(str(value))
    text = (ROOT / "docker-compose.yml").read_text()
    assert not re.search(r"\$\{\w+(?::?-|\})", text), "a variable with a default, or none needed"
    example = dict(
        line.split("=", 1)
        for line in (ROOT / "deploy/env.example").read_text().splitlines()
        if not line.startswith("#")
    )
    assert set(example) == asked
    assert set(example.values()) == {""}
    assert ".env" in (ROOT / ".gitignore").read_text().split()


def test_only_connections_differ() -> None:
    """The DAGs are the checkout's, and the spec is tables/flights.yaml but for its three places."""
    airflow = SERVICES["scheduler"]["environment"]
    assert airflow["AIRFLOW__CORE__DAGS_FOLDER"] == "/opt/evenkeel/dags"
    assert airflow["EVENKEEL_TABLES"] == "/opt/evenkeel/deploy/tables"
    ours = load_spec(ROOT / "tables/flights.yaml").model_dump()
    theirs = load_spec(ROOT / "deploy/tables/flights.yaml").model_dump()
    for spec, scheme in ((ours, "/"), (theirs, "s3")):
        places = [spec["input"].pop("path"), spec.pop("registry")]
        places += [part.pop("path") for part in spec["state"].values()]
        assert all(p.startswith(scheme) for p in places)
    assert ours == theirs


def test_where_two_drivers_would_overwrite_each_other_one_runs_at_a_time() -> None:
    defaults = (ROOT / "deploy/spark/spark-defaults.conf").read_text()
    alone = re.search(rf"^{re.escape(ONE_DRIVER)}\s+true$", defaults, re.M) is not None
    for name in ("scheduler", "api-server"):
        environment = SERVICES[name]["environment"]
        assert environment["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
        assert alone == (environment.get("AIRFLOW__CORE__PARALLELISM") == "1")
    assert "replicas" not in SERVICES["scheduler"].get("deploy", {})


def test_the_image_has_the_version_of_the_code() -> None:
    assert COMPOSE["x-evenkeel"]["image"] == f"evenkeel:{evenkeel.__version__}"


def test_the_images_take_the_versions_that_are_pinned() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    docker = (ROOT / "deploy/Dockerfile").read_text()
    # The image takes all of it, with what reaches the database and the store.
    assert "--require-hashes -r requirements.lock" in docker
    for package in ("asyncpg", "psycopg2-binary", "s3fs"):
        assert re.search(rf"^{package}==", lock, re.M), package
    spark, delta = (
        re.findall(rf"^{p}==([\d.]+)", lock, re.M)[0] for p in ("pyspark", "delta-spark")
    )
    assert f"io.delta:delta-spark_{spark.rpartition('.')[0]}_2.13:{delta}," in docker
    assert re.search(r"^FROM python:3\.11\.\d+", docker, re.M)
    folders = re.findall(r"/opt/evenkeel/([\w/.]+)", docker + str(COMPOSE))
    assert folders and [folder for folder in folders if not (ROOT / folder).exists()] == []
    # .run has passwords, and .venv is of this machine: the image gets what is named alone.
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (.*)$", docker, re.M)]
    named = {name for names in copied for name in names}
    assert {folder.split("/")[0] for folder in folders} <= named
    assert all((ROOT / name).exists() and not name.startswith(".") for name in named)


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode != 0,
    reason="docker compose is not installed",
)
def test_docker_takes_it() -> None:
    secrets = {line.split("=")[0]: "x" for line in (ROOT / "deploy/env.example").open()}
    command = ["docker", "compose", "-f", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
    for given, code in ((secrets, 0), ({}, 1)):
        done = subprocess.run(command, env={**os.environ, **given}, capture_output=True)
        assert (done.returncode != 0) == bool(code)
