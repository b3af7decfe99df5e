"""DAG bundles: a task takes the spec of the version that its run began with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support.airflow_env import VERSION, airflow_db  # noqa: F401  a fixture
from tests.support.wheel import ROOT

# Only now: the environment above must be set before Airflow is first imported.
# isort: off
from airflow.dag_processing.bundles.base import BaseDagBundle
from airflow.dag_processing.bundles.manager import DagBundlesManager

try:
    from airflow.dag_processing.dagbag import BundleDagBag
except ImportError:  # Airflow 3.1
    from airflow.models.dagbag import BundleDagBag

from evenkeel.spec.loading import load_spec
# isort: on

if TYPE_CHECKING:
    from tests.conftest import World

pytestmark = pytest.mark.airflow

LINES = """# Airflow: the DAGs of the tables beside this file.
from pathlib import Path

from evenkeel_airflow import load_tables

load_tables(globals(), {folder})
"""
BESIDE = 'Path(__file__).parent / "tables"'


class Checkouts(BaseDagBundle):
    """A bundle with one folder a version, as Airflow's bundle for Git has."""

    supports_versioning = True

    def __init__(self, *, folder: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = Path(folder)

    @property
    def path(self) -> Path:
        return self.folder / (self.version or self.get_current_version())

    def get_current_version(self) -> str:
        return max(version.name for version in self.folder.iterdir())

    def refresh(self) -> None: ...


@pytest.fixture
def bundle(
    airflow_db: None,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """The folder of a bundle's versions."""
    folder = tmp_path_factory.mktemp("bundle")
    config = {"name": "b", "classpath": f"{__name__}.Checkouts", "kwargs": {"folder": str(folder)}}
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([config]))
    return folder


def commit(bundle: Path, version: str, spec: dict[str, Any], folder: str) -> Path:
    """Make a version of the bundle; return the folder of its specs."""
    tables = bundle / version / "tables"
    tables.mkdir(parents=True)
    (bundle / version / "dags.py").write_text(LINES.format(folder=folder))
    (tables / "trips.yaml").write_text(yaml.safe_dump(spec))
    return tables


def trigger_of(version: str, task: str) -> float:
    """Parse the DAG file as a worker does for a task, and read the spec that the task has."""
    bundle = DagBundlesManager().get_bundle("b", version=version)
    bundle.initialize()
    named = {} if VERSION == "3.1" else {"bundle_name": "b"}
    bag = BundleDagBag(bundle.path / "dags.py", bundle_path=bundle.path, **named)
    made = bag.dags["rebalance_trips"].task_dict[task]
    args = getattr(made, "application_args", None)
    return load_spec(args[args.index("--spec") + 1] if args else made.op_args[0]).trigger


def test_a_run_keeps_the_spec_of_its_version(world: World, bundle: Path) -> None:
    spec = yaml.safe_load(Path(world.spec_path).read_text())
    commit(bundle, "1", {**spec, "trigger": 1.1}, BESIDE)
    commit(bundle, "2", {**spec, "trigger": 1.2}, BESIDE)
    for task in ("learn", "decide"):
        assert [trigger_of(version, task) for version in "12"] == [1.1, 1.2]


def test_a_folder_outside_of_the_bundle_has_no_versions(world: World, bundle: Path) -> None:
    spec = yaml.safe_load(Path(world.spec_path).read_text())
    outside = repr(str(world.folder))
    commit(bundle, "1", {**spec, "trigger": 1.1}, outside)
    world.respec(trigger=1.3)
    assert trigger_of("1", "learn") == 1.3


#: Prints the trigger of a spec in each commit.
OF_COMMITS = """
import json, sys
from tests.evenkeel_airflow import test_bundles as here
print(json.dumps({commit: here.trigger_of(commit, "learn") for commit in sys.argv[1:]}))
"""


@pytest.mark.slow
def test_a_run_keeps_the_spec_of_its_commit(world: World, tmp_path: Path) -> None:
    """By the bundle of Airflow's provider for Git, which is installed beside this environment."""
    provider, repo = tmp_path / "provider", tmp_path / "repo"
    packages = ["apache-airflow-providers-git", "GitPython", "gitdb", "smmap"]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(provider)]
    if (done := subprocess.run([*pip, *packages], capture_output=True, text=True)).returncode:
        pytest.skip(f"no provider for Git: {done.stderr[-200:]}")
    git = ["git", "-C", str(repo), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(repo)], check=True)
    spec = yaml.safe_load(Path(world.spec_path).read_text())
    triggers: dict[str, float] = {}
    (repo / "lake" / "tables").mkdir(parents=True)
    (repo / "lake" / "dags.py").write_text(LINES.format(folder=BESIDE))
    for trigger in (1.1, 1.2):
        text = yaml.safe_dump({**spec, "trigger": trigger})
        (repo / "lake" / "tables" / "trips.yaml").write_text(text)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", f"{trigger}"], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
        triggers[head.stdout.strip()] = trigger
    config = {
        "name": "b",
        "classpath": "airflow.providers.git.bundles.git.GitDagBundle",
        "kwargs": {"repo_url": str(repo), "tracking_ref": "main", "subdir": "lake"},
    }
    done = subprocess.run(
        [sys.executable, "-c", OF_COMMITS, *triggers],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(provider), os.environ["PYTHONPATH"]]),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([config]),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH": str(tmp_path / "bundles"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == triggers
