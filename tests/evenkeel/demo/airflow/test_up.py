"""`make up`: what it refuses, what it keeps, and its processes.

`tests/evenkeel_ui/browser` runs it in full.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from evenkeel.demo.airflow import up
from evenkeel.demo.airflow.client import Api, ApiError
from evenkeel.demo.airflow.load_tables import create_incomplete_tables, incomplete, without_a_look
from evenkeel.demo.airflow.server import Server, free_port, prepare_home
from evenkeel.demo.replay import folder_lock
from evenkeel.local_env import ROOT
from evenkeel.table import open_table
from partitioning.errors import DamagedError, InputError
from tests.support.worlds.shop import Shop

#: Stands for each of Airflow's processes: it starts one that leaves its group and asks for
#: patience, as tasks do, and does not listen itself.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
code = "import os, time; os.setpgid(0, 0); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", code])
time.sleep(600)
"""


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port} cannot be listened on"):
            free_port(port)
        assert free_port(None) != port


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--port", "70000"], "127.0.0.1:70000 cannot be listened on"),
        (["--users", "viewer,king"], "must be roles, got king"),
    ],
)
def test_wrong_arguments_are_one_line(
    tmp_path: Path, asked: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up.main([*asked, "--folder", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("evenkeel: error: ") and said in line


def test_a_folder_without_specs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_TABLES", str(tmp_path))
    assert up.main(["--folder", str(tmp_path)]) == 2
    assert "no correct spec found" in capsys.readouterr().err


def test_where_it_runs_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "up.json").write_text('{"url": "http://127.0.0.1:1234"}')
    with folder_lock(tmp_path):
        assert up.main(["--folder", str(tmp_path)]) == 2
    assert "make up is running here, at http://127.0.0.1:1234" in capsys.readouterr().err


def test_passwords_and_history_outlive_a_start_and_are_private(tmp_path: Path) -> None:
    empty, home = tmp_path / "empty.db", tmp_path / "home"
    empty.write_text("nothing yet")
    first = prepare_home(home, empty, {"admin": "admin"})
    (home / "airflow.db").write_text("history")
    secrets = (home / "airflow.cfg").read_text()
    second = prepare_home(home, empty, {"admin": "admin", "viewer": "viewer"})
    assert second["admin"] == first["admin"] != second["viewer"]
    assert len(second["viewer"]) >= 16
    assert json.loads((home / "passwords.json").read_text()) == second
    assert (home / "airflow.db").read_text() == "history"
    assert (home / "airflow.cfg").read_text() == secrets
    for name in ("passwords.json", "airflow.cfg"):
        assert (home / name).stat().st_mode & 0o777 == 0o600


def test_a_table_is_shown_only_if_it_is_whole(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    table = open_table(shop.spec)
    assert "state table counts is not at the version of epoch 0" in str(incomplete(table))
    shutil.rmtree(Path(shop.registry.url) / "epochs")
    assert "no epoch is published yet" in str(incomplete(table))
    assert without_a_look([table]) == []


def test_a_table_whose_registry_cannot_be_read_is_not_made_again(tmp_path: Path) -> None:
    """A newer release may have written it: its state is whole."""
    shop = Shop(tmp_path)
    spec = Path(shop.spec)
    table = open_table(str(spec))
    epoch = Path(shop.registry.url) / "epochs" / "00000000" / "epoch.json"
    epoch.write_text(epoch.read_text().replace('"format":', '"format":9'))
    with pytest.raises(DamagedError):
        incomplete(table)
    before = sorted(tmp_path.rglob("*"))
    said: list[str] = []
    view = SimpleNamespace(note=said.append, say=said.append, live=contextlib.nullcontext)
    with create_incomplete_tables({spec: table}, tmp_path, {}, None, view):  # type: ignore[arg-type]
        pass
    (line,) = said
    assert line.startswith("words: not changed (") and "format" in line
    assert sorted(tmp_path.rglob("*")) == before
    assert without_a_look([table]) == []


def test_nobody_answers() -> None:
    with pytest.raises(ApiError, match="Airflow answered nothing") as failed:
        Api(f"http://127.0.0.1:{free_port(None)}").get("/api/v2/monitor/health")
    assert failed.value.status == 0


@pytest.fixture
def stubborn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server whose processes do not stop when they are asked."""
    monkeypatch.setattr("evenkeel.demo.airflow.server.TERM_SECONDS", 0.3)
    monkeypatch.setattr("evenkeel.demo.airflow.server.KILL_SECONDS", 0.5)
    program = tmp_path / "airflow"
    program.write_text(f"#!{sys.executable}\n{STUBBORN}")
    program.chmod(0o755)
    return Server("http://127.0.0.1:1", {"PATH": str(tmp_path)}, tmp_path / "logs")


def test_nothing_is_left_of_what_does_not_stop(stubborn: Server) -> None:
    stubborn.start()
    try:
        _until(lambda: len(stubborn.members()) == 8)
        started = stubborn.members()
    finally:
        stubborn.stop()
    assert stubborn.members() == []
    assert not [pid for pid in started if _lives(pid)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of a parent's end")
def test_airflow_ends_where_make_up_is_killed(stubborn: Server, tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from evenkeel.demo.airflow.server import Server\n"
        "folder = sys.argv[1]; server = Server('', {'PATH': folder}, Path(folder))\n"
        "server.start(); found = server.members()\n"
        "print(*(p for p in found if os.getsid(p) == p), flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        leaders = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    try:
        assert len(leaders) == 4
        _until(lambda: not any(_lives(pid) for pid in leaders))
    finally:
        # What Airflow's processes end themselves, their stand-ins do not.
        for process in psutil.process_iter():
            if _session(process.pid) in leaders:
                process.kill()


def _started_by(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The process with all that it has started."""
    try:
        mine = psutil.Process(process.pid)
        return [mine, *mine.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("program", ["db migrate", "java", "api-server"])
def test_nothing_is_left_where_it_is_stopped_while_it_still_loads(
    tmp_path: Path, program: str
) -> None:
    pytest.importorskip("airflow")
    tables, folder = tmp_path / "tables", tmp_path / ".run"
    tables.mkdir()
    shutil.copy(ROOT / "tables" / "flights.yaml", tables)
    with subprocess.Popen(
        [sys.executable, "-m", "evenkeel.demo.airflow.up", "--folder", str(folder)],
        env={**os.environ, "EVENKEEL_TABLES": str(tables)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        seen: dict[int, psutil.Process] = {}
        sessions: set[int] = set()

        def loading() -> bool:
            assert process.poll() is None
            seen.update({p.pid: p for p in _started_by(process)})
            sessions.update(_session(pid) for pid in seen)
            told = [" ".join(_command(p)) for p in seen.values()]
            return any(program in command and "launcher" not in command for command in told)

        _until(loading, 120)
        # As a terminal does, to all of its group.
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 0, said
    assert "stopped: no process is left" in said
    assert len(seen) > 1
    assert [p for p in seen.values() if p.is_running() and _lives(p.pid)] == []
    left = [p for p in psutil.process_iter() if _session(p.pid) in sessions - {0}]
    assert [p for p in left if _lives(p.pid)] == []
    # It was on its way: the next start makes what is missing.
    assert incomplete(open_table(str(tables / "flights.yaml"))) is not None


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _until(done: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0
