"""Commands in sentences: targets of make, modules, their options, files and extras are there.

Airflow's own parser looks at those of `airflow`. Those of `evenkeel` are held against the console
in tests/project/test_operations.py.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from tempfile import TemporaryDirectory

import pytest

from benchmarks.__main__ import ALL, LONG
from benchmarks.papers.__main__ import QUICK
from tests.support.docs.readme import ROOT

FOLDERS = ("*.md", "examples/*.md", "clients/*.md", "docs/**/*.md")
PAGES = [page for folder in FOLDERS for page in ROOT.glob(folder)]
MAKEFILE = (ROOT / "Makefile").read_text()
#: Target of make -> the names that its ARGS may have.
NAMES = {"bench": {*ALL, *LONG}, "papers": {*QUICK}, "papers-quick": {*QUICK}}
_FENCE = re.compile(r"^ *```.*?^ *```", re.M | re.S)
#: Programs whose files alone are looked for: other tests run them, or they are not here.
OTHERS = ("cargo", "cp", "docker", "go", "java", "kubectl", "node", "promtool", "spark-submit")
_COMMAND = re.compile(
    rf"`(?:[A-Z_]+=\S+ )*((?:make|airflow|pip|{'|'.join(OTHERS)}"
    r"|(?:\.venv/bin/)?(?:python|pytest))\s[^`]+)`"
)
#: A word that names a file or a folder, which may begin beside the page's own.
_PATH = re.compile(r"(?:\.\./)*([\w./-]*(?:/\w[\w.-]*|\.(?:java|mjs|py|txt|yaml)))")
#: Commands that are not there.
WRONG = [
    shlex.split(line)
    for line in (
        "make nothing",
        "make bench ARGS=nothing",
        'make bench ARGS="--times 3 nothing"',
        "make papers ARGS=nothing",
        'make test ARGS="-k nothing_of_that_kind"',
        'make chaos ARGS="--nothing 3"',
        "make run NOTHING=3",
        "python -m benchmarks.nothing",
        "python -m benchmarks.spark.learn --nothing 3",
        "pytest tests/nothing.py",
        "airflow nothing",
        "airflow dags nothing",
        "airflow dags unpause sales --nothing",
        "airflow dags trigger sales --conf",
        "pip instal pyspark",
        "pip install --nothing",
        "pip install 'evenkeel[nothing]'",
        "cp deploy/nothing.example .env",
        "java Nothing.java ../vectors.txt",
        "kubectl apply -f deploy/nothing",
    )
]


def commands() -> Iterator[list[str]]:
    """Yield the words of each such command, without the folder of its program."""
    for page in PAGES:
        for text in _COMMAND.findall(_FENCE.sub("", page.read_text())):
            program, *words = shlex.split(text)
            yield [program.rpartition("/")[2], *words]


#: A program of the checkout's environment without its folder: a reader's shell has another one.
_BARE = re.compile(r"`(?:[A-Z_]+=\S+ )*(?:python|pytest)\s[^`]+`")
FOUND = sorted({tuple(words) for words in commands()})


def problem(program: str, *words: str) -> str | None:
    """Return what is wrong with a command; None: it can be run as it stands."""
    if program == "make":
        return problem_of_make(*words)
    if program == "airflow":
        return problems_of_airflow()[words]
    if program == "pip":
        return problem_of_pip(*words)
    if program in OTHERS:
        paths = [found[1] for word in words if (found := _PATH.fullmatch(word))]
        gone = [path for path in paths if not is_there(path)]
        return f"there is no {gone}" if gone else None
    if program == "pytest" or words[0] != "-m":
        paths = [word for word in words if word.startswith("tests/")]
        gone = [path for path in paths if not (ROOT / path).exists()]
        return f"there is no {gone}" if gone or not paths else None
    module, *rest = words[1:]
    if find_spec(module) is None:
        return f"there is no module {module}"
    return without(options(rest), module)


def problem_of_make(target: str, *words: str) -> str | None:
    """Return what is wrong with a command of make."""
    if not re.search(rf"^{re.escape(target)}:", MAKEFILE, re.M):
        return f"there is no target {target}"
    if wrong := [word for word in words if not re.match("(ARGS|DATA|KEY|TIME)=", word)]:
        return f"make takes no {wrong}"
    given = [shlex.split(word[5:]) for word in words if word.startswith("ARGS=")]
    arguments = given[0] if given else []
    if target in NAMES:
        names = {word for word in arguments if re.fullmatch(r"[a-z_]+", word)}
        return f"{target} has no {names - NAMES[target]}" if names - NAMES[target] else None
    if "-k" in arguments:
        return None if arguments[-1] in names_of_tests() else f"no test is {arguments[-1]}"
    runs = re.search(
        rf"^{target}:.*\n(?:\t.*\n)*?\t.*\$\(PY\) -m ([\w.]+) .*\$\(ARGS\)", MAKEFILE, re.M
    )
    return without(options(arguments), runs[1]) if runs else None


def problem_of_pip(name: str, *words: str) -> str | None:
    """Return what is wrong with a command of pip: its name, an option, or an extra of ours."""
    asked = [sys.executable, "-m", "pip", name, "--help"]
    said = subprocess.run(asked, capture_output=True, text=True)
    if said.returncode:
        return said.stderr
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [found[1].split(",") for word in words if (found := re.match(r"evenkeel\[(.+)]", word))]
    gone = {extra for extras in named for extra in extras} - known.keys()
    gone |= options(list(words)) - set(re.findall(r"--[a-z][\w-]*", said.stdout))
    return f"pip {name} knows no {gone}" if gone else None


def is_there(path: str) -> bool:
    """Return whether the repository has a file or folder of this name, or a page writes it."""
    if re.search("[A-Z]{2}", path):
        return True
    written = any(f"```yaml\n# {path}\n" in page.read_text() for page in PAGES)
    return written or any(ROOT.glob(path)) or any(ROOT.glob(f"clients/**/{path}"))


def options(words: list[str]) -> set[str]:
    """Return the options among words."""
    return {word.split("=")[0] for word in words if word.startswith("--")}


def without(given: set[str], module: str) -> str | None:
    """Return which options a module does not have."""
    gone = given - (shown(module) if given else set())
    return f"{module} has no {gone}" if gone else None


@cache
def shown(module: str) -> set[str]:
    """Return the options in a module's help."""
    command = [sys.executable, "-m", module, "--help"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"--[a-z][\w-]*", said))


