"""The lines of the page of clients find a channel by a whole epoch.json."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from partitioning.function.canonical import canonical_json
from partitioning.function.hashing import KeyColumn, key_hash
from tests.clients.programs import CLIENTS, need, of_epoch
from tests.clients.vectors import functions
from tests.support.wheel import ROOT

#: Of each language: its tool, the client, where it goes, a program, its file, and its commands.
PROJECTS = {
    "java": (
        "java",
        "java/EvenkeelFunction.java",
        "org/example/EvenkeelFunction.java",
        "package org.example;\nimport java.nio.file.*;\nimport java.util.List;\n"
        "public class Use { public static void main(String[] a) throws Exception {\n"
        "LINES\nSystem.out.println(channel); } }",
        "org/example/Use.java",
        ["javac -d . org/example/EvenkeelFunction.java org/example/Use.java",
         "java -cp . org.example.Use"],
    ),
    "go": (
        "go",
        "go/evenkeel.go",
        "evenkeel/evenkeel.go",
        'package main\nimport ("example.org/use/evenkeel"; "fmt"; "os")\nfunc main() {\n'
        "LINES\nfmt.Println(channel)\nif err != nil { panic(err) }\n}",
        "main.go",
        ["go mod init example.org/use", "go run ."],
    ),
    "rust": (
        "rustc",
        "rust/evenkeel.rs",
        "evenkeel.rs",
        "mod evenkeel;\nuse evenkeel::{Function, Value};\n"
        "fn main() -> Result<(), Box<dyn std::error::Error>> {\n"
        'LINES\nprintln!("{channel}");\nOk(())\n}',
        "main.rs",
        ["rustc -D warnings --edition 2021 main.rs", "./main"],
    ),
    "js": (
        "node",
        "javascript/evenkeel.mjs",
        "evenkeel.mjs",
        'import { readFileSync } from "node:fs";\n'
        'import { EvenkeelFunction } from "./evenkeel.mjs";\nLINES\nconsole.log(channel);',
        "my-evenkeel.mjs",
        ["node my-evenkeel.mjs"],
    ),
}  # fmt: skip


def done(folder: Path, command: str) -> str:
    """Run a command; return what it printed."""
    return subprocess.run(
        command.split(), cwd=folder, capture_output=True, text=True, timeout=300, check=True
    ).stdout


@pytest.mark.parametrize("language", PROJECTS)
def test_the_lines_of_the_page_find_the_channel(tmp_path: Path, language: str) -> None:
    tool, client, to, program, file, commands = PROJECTS[language]
    need(tool)
    page = (ROOT / "docs/how-to/engines/clients.md").read_text()
    (lines,) = re.findall(rf"^```{language}\n(.*?)^```", page, re.M | re.S)
    # A heavy key: it is lost first where hashes are rounded.
    columns = (KeyColumn("customer", "string"), KeyColumn("country", "string"))
    function = replace(functions()["text"], key=columns)
    key = [["C7"], ["FR"]]
    owner = (int(function.lookup(*key)[0]) + 1) % len(function.channels)
    heavy = key_hash(key, ["string", "string"])
    function = replace(function, explicit_keys=heavy, explicit_channels=[owner])
    text = canonical_json(function.to_dict()).decode()
    (tmp_path / "epoch.json").write_text(of_epoch(text))
    copy = (CLIENTS / client).read_text()
    (tmp_path / to).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / to).write_text(f"package org.example;\n{copy}" if language == "java" else copy)
    (tmp_path / file).write_text(program.replace("LINES", lines))
    assert [done(tmp_path, command) for command in commands][-1].strip() == str(owner)
