"""Pages of docs/how-to whose fences another test runs, and which of them it does not read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.support.docs.steps import blocks, not_run


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


#: Page -> the file that reads it, and what tells the fences that it leaves.
ELSEWHERE: dict[str, tuple[str, Callable[[Path, str], list[str]]]] = {
    "clusters/yarn": ("evenkeel_airflow/test_yarn.py", by_steps),
    "engines/java": ("clients/test_kafka_and_flink.py", by_file),
    "engines/clients": ("clients/test_usage.py", by_language),
    "formats/iceberg-catalogs": ("support/iceberg/catalogs.py", by_kind),
}
