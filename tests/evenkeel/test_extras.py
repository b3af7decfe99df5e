"""Optional packages: one that is missing, too old, or of two versions is one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from evenkeel import extras
from evenkeel.doctor.packages import EXTRAS
from partitioning.errors import MissingExtraError, SetupError
from tests.support.wheel import ROOT


def test_a_missing_part_names_its_command() -> None:
    extras.require_packages("spark", "pyspark", "delta")
    with pytest.raises(MissingExtraError) as caught:
        extras.require_packages("quality", "great_expectations", "no_such_package.part")
    assert str(caught.value) == (
        "no_such_package.part is not installed. "
        "Install it with: pip install 'great-expectations<2,>=1.7' 'pandas>=2.2.3'; "
        "`evenkeel doctor` looks at the whole set-up"
    )


@pytest.mark.parametrize(
    ("extra", "there", "wanted"),
    [
        ("spark", {"pyspark-client": "4.1.3"}, "4.1.3"),
        ("airflow", {"pyspark": "4.1.4"}, "4.1.3"),  # the client has no 4.1.4
        ("airflow", {"pyspark": "3.5.1"}, "4.2.0"),  # and no 3.5
    ],
)
def test_the_command_of_a_missing_part_makes_no_mixture(
    extra: str, there: dict[str, str], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "installed", there.get)
    command = extras.install_command(extra)
    assert command.count("'pyspark") == 2
    assert command.endswith(f" 'pyspark=={wanted}' 'pyspark-client=={wanted}'")


def test_a_spark_that_jobs_refuse_is_not_installed() -> None:
    assert extras.same_series("3.5.1") == "use a Spark 4.0 or newer"
    assert extras.same_series("4.0.2-amzn-0").startswith("run: pip install 'pyspark==4.0.")


def test_a_release_that_is_too_old_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for fine in (None, "3.1.0", "3.10.2", "4.0.0rc1"):
        monkeypatch.setattr(extras, "installed", lambda _, fine=fine: fine)
        extras.check_release("apache-airflow")
    monkeypatch.setattr(extras, "installed", lambda _: "1.6.9")
    for name, least in (("apache-airflow", "3.1"), ("great-expectations", "1.7")):
        with pytest.raises(SetupError, match=f"{name} 1.6.9 is too old: expected {least} or"):
            extras.check_release(name)


def test_the_oldest_releases_are_those_of_the_metadata() -> None:
    """The doctor and the jobs refuse what pip would not install, and nothing else."""
    parts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = {}
    for extra in ("spark", "airflow", "quality", "s3"):
        for line in parts["optional-dependencies"][extra]:
            if found := re.match(r"([\w-]+)>=(\d+)\.(\d+)", line):
                bounds[found[1]] = int(found[2]), int(found[3])
    assert {name: bounds[name] for name in extras.MIN_RELEASES} == extras.MIN_RELEASES
    assert {name for name, _, _ in EXTRAS} == set(extras.MIN_RELEASES)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder of packages with a pyspark over which pyspark-client of another version was put."""
    for name, version in (("pyspark", "4.2.0"), ("pyspark-client", "4.1.3")):
        about = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        about.parent.mkdir()
        about.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (tmp_path / "pyspark").mkdir()
    mixture = "from pyspark.errors import a_name_that_only_one_of_the_two_has\n"
    (tmp_path / "pyspark" / "__init__.py").write_text(mixture)
    return tmp_path


def imported(
    first: Path, code: str = "import evenkeel_spark.jobs.learn", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Import a job as a user's program does, with packages of a folder first."""
    path = os.pathsep.join(map(str, (first, ROOT / "spark_jobs", ROOT)))
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": path, **variables},
        timeout=120,
    )


def test_two_versions_of_pyspark_are_one_line_before_any_import_fails(mixed: Path) -> None:
    job = imported(mixed, PYSPARK_GATEWAY_PORT="1")
    (line,) = job.stderr.splitlines()
    assert job.returncode == extras.CANNOT_START
    assert line.startswith(f"evenkeel: error: {mixed / 'pyspark'}: ")
    assert "expected one version of PySpark, found pyspark 4.2.0 and pyspark-client 4.1.3" in line
    wanted = "'pyspark==4.2.0' 'pyspark-client==4.2.0'"
    assert f"pip install --force-reinstall --no-deps {wanted}" in line
    assert "SetupError" in imported(mixed).stderr.splitlines()[-1]


@pytest.mark.parametrize("words", [("job", "learn", "--spec", "x"), ("spark", "folder")])
def test_the_console_sees_two_versions_before_it_starts_a_program(
    mixed: Path, words: tuple[str, ...]
) -> None:
    """A job in a Spark that stays up is a program of its own, which imports PySpark first."""
    code = f"import sys; sys.argv[1:] = {words}; from evenkeel.cli import main; main()"
    done = imported(mixed, code, EVENKEEL_SPARK=str(mixed / "spark"), PATH=os.environ["PATH"])
    (line,) = done.stderr.splitlines()
    assert done.returncode == SetupError.exit_code
    assert "expected one version of PySpark, found pyspark 4.2.0" in line


def test_a_pyspark_that_is_too_old_is_one_line_before_any_import_fails(tmp_path: Path) -> None:
    """PySpark 3.5, as EMR 7 brings it by spark-submit, lacks names that jobs import."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise ImportError\n")
    (tmp_path / "pyspark" / "version.py").write_text('__version__: str = "3.5.6"\n')
    job = imported(tmp_path, PYSPARK_GATEWAY_PORT="1")
    (line,) = job.stderr.splitlines()
    assert job.returncode == extras.CANNOT_START
    assert f"{tmp_path / 'pyspark'}: Spark 3.5.6 is too old: expected 4.0 or newer" in line


def test_a_pyspark_that_spark_submit_brings_is_whole(mixed: Path, tmp_path: Path) -> None:
    brought = tmp_path / "spark"
    (brought / "pyspark").mkdir(parents=True)
    said = "raise SystemExit('the pyspark of spark-submit')"
    (brought / "pyspark" / "__init__.py").write_text(said)
    path = os.pathsep.join(map(str, (brought, mixed)))
    assert imported(Path(path)).stderr.strip() == "the pyspark of spark-submit"
