"""The wheel: which packages it installs, and what works with its base dependencies alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import numpy as np
import pytest
import yaml
from packaging.version import Version

import evenkeel
from evenkeel.extras import CANNOT_START, install_command
from evenkeel.registry.epochs import Registry, TableVersion
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn
from tests.matrix.cells import CELLS
from tests.support.wheel import ROOT, Venv, build_wheel, resolve

PACKAGES = {"partitioning", "evenkeel", "evenkeel_spark", "evenkeel_airflow", "evenkeel_ui"}
#: What only an extra installs, and the extra.
HEAVY = {
    "pyspark": "spark",
    "delta": "spark",
    "pandas": "spark",
    "airflow": "airflow",
    "great_expectations": "quality",
    "s3fs": "s3",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=["newest", "lowest"])
def bare(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Venv:
    """An environment with the wheel and no extra, at either end of its ranges."""
    venv = Venv(tmp_path_factory.mktemp("bare") / "venv").create()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lowest = [needed.replace(">=", "==") for needed in project["dependencies"]]
    venv.install(str(wheel), *(lowest if request.param == "lowest" else []))
    return venv


def said(done: subprocess.CompletedProcess[str]) -> str:
    """What a console command answered; it must have succeeded."""
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_wheel_installs_five_packages_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = [n for n in names if n.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(about).decode())
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == PACKAGES
    for needed in ("evenkeel/render/templates/page.css", "evenkeel_ui/templates/assets/ui.css"):
        assert needed in names
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    # The name of a file and its metadata tell a wheel of main from a release.
    assert metadata["Version"] == evenkeel.__version__
    assert wheel.name == f"evenkeel-{evenkeel.__version__}-py3-none-any.whl"
    assert {"spark", "airflow", "quality", "s3", "all"} <= set(metadata.get_all("Provides-Extra"))
    required = metadata.get_all("Requires-Dist")
    # A pin in the metadata would take the user's own versions away.
    pinned = [r for r in required if "==" in r.split(";")[0]]
    assert [r for r in pinned if not re.search(r'extra == "(demo|dev)"', r)] == []


@pytest.mark.slow
def test_the_library_needs_no_extra(bare: Venv) -> None:
    found = json.loads(
        said(
            bare.run(
                "python",
                "-c",
                "import json, sys, evenkeel, importlib.util as u\n"
                f"there = [m for m in {sorted(HEAVY)} if u.find_spec(m)]\n"
                "light = 'numpy' not in sys.modules\n"
                "names = [getattr(evenkeel, n) is not None for n in evenkeel.__all__]\n"
                "print(json.dumps([there, light, all(names), evenkeel.__version__]))",
            )
        )
    )
    assert found == [[], True, True, evenkeel.__version__]


@pytest.mark.slow
def test_the_console_reads_a_registry(bare: Venv, tmp_path: Path) -> None:
    said(bare.run("evenkeel", "--help"))
    spec = {
        "table": "trips",
        "key": ["dest"],
        "input": {"path": "in.parquet"},
        "state": {"trips": {"path": "state", "columns": {"n": {"merge": "count"}}}},
        "registry": "registry",
        "channels": 3,
    }
    (tmp_path / "trips.yaml").write_text(yaml.safe_dump(spec))
    key, channels, slots = (KeyColumn("dest", "string"),), numbered_channels(3), np.arange(64) % 3
    function = PartitioningFunction(key, channels, slots, strategy="uniform")
    Registry(str(tmp_path / "registry")).publish(function, {"trips": TableVersion("state", 1)})
    ask = {"EVENKEEL_TABLES": str(tmp_path)}
    assert "uniform" in said(bare.run("evenkeel", "epochs", "trips", **ask))
    assert function.digest in said(bare.run("evenkeel", "show", "trips", **ask))
    located = said(bare.run("evenkeel", "locate", "trips", "JFK", "--format", "json", **ask))
    assert json.loads(located)[0]["number"] == function.lookup(["JFK"])[0]
    said(bare.run("evenkeel", "check", "trips", **ask))


@pytest.mark.slow
def test_a_backtest_of_a_csv_needs_no_extra(bare: Venv, tmp_path: Path) -> None:
    rows = [f"2026-01-{1 + i % 20:02d},K{i * i % 37}" for i in range(2000)]
    (tmp_path / "sales.csv").write_text("\n".join(["day,product", *rows]))
    page = tmp_path / "page.html"
    done = bare.run(
        "evenkeel", "backtest", str(tmp_path / "sales.csv"), "--key", "product", "--time", "day",
        "--every", "5d", "--channels", "4", "--strategy", "frontier,uniform", "--html", str(page),
    )  # fmt: skip
    assert "frontier" in said(done) and "<svg" in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import evenkeel_spark", "spark"),
        ("from evenkeel.table import _session; _session()", "spark"),
        ("from evenkeel.quality.gates import plan_gate; plan_gate(None, None)", "quality"),
        ("from evenkeel_airflow import load_tables", "airflow"),
        ("from evenkeel.registry.store import Store; Store('s3://b/x')", "s3"),
    ],
)
def test_a_missing_extra_is_one_line_with_its_command(bare: Venv, code: str, extra: str) -> None:
    done = bare.run("python", "-c", code)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and install_command(extra) in last and "evenkeel[" not in last


@pytest.mark.slow
def test_the_console_and_spark_submit_say_what_is_missing(bare: Venv) -> None:
    done = bare.run("evenkeel", "job", "learn", "--spec", "x.yaml", "--run", "r")
    assert done.returncode == 2
    assert done.stderr == (
        "evenkeel: error: pyspark is not installed. "
        f"Install it with: {install_command('spark')}; "
        "`evenkeel doctor` looks at the whole set-up\n"
    )
    # As spark-submit starts it: no traceback.
    job = bare.run("python", "-c", "import evenkeel_spark", PYSPARK_GATEWAY_PORT="1")
    assert job.returncode == CANNOT_START and len(job.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_wheel_goes_beside_what_airflow_pins(wheel: Path, tmp_path: Path) -> None:
    """Airflow's constraints are the newest of all that it and its providers take."""
    airflow = f"apache-airflow=={CELLS[-1].airflow}.*"
    pins = resolve(tmp_path, airflow, "apache-airflow-providers-apache-spark", "s3fs")
    # Not the extra spark: uv unpacks all of PySpark's jars to read what it needs.
    wanted = f"evenkeel[airflow,quality,s3] @ {wheel.as_uri()}"
    kept = set(pins.splitlines()) & set(resolve(tmp_path, wanted, pins=pins).splitlines())
    assert len(kept) > 100 and {line for line in pins.splitlines() if "airflow" in line} <= kept


