"""Set-up: which Java it takes, what it says where there is none, that it runs once, and what an
audit of its pins tells."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS_LOCK = ROOT / "setup" / "docs" / "requirements.lock"
#: What the script needs besides Java; apt is not among them.
TOOLS = ("bash", "sed", "id", "true")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of commands without Java, and one of Javas that is empty."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "jvms").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    return tmp_path


def install(machine: Path, version: str, name: str) -> Path:
    """A java that tells its version and home as a real one does; returns its home."""
    home = machine / name
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    java.chmod(0o755)
    return home


def found(machine: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "setup" / "java.sh")],
        env={"PATH": str(machine / "bin"), "JVMS": str(machine / "jvms"), **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_first_java_that_is_new_enough_is_taken(machine: Path) -> None:
    other = install(machine, "21", "jvms/java-21")
    assert found(machine).stdout.strip() == str(other)
    old = install(machine, "1.8", "old")
    (machine / "bin" / "java").symlink_to(old / "bin" / "java")
    assert found(machine).stdout.strip() == str(other)
    own = install(machine, "17", "own")
    assert found(machine, JAVA_HOME=str(own)).stdout.strip() == str(own)
    assert found(machine, JAVA_HOME=str(old)).stdout.strip() == str(other)


def test_a_java_that_spark_s_hadoop_does_not_start_on_is_passed_over(machine: Path) -> None:
    new = install(machine, "25", "new")
    (machine / "bin" / "java").symlink_to(new / "bin" / "java")
    install(machine, "24", "jvms/java-24")
    last = install(machine, "22", "jvms/java-9")
    assert found(machine, JAVA_HOME=str(new)).stdout.strip() == str(last)


def test_without_java_or_apt_one_line_says_what_to_install(machine: Path) -> None:
    old = install(machine, "11", "jvms/java-11")
    (machine / "bin" / "java").symlink_to(old / "bin" / "java")
    done = found(machine)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("Spark needs Java 17 to 22: install one")


def audited(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "setup" / "audit.sh")],
        env={**os.environ, "OSV_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
    )


def advisory(name: str, package: str, version: str) -> dict[str, Any]:
    """What OSV answers for a package of which one version is vulnerable."""
    affected = {"package": {"name": package, "ecosystem": "PyPI"}, "versions": [version]}
    told = {"id": name, "modified": "2026-01-01T00:00:00Z", "details": "It overflows."}
    return {"vulns": [{**told, "affected": [affected]}]}


def test_an_audit_names_what_is_vulnerable_and_says_when_nobody_answers() -> None:
    known: dict[str, Any] = {}

    class Advisories(BaseHTTPRequestHandler):
        """Tells of one package what `known` holds, as OSV does."""

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = known.get(asked["package"]["name"], {})
            body = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/query"
        clean = audited(url)
        known["numpy"] = advisory("PYSEC-2026-1", "numpy", np.__version__)
        bad = audited(url)
        # What only the site of the docs is built with.
        (version,) = re.findall(r"^mkdocs==([\w.]+)", DOCS_LOCK.read_text(), re.M)
        known = {"mkdocs": advisory("PYSEC-2026-2", "mkdocs", version)}
        bad_docs = audited(url)
        server.shutdown()
    locks = ("requirements.lock", "setup/docs/requirements.lock")
    assert clean.returncode == 0
    assert clean.stderr.splitlines() == [
        f"{lock}: No known vulnerabilities found" for lock in locks
    ]
    assert bad.returncode == 1 and "PYSEC-2026-1" in bad.stdout and "numpy" in bad.stdout
    assert bad_docs.returncode == 1 and "PYSEC-2026-2" in bad_docs.stdout
    nobody = audited(url)
    assert nobody.returncode == 2 and nobody.stderr.startswith("audit: no advisories: ")


@pytest.mark.skipif(not (ROOT / ".jars" / ".ready").exists(), reason="installed without set-up")
def test_a_second_set_up_has_nothing_to_do() -> None:
    done = subprocess.run(
        ["make", "-q", "setup"], cwd=ROOT, env={**os.environ, "MAKEFLAGS": ""}, timeout=60
    )
    assert done.returncode == 0


#: What Ivy looks into in a test: first the local repository of Java's user, then a mirror.
MIRROR = """<ivysettings><settings defaultResolver="both"/>
<resolvers><chain name="both" returnFirst="true">
<ibiblio name="local" m2compatible="true" root="file://${user.home}/.m2/repository"/>
<ibiblio name="mirror" m2compatible="true" root="file://MIRROR"/>
</chain></resolvers></ivysettings>"""
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>io.delta</groupId><artifactId>NAME</artifactId><version>VERSION</version></project>"""


