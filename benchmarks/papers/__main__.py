"""Run every experiment and put its figures into the pages of docs/papers.

`make papers` and `make papers-quick` run this. `pages` says how the pages are filled. The words
around the figures are written by hand, and the pictures are drawn from them. A quick run only
prints. A run that lacked some of its data changes nothing in its page.

    python -m benchmarks.papers [--quick] [--mark] [NAME ...]

`--mark` runs nothing. It notes above each block whether its code has changed since it was run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.papers.data import LACKING
from benchmarks.papers.pages import (
    INDEX,
    code_of,
    filled,
    marked,
    page_of,
    runs_of,
    seconds_of,
    timed,
)
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
    "guo_zhou_queues": ["12", "2"],
    "gauss_zipf": ["20"],
    "flexd": ["50000", "10"],
    "flexd_time": ["5"],
    "flexd_data": ["25000"],
    "throughput": ["--quick"],
    "reshape": ["--quick"],
    "reshape_more": [],
    "watch_cost": ["1", "2000"],
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
    parser = argparse.ArgumentParser(
        "python -m benchmarks.papers", description="Run experiments, and fill their pages."
    )
    parser.add_argument("--quick", action="store_true", help="on less, printed only")
    parser.add_argument("--mark", action="store_true", help="only note which blocks are old")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(QUICK)}")
    options = parser.parse_args(asked)
    names, quick = options.names or list(QUICK), options.quick
    if unknown := set(names) - set(QUICK):
        parser.error(f"there is no experiment {sorted(unknown)}. There are: {', '.join(QUICK)}")
    if options.mark:
        mark(names)
        return 0
    failed, start = 0, time.monotonic()
    for number, name in enumerate(names):
        left = "" if quick else f", {to_go(INDEX.read_text(), names[number:])}"
        print(f"== {name} ({number + 1} of {len(names)}{left})", flush=True)
        began, ran = time.monotonic(), code_of(module_of(name))
        code, figures = shown(name, QUICK[name] if quick else [])
        seconds = time.monotonic() - began
        print(f"({name}: {seconds:.0f} s)", flush=True)
        if code == LACKING:
            print(f"({name} lacked data: its page is unchanged; docs/papers says how to get it)")
        elif code:
            failed = 1
        elif not quick:
            put(name, figures, seconds, ran)
    if not quick:
        draw_all()
    print(f"{len(names)} experiments: {(time.monotonic() - start) / 60:.0f} minutes")
    return failed


def shown(name: str, arguments: list[str]) -> tuple[int, str]:
    """Run one experiment, showing what it prints; return its exit code and what it printed."""
    lines = []
    command = [sys.executable, "-m", module_of(name), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    return running.returncode, "\n".join(lines).strip()


def put(name: str, figures: str, seconds: float, ran: str, today: str = "") -> None:
    """Fill an experiment's place, and note its run, and the code that ran, on the index."""
    page = page_of(name)
    page.write_text(marked(filled(page.read_text(), name, figures), name, older=False))
    cores, today = len(os.sched_getaffinity(0)), today or str(datetime.now(UTC).date())
    run = f"{seconds:>9,.0f}{cores:>7}   {today}  {ran}"
    INDEX.write_text(timed(INDEX.read_text(), name, run, QUICK))


def mark(names: list[str]) -> None:
    """Note above each block whether its code has changed since it was run."""
    runs = runs_of(INDEX.read_text())
    for name in names:
        page, older = page_of(name), runs[name].split()[-1] != code_of(module_of(name))
        page.write_text(marked(page.read_text(), name, older))
        print(f"{name}: {'older than its code' if older else 'as its code'}")


def to_go(page: str, names: list[str]) -> str:
    """Say in words how long these experiments took when they were last run."""
    runs = runs_of(page)
    minutes = sum(seconds_of(runs[name]) for name in names if name in runs) / 60
    unknown = [name for name in names if name not in runs]
    more = f" and what {', '.join(unknown)} take" if unknown else ""
    return f"about {minutes:.0f} minutes to go{more}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
