"""Explore the protocol: `make model`, or `python -m tests.model [CASE ...] [--variant NAME]`.

Prints, for each case, how many states were visited and the shortest story of what is broken; exit
code 1 where something is broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tests.model.checker.explore import Explored, explore
from tests.model.checker.story import story
from tests.model.protocols.protocol import Scenario, Variant
from tests.model.protocols.scenarios import BESIDE_A_RUN, CASES, LARGE, MORE, scenario_of
from tests.model.protocols.variants import VARIANTS

_MORE = MORE | BESIDE_A_RUN | LARGE


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join([*CASES, *_MORE]))
    parser.add_argument("--variant", choices=list(VARIANTS), default=list(VARIANTS)[-1])
    parser.add_argument("--limit", type=int, default=1_000_000, help="states to visit at most")
    asked = parser.parse_args(argv)
    variant = VARIANTS[asked.variant]
    scenarios = {n: scenario_of(case, variant.name) for n, case in CASES.items()} | _MORE
    if unknown := set(asked.cases) - set(scenarios):
        parser.error(
            f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(scenarios)}"
        )
    visited, broken = 0, 0
    for name in asked.cases or scenarios:
        found = tell(name, variant, scenarios[name], asked.limit)
        visited += len(found.states)
        broken += bool(found.findings)
    print(f"{visited:,} states visited of the protocol {variant.name!r}: {broken} cases broken")
    return 1 if broken else 0


def tell(name: str, variant: Variant, scenario: Scenario, limit: int) -> Explored:
    """Explore a scenario and print what is found."""
    began = time.process_time()
    found = explore(variant, scenario, limit)
    seconds = time.process_time() - began
    kind = "every state" if found.complete else "the nearest; there are more"
    print(
        f"{name}: {len(found.states):,} states, {found.edges:,} steps, {seconds:.1f} s of CPU "
        f"({kind}), {found.stuck:,} with no way out",
        flush=True,
    )
    for finding in found.findings.values():
        print(story(variant, scenario, found, finding), flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