@pytest.mark.skipif(not (ROOT / ".jars" / ".ready").exists(), reason="installed without set-up")
@pytest.mark.parametrize("half", [True, False], ids=["half-filled", "no-repository"])
def test_a_pom_without_its_jar_is_fetched_from_elsewhere(tmp_path: Path, half: bool) -> None:
    """A real spark-submit resolves the packages; the set-up's first Spark job is left out."""
    shutil.copytree(ROOT / "setup", tmp_path / "setup")
    (own := tmp_path / ".venv" / "bin").mkdir(parents=True)
    (own / "python").write_text(f'#!/bin/sh\nexec {ROOT}/.venv/bin/python "$@"\n')
    (own / "spark-submit").write_text(
        '#!/bin/sh\ncase "$*" in *warm.py*) exit 0 ;; esac\n'
        f'exec {ROOT}/.venv/bin/spark-submit "$@"\n'
    )
    for file in own.iterdir():
        file.chmod(0o755)
    mirror, home = tmp_path / "mirror", tmp_path / "home"
    home.mkdir()
    groups = {"delta-s": "io/delta", "iceberg-s": "org/apache/iceberg", "sqlite": "org/xerial"}
    jars = {j: g for n, g in groups.items() for j in sorted((ROOT / ".jars").glob(f"{n}*.jar"))}
    # Those of a Spark that was replaced since: Delta's version is the same.
    (tmp_path / ".jars").mkdir()
    for jar in jars:
        old = re.sub(r"spark_\d\.\d", "spark_4.9", jar.name)
        (tmp_path / ".jars" / old).write_text("old")
    for jar, group in jars.items():
        name, version = jar.stem.rsplit("-", 1)
        pom = POM.replace("NAME", name).replace("VERSION", version)
        pom = pom.replace("io.delta", group.replace("/", "."), 1)
        if name.startswith("delta-spark"):
            needs = "<groupId>io.delta</groupId><artifactId>delta-storage</artifactId>"
            needs = f"<dependency>{needs}<version>{version}</version></dependency>"
            pom = pom.replace("</project>", f"<dependencies>{needs}</dependencies></project>")
        for root in (mirror, home / ".m2" / "repository")[: 1 + half]:
            place = root / group / name / version
            place.mkdir(parents=True)
            (place / f"{jar.stem}.pom").write_text(pom)
        shutil.copy(jar, mirror / group / name / version)
    (tmp_path / "ivy.xml").write_text(MIRROR.replace("MIRROR", str(mirror)))
    done = subprocess.run(
        [str(tmp_path / "setup" / "spark.sh")],
        env={
            **os.environ,
            "IVY_SETTINGS": str(tmp_path / "ivy.xml"),
            "JAVA_TOOL_OPTIONS": f"-Duser.home={home}",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    fetches = 1 + any("iceberg" in group for group in jars.values())
    assert {f.name for f in (tmp_path / ".jars").glob("*.jar")} == {jar.name for jar in jars}
    said = [line for line in done.stdout.splitlines() if "without it" in line]
    assert len(said) == half * fetches and all(str(home / ".m2") in line for line in said)


SUBMIT = """#!/bin/sh
echo "$@" >>{folder}/asked
mkdir -p .jars/ivy/jars
for name in hadoop-aws hadoop-client-minicluster; do
    touch .jars/ivy/jars/org.apache.hadoop_$name-3.5.0.jar
done
"""


def test_the_jars_of_a_cluster_are_of_the_hadoop_of_this_spark(tmp_path: Path) -> None:
    for file in ("setup/cluster.sh", "evenkeel/local_env.py"):
        (tmp_path / file).parent.mkdir()
        shutil.copy(ROOT / file, tmp_path / file)
    for folder in (".venv/bin", "bin", "spark/jars", ".jars/s3", ".jars/hadoop"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / "spark/jars/hadoop-client-api-3.5.0.jar").touch()
    (tmp_path / ".jars/s3/hadoop-aws-3.4.2.jar").touch()
    (tmp_path / "bin/spark-submit").write_text(SUBMIT.format(folder=tmp_path))
    (tmp_path / "bin/spark-submit").chmod(0o755)
    env = {"SPARK_HOME": str(tmp_path / "spark"), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    for _ in range(2):
        subprocess.run([str(tmp_path / "setup/cluster.sh")], env=env, check=True, timeout=60)
    assert len((tmp_path / "asked").read_text().splitlines()) == 2
    assert (tmp_path / ".jars/hadoop/hadoop-client-minicluster-3.5.0.jar").is_file()
    assert (tmp_path / ".jars/s3/hadoop-aws-3.5.0.jar").is_file()
    assert not (tmp_path / ".jars/s3/hadoop-aws-3.4.2.jar").exists()
