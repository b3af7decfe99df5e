"""The steps of a how-to page, run as they stand: files are written, commands run, output compared.

A fenced block of a page is one of these:

- any language, with a first line `# PATH.py` or the like: a file of the reader's folder;
- `sh`: commands, run in this order by one shell;
- `text`: whole lines that the commands before it print, in this order. Logs may stand between them.
  `...` stands for anything.

Any other block is shown only: see `not_run`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

#: A line of our jobs: when it was said, what, and of which table and run. Pages show what alone.
_SAID = re.compile(r"\[ *[\d.]+ s\] (.*?)(?:  [a-z]+=\S+(?: [a-z]+=\S+)*)?")
#: Between the output of two steps.
_MARK = "=== step of the page"


def blocks(page: Path, without: str | None = None) -> list[tuple[str, str]]:
    """Return language and text of each fenced block of a page, indented or not.

    Parameters
    ----------
    without : heading of a section to leave out
    """
    text = page.read_text()
    if without:
        text, left_out = re.subn(rf"^## {without}\n.*?^(?=## )", "", text, flags=re.M | re.S)
        assert left_out == 1, f"{page} has no section {without!r}"
    found = re.findall(r"^( *)```(\w+)\n(.*?)^ *```", text, re.M | re.S)
    return [
        (language, "".join(line[len(indent) :] for line in text.splitlines(keepends=True)))
        for indent, language, text in found
    ]


def not_run(page: Path) -> list[str]:
    """Return the first line of each fenced block that is only shown: it is no step."""
    fence = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```", re.M | re.S)
    text = page.read_text()
    begin = re.search(r"^ *```sh\n", text, re.M)
    return [
        block[3].strip().split("\n")[0]
        for block in fence.finditer(text)
        if block[2] != "sh"
        and not (block[2] == "text" and begin and begin.start() < block.start())
        and not (block[2] and file_of(re.sub(rf"^{block[1]}", "", block[3], flags=re.M)))
    ]


def by_steps(page: Path, reader: str) -> list[str]:
    """Return the fences that are no steps, where the test runs the page as it stands."""
    return not_run(page) if "run(page, " in reader else ["the test runs no page"]


def by_file(page: Path, reader: str) -> list[str]:
    """Return the fences that are no file which the test names."""
    named = [(text, re.match(r"(?://|#) ([\w.]+)\b", text)) for _, text in blocks(page)]
    return [text for text, name in named if name is None or f'"{name[1]}"' not in reader]


def by_language(page: Path, reader: str) -> list[str]:
    """Return the fences of languages that the test has no project of; each language has one."""
    left, found = [], set[str]()
    for language, text in blocks(page):
        if language in found or f'    "{language}": (\n' not in reader:
            left.append(text)
        found.add(language)
    return left


def by_kind(page: Path, reader: str) -> list[str]:
    """Return the fences that are not the settings, and then the steps, of a kind of catalogs.

    The two before the sections are held against the page that is run.
    """
    left, languages = [], ["properties", "sh"]
    first, *sections = re.split(r"^## ", page.read_text(), flags=re.M)
    before = re.findall(r"^```(\w+)\n", first, re.M)
    for section in sections:
        fences = re.findall(r"^```(\w+)\n", section, re.M)
        known = f'"{section.partition(":")[0].lower()}"' in reader
        if fences and not (known and fences == languages[: len(fences)]):
            left.append(section)
    return left + before[2:]


def file_of(text: str) -> str | None:
    """Return the path that a block's first line names; None: it is no file."""
    named = re.match(r"# ([\w./-]+\.(?:py|yaml|sql|conf|config|properties))\n", text)
    return named[1] if named else None


def script(page: Path, without: str | None = None) -> str:
    """Return the shell script that does what the page says."""
    parts = ["set -eo pipefail"]
    for language, text in blocks(page, without):
        if path := file_of(text):
            folder = shlex.quote(str(Path(path).parent))
            parts.append(
                f"mkdir -p {folder}; cat > {shlex.quote(path)} <<'END_OF_FILE'\n{text}END_OF_FILE"
            )
        elif language == "sh":
            parts.append(f"echo '{_MARK}'\n{text}")
    return "\n".join(parts) + "\n"


def expected(page: Path, without: str | None = None) -> list[list[str]]:
    """Return for each step of commands the blocks of text that the page says it prints."""
    told: list[list[str]] = []
    for language, text in blocks(page, without):
        if language == "sh":
            told.append([])
        elif language == "text" and told:
            told[-1].append(text)
    return told


def missing(told: str, output: str) -> bool:
    """Whether the output has not all lines of a block of the page, in their order."""
    printed = iter(_lines(output))
    wanted = [r".*".join(re.escape(p.strip()) for p in t.split("...")) for t in _lines(told)]
    return not all(any(re.fullmatch(line, one) for one in printed) for line in wanted)


def _lines(text: str) -> list[str]:
    """Return the lines of a text that are not empty, with single spaces."""
    shown = [said[1] if (said := _SAID.fullmatch(li)) else li for li in text.splitlines()]
    return [" ".join(line.split()) for line in shown if line.strip()]


def run(
    page: Path, folder: Path, variables: Mapping[str, str], without: str | None = None
) -> list[str]:
    """Do what a page says in an empty folder, but for one section; return each step's output.

    Programs that the page leaves in the background are ended with it.

    Raises
    ------
    AssertionError : a command fails, or does not print what the page says
    """
    # Not a pipe: a program in the background would hold it open after the end.
    with tempfile.TemporaryFile("w+") as output:
        shell = subprocess.Popen(
            ["bash", "-c", script(page, without)],
            cwd=folder,
            env=dict(variables),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            shell.wait()
        finally:
            _end_group(shell.pid)
        output.seek(0)
        said = output.read()
    assert shell.returncode == 0, said[-6000:]
    outputs = said.split(_MARK)[1:]
    wrong = [
        (told, output[-3000:])
        for texts, output in zip(expected(page, without), outputs, strict=True)
        for told in texts
        if missing(told, output)
    ]
    assert not wrong, wrong
    return outputs


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
