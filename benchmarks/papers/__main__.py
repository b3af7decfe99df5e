"""Every experiment, its figures put into docs/PAPERS.md: `make papers`, `make papers-quick`.

What stands there between `<!-- NAME -->` and `<!-- end -->` is what `python -m
benchmarks.papers.NAME` prints; the words around it are ours, the pictures are drawn from it. How
long each took stands between `<!-- runs -->` and `<!-- end -->`. A quick run only prints, and one
that lacked some of its data changes nothing there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime

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


def main(asked: list[str]) -> int:
    """Run all experiments, or those named; non-zero where one failed."""
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
            f"benchmarks.papers.{name}",
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
            print(f"({name} lacked data: docs/PAPERS.md stays as it is, and tells how to get them)")
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
    """The page with these figures for an experiment; ValueError where it has no place for them."""
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not place.search(page):
        raise ValueError(f"{PAPERS} has no place for {name}")
    return place.sub(lambda m: f"{m[1]}```text\n{figures}\n```\n{m[2]}", page)


def runs_of(page: str) -> dict[str, str]:
    """What the page says of each experiment's last run, by name."""
    found = re.search(r"<!-- runs -->\n```text\n.*?\n(.*?)```\n<!-- end -->", page, re.DOTALL)
    return dict(re.findall(r"^(\w+)(.*)$", found[1] if found else "", re.MULTILINE))


def seconds_of(run: str) -> int:
    """Of a line of `runs_of`."""
    return int(run.split()[0].replace(",", ""))


def to_go(page: str, names: list[str]) -> str:
    """How long these experiments took when they were last run, in words."""
    runs = runs_of(page)
    minutes = sum(seconds_of(runs[name]) for name in names if name in runs) / 60
    unknown = [name for name in names if name not in runs]
    more = f" and what {', '.join(unknown)} take" if unknown else ""
    return f"about {minutes:.0f} minutes to go{more}"


def timed(page: str, name: str, run: str) -> str:
    """The page with this experiment's last run: seconds, cores and date, in the order of QUICK."""
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
