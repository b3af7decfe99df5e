"""Run every experiment and put its figures into docs/PAPERS.md.

`make papers` and `make papers-quick` run this. The text between `<!-- NAME -->` and `<!-- end -->`
is what `python -m benchmarks.papers.NAME` prints. The words around it are written by hand, and the
pictures are drawn from it. The table between `<!-- runs -->` and `<!-- end -->` shows how long each
took. A quick run only prints. A run that lacked some of its data changes nothing in the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.papers.data import LACKING
from benchmarks.papers.pictures import PAPERS
from benchmarks.papers.pictures import main as draw_all

#: Arguments of a quick run, by experiment.
QUICK = {
    "gedik": ["--quick"],
    "gedik_steps": ["1", "10"],
    "gedik_ranges": ["--quick"],
    "lossy": ["1"],
    "rivetti": ["2"],
    "rivetti_many": ["10"],
    "guo_zhou": ["1"],
    "gauss_zipf": ["20"],
    "flexd": ["50000"],
    "flexd_time": ["5"],
    "flexd_data": ["25000"],
    "throughput": ["--quick"],
    "reshape": [],
    "reshape_more": [],
    "watch_cost": ["1", "5000"],
    "dicer": ["50"],
    "forecast": ["4"],
    "real_data": ["300000"],
}


def module_of(name: str) -> str:
    """Dotted name of an experiment's module, whichever room it is in."""
    home = Path(__file__).parent
    (file,) = home.rglob(f"{name}.py")
    return ".".join(["benchmarks", "papers", *file.relative_to(home).with_suffix("").parts])


def main(asked: list[str]) -> int:
    """Run all experiments, or the named ones; return non-zero if one failed."""
    quick = "--quick" in asked
    names = [name for name in asked if name != "--quick"] or list(QUICK)
    if unknown := set(names) - set(QUICK):
        sys.stderr.write(
            f"evenkeel: error: no experiment {sorted(unknown)}. There are: {', '.join(QUICK)}\n"
        )
        return 2
    failed, start = 0, time.monotonic()
    for number, name in enumerate(names):
        command = [
            sys.executable,
            "-m",
            module_of(name),
            *(QUICK[name] if quick else []),
        ]
        left = "" if quick else f", {to_go(PAPERS.read_text(), names[number:])}"
        print(f"== {name} ({number + 1} of {len(names)}{left})", flush=True)
        lines, began = [], time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            for line in running.stdout:
                print(line, end="", flush=True)
                lines.append(line.rstrip())
        seconds = time.monotonic() - began
        print(f"({name}: {seconds:.0f} s)", flush=True)
        if running.returncode == LACKING:
            print(f"({name} lacked data: docs/PAPERS.md is unchanged; it says how to get the data)")
        elif running.returncode:
            failed = 1
        elif not quick:
            page = filled(PAPERS.read_text(), name, "\n".join(lines).strip())
            cores, today = len(os.sched_getaffinity(0)), datetime.now(UTC).date()
            PAPERS.write_text(timed(page, name, f"{seconds:>9,.0f}{cores:>7}   {today}"))
    if not quick:
        draw_all()
    print(f"{len(names)} experiments: {(time.monotonic() - start) / 60:.0f} minutes")
    return failed


def filled(page: str, name: str, figures: str) -> str:
    """Return the page with an experiment's figures; ValueError if it has no place for them."""
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not place.search(page):
        raise ValueError(f"{PAPERS} has no place for {name}")
    return place.sub(lambda m: f"{m[1]}```text\n{figures}\n```\n{m[2]}", page)


def runs_of(page: str) -> dict[str, str]:
    """Return what the page says of each experiment's last run, by name."""
    found = re.search(r"<!-- runs -->\n```text\n.*?\n(.*?)```\n<!-- end -->", page, re.DOTALL)
    return dict(re.findall(r"^(\w+)(.*)$", found[1] if found else "", re.MULTILINE))


def seconds_of(run: str) -> int:
    """Return the seconds of a line of `runs_of`."""
    return int(run.split()[0].replace(",", ""))


def to_go(page: str, names: list[str]) -> str:
    """Say in words how long these experiments took when they were last run."""
    runs = runs_of(page)
    minutes = sum(seconds_of(runs[name]) for name in names if name in runs) / 60
    unknown = [name for name in names if name not in runs]
    more = f" and what {', '.join(unknown)} take" if unknown else ""
    return f"about {minutes:.0f} minutes to go{more}"


def timed(page: str, name: str, run: str) -> str:
    """Return the page with this experiment's last run (seconds, cores, date), in QUICK's order."""
    runs = runs_of(page)
    runs[name] = " " * (12 - len(name)) + run
    runs.pop("all", None)
    rows = [each + runs[each] for each in QUICK if each in runs]
    if len(rows) == len(QUICK):
        total = sum(seconds_of(runs[each]) for each in QUICK)
        rows.append(f"{'all':12}{total:>9,}")
    head = f"{'experiment':12}{'seconds':>9}{'cores':>7}   date"
    return filled(page, "runs", "\n".join([head, *rows]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