@cache
def problems_of_airflow() -> dict[tuple[str, ...], str | None]:
    """Return for each command of airflow what its own parser finds wrong: it takes seconds."""
    asked = [tuple(words) for program, *words in (*FOUND, *WRONG) if program == "airflow"]
    with TemporaryDirectory() as home:
        said = subprocess.run(
            [sys.executable, "-m", "tests.support.docs.airflow_commands"],
            input=json.dumps(asked),
            cwd=ROOT,
            env={**os.environ, "AIRFLOW_HOME": home},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    return dict(zip(asked, json.loads(said.splitlines()[-1]), strict=True))


@cache
def names_of_tests() -> str:
    """Return the names of all test files, and of their tests."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    names = [str(file.relative_to(ROOT)) for file in files]
    names += [name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())]
    return " ".join(names)


@pytest.mark.parametrize("words", FOUND, ids=" ".join)
def test_a_command_in_a_sentence_is_there(words: tuple[str, ...]) -> None:
    assert problem(*words) is None


def test_a_command_that_is_not_there_is_found() -> None:
    assert {words[0] for words in FOUND} == {"airflow", "make", "pip", "python", "pytest", *OTHERS}
    assert len(FOUND) > 50
    for wrong in WRONG:
        assert problem(*wrong), wrong


def test_a_command_of_the_checkout_names_the_folder_of_its_program() -> None:
    """The how-to pages alone begin with an environment of the reader's own."""
    bare = {
        str(page.relative_to(ROOT)): found
        for page in PAGES
        if "how-to" not in page.parts
        if (found := _BARE.findall(_FENCE.sub("", page.read_text())))
    }
    assert bare == {}
    assert _BARE.findall("`A=1 python -m benchmarks.spark`, `.venv/bin/python -m x`, `pytest -k`")