def test_workflows_run_targets_and_cells_that_are_there() -> None:
    folder, makefile = ROOT / ".github" / "workflows", (ROOT / "Makefile").read_text()
    flows = {file.stem: yaml.safe_load(file.read_text()) for file in folder.glob("*.yml")}
    assert set(flows) == {"test", "matrix", "release", "soak", "chaos", "cluster", "trino"}
    own = [job for flow in flows.values() for job in flow["jobs"].values() if "uses" not in job]
    steps = [step for job in own for step in job["steps"]]
    targets = [step["run"].split()[1] for step in steps if "run" in step]
    assert targets and all(re.search(rf"^{t}:", makefile, re.M) for t in targets)
    # A release has the wheel, the docs, the site and the image of the compose file.
    release = flows["release"]["jobs"]
    # Nothing is published before the tests, and the check of the tag, which is the wheel's.
    others = dict.fromkeys(("docs", "site", "image"), "wheel")
    waits = {"test": None, "wheel": "test", **others}
    assert {name: job.get("needs") for name, job in release.items()} == waits
    (build,) = [s["run"] for s in release["wheel"]["steps"] if "run" in s]
    assert build == 'make wheel ARGS="${GITHUB_REF_NAME#v}"'
    # YAML takes the key `on` for true.
    assert "workflow_call" in flows["test"][True]
    assert release["test"]["uses"] == "./.github/workflows/test.yml"
    assert "pypi" not in str(release), "PyPI's evenkeel is another project"
    attached = [
        step["with"]["files"]
        for job in ("wheel", "docs")
        for step in release[job]["steps"]
        if "action-gh-release" in step.get("uses", "")
    ]
    assert attached == ["dist/evenkeel-*.whl", "dist/evenkeel-docs-*.tar.gz"]
    (image,) = [s["run"].splitlines() for s in release["image"]["steps"] if "run" in s]
    assert [line.split()[:2] for line in image] == [["make", "image"], ["docker", "push"]]
    cells = flows["matrix"]["jobs"]["matrix"]["strategy"]["matrix"]["cell"]
    assert cells == [cell.name for cell in CELLS]


def test_the_changelog_knows_this_version() -> None:
    """Between releases: what is unreleased, and the newest release below it, which is older."""
    known = re.findall(r"^## \[(.+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    version = Version(evenkeel.__version__)
    if not version.is_devrelease:
        assert known[0] == str(version) or known[:2] == ["Unreleased", str(version)]
        return
    assert known[0] == "Unreleased" and Version(known[1]) < version < Version(version.base_version)
    text = (ROOT / "docs" / "COMPATIBILITY.md").read_text()
    assert f"`{version}`" in text and f"`{version.base_version}`" in text


def test_public_names_are_imported_on_use() -> None:
    code = (
        "import sys, evenkeel; assert 'numpy' not in sys.modules; evenkeel.Epoch; "
        "assert 'numpy' in sys.modules; assert set(evenkeel.__all__) <= set(dir(evenkeel))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'Tabel'"):
        _ = evenkeel.Tabel
