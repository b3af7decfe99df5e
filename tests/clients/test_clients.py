"""The clients in other languages find the hash, slot and channel of each vector."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from partitioning.errors import DamagedError
from partitioning.function.canonical import canonical_json
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import key_hash
from tests.clients.programs import ALL, copied, need, of_epoch
from tests.clients.vectors import CASES, FILE, KEYS, functions, lines, written
from tests.support.wheel import ROOT

AGREE = f"{len(CASES) * KEYS} vectors agree"
#: Of each language: the tool it needs, and the commands that check the vectors in a folder.
COMMANDS = {
    "java": ("java", ["java EvenkeelFunction.java ../vectors.txt"]),
    "go": ("go", ["go vet ./...", "go test -count=1 -v ./..."]),
    "rust": (
        "rustc",
        ["rustc --test -O --edition 2021 evenkeel.rs", "./evenkeel --ignored --nocapture"],
    ),
    "javascript": ("node", ["node check.mjs ../vectors.txt"]),
}


def run(folder: Path, language: str, last: bool = False) -> tuple[int, str]:
    """Check the vectors by a client; return the exit code and what it printed.

    Parameters
    ----------
    last : only by the last command, as the client is built
    """
    name, commands = COMMANDS[language]
    need(name)
    printed = ""
    for command in commands[-1:] if last else commands:
        done = subprocess.run(
            command.split(), cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        printed += done.stdout + done.stderr
        if done.returncode:
            return done.returncode, printed
    return 0, printed


def test_the_file_is_what_the_code_writes() -> None:
    # A line that differs is easier to read than a file that does.
    written = FILE.read_text().splitlines()
    for number, (line, expected) in enumerate(zip(written, lines(), strict=True), 1):
        assert line == expected, f"line {number}"


def test_the_vectors_meet_every_rule() -> None:
    known = functions()
    assert {*known} == {*CASES}
    types = {column.type for f in known.values() for column in f.key}
    assert types == {"string", "binary", "tinyint", "smallint", "int", "bigint", "date"}
    assert all(len(f.explicit_keys) for f in known.values())
    assert all(len(known[case].split) == 8 for case in ("split", "split by text"))
    text = FILE.read_text().split("\n")
    assert sum("\\N" in line for line in text) > 100
    shared = {str(h) for h in known["split"].split.keys.tolist()}
    rows = [line.split("\t") for line in text if line.count("\t") == 4]
    owners = {(row[2], row[4]) for row in rows if row[2] in shared}
    assert len(owners) > 2 * len(shared)


@pytest.mark.parametrize("language", COMMANDS)
def test_a_client_agrees(tmp_path: Path, language: str) -> None:
    code, printed = run(copied(tmp_path, language), language)
    assert code == 0, printed
    assert AGREE in printed


@pytest.mark.parametrize("language", COMMANDS)
def test_a_client_tells_a_vector_that_differs(tmp_path: Path, language: str) -> None:
    folder = copied(tmp_path, language)
    head, _, channel = FILE.read_text().rstrip("\n").rpartition("\t")
    (tmp_path / FILE.name).write_text(f"{head}\t{int(channel) + 1}\n")
    code, printed = run(folder, language)
    assert code != 0
    assert "expected" in printed


@pytest.mark.parametrize("language", COMMANDS)
def test_a_client_refuses_a_number_that_its_type_does_not_hold(
    tmp_path: Path, language: str
) -> None:
    """It has four bytes all the same, which would give it a channel: that of another key."""
    folder = copied(tmp_path, language)
    for case, at, value in (("bytes", 1, 128), ("bytes", 2, -32769), ("composite", 1, 2**32 + 5)):
        function, key = functions()[case], [None, None, None]
        key[at] = value
        lowest = (value + 2**31) % 2**32 - 2**31
        (h,) = key_hash([[lowest]], ["int"]).tolist()
        found = [
            *map(written, key),
            h,
            h % len(function.slots),
            *function.lookup_hashes(np.array([h])),
        ]
        text = canonical_json(function.to_dict()).decode()
        row = "\t".join(map(str, found))
        (tmp_path / FILE.name).write_text(f"function\t{case}\t{text}\n{row}\n")
        code, printed = run(folder, language)
        assert code != 0
        assert f"expected a value of type {function.key[at].type}, got" in printed


@pytest.mark.parametrize("language", COMMANDS)
def test_a_client_takes_a_whole_epoch(tmp_path: Path, language: str) -> None:
    folder = copied(tmp_path, language)
    whole = re.sub(r"\{.*", lambda found: of_epoch(found[0]), FILE.read_text())
    (tmp_path / FILE.name).write_text(whole)
    code, printed = run(folder, language)
    assert code == 0, printed
    assert AGREE in printed


def refused() -> dict[str, dict[str, Any]]:
    """Return functions that nobody may take for a function."""
    whole, shared = functions()["text"].to_dict(), functions()["split"].to_dict()
    short = {k: v[1:] if k == "channels" else v for k, v in whole["explicit"].items()}
    return {
        "format 4": whole | {"format": 4},
        "3 without slots of rows": whole | {"format": 3},
        "1 with slots of rows": whole | {"row_slots": 64},
        "no slots of rows": whole | {"format": 3, "row_slots": 0},
        "slots of rows that are null": whole | {"format": 3, "row_slots": None},
        "slots of rows that are no number": whole | {"format": 3, "row_slots": 0.5},
        "slots of rows that do not divide": whole | {"format": 3, "row_slots": 96},
        "2 without split": whole | {"format": 2},
        "1 with split": shared | {"format": 1},
        "empty slots": whole | {"slots": []},
        "no slots": {k: v for k, v in whole.items() if k != "slots"},
        "no key": whole | {"key": []},
        "a channel below 0": whole | {"slots": [-1, *whole["slots"]]},
        "short channels": whole | {"explicit": short},
        "short owners": shared | {"split": shared["split"] | {"owners": [[0, 1]]}},
        "short shares": shared
        | {"split": shared["split"] | {"shares": [s[1:] for s in shared["split"]["shares"]]}},
    }


@pytest.mark.parametrize("language", COMMANDS)
def test_a_client_refuses_what_is_no_function(tmp_path: Path, language: str) -> None:
    folder = copied(tmp_path, language)
    first, *_ = FILE.read_text().splitlines()
    texts = {name: canonical_json(function).decode() for name, function in refused().items()}
    texts["epoch of format 2"] = of_epoch(first.split("\t")[2], 2)
    for number, (name, text) in enumerate(texts.items()):
        (tmp_path / FILE.name).write_text(f"function\tx\t{text}\n")
        code, printed = run(folder, language, last=number > 0)
        assert code != 0, name
        assert "expected " in printed.replace(f"expected {AGREE.split()[0]} vectors", ""), (
            f"{name}: {printed}"
        )


@pytest.mark.parametrize("name", refused())
def test_python_refuses_the_same(name: str) -> None:
    with pytest.raises(DamagedError):
        PartitioningFunction.from_dict(refused()[name])


def test_a_missing_tool_is_a_failure_if_all_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(ALL, raising=False)
    with pytest.raises(pytest.skip.Exception):
        run(tmp_path, "go")
    monkeypatch.setenv(ALL, "1")
    with pytest.raises(AssertionError, match="go is not installed"):
        run(tmp_path, "go")


def test_the_workflow_brings_the_tools_of_the_page() -> None:
    text = (ROOT / ".github/workflows/test.yml").read_text()
    job = yaml.safe_load(text)["jobs"]["test"]
    assert job["env"] == {ALL: "1"}
    brought = {
        f"{name.removesuffix('-version')} {version}"
        for step in job["steps"]
        for name, version in step.get("with", {}).items()
        if name in ("java-version", "go-version", "toolchain", "node-version")
    }
    page = (ROOT / "docs/how-to/engines/clients.md").read_text()
    tested = re.findall(r"^\| (\w+).*?, tested with (?:Node )?([\d.]+) ", page, re.M)
    names = {"Java": "java", "Go": "go", "Rust": "toolchain", "JavaScript": "node"}
    assert brought == {f"{names[language]} {version}" for language, version in tested}
