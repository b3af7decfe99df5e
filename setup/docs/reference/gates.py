"""Tables of docs/GATES.md: each expectation as the code names it, what it means, and what to do."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from evenkeel.quality.tables_suite import (
    FILE_OVERHEAD,
    ROWS_OFF,
    WRITTEN_OVER_FAILURE,
    WRITTEN_OVER_WARNING,
)
from partitioning.planning.aims import MIN_GAIN
from setup.docs.reference.markdown import ROOT, table

PAGE = ROOT / "docs" / "GATES.md"
#: Suite -> its module.
SUITES = {"plan": "evenkeel/quality/plan_suite.py", "tables": "evenkeel/quality/tables_suite.py"}
HEAD = ("Expectation", "It means", "When it fails")
AGAIN = "plan again; if it fails again, please report it"
RELEARN = "the profile is wrong: start a new run with the Param *Relearn*"
BUG = "plan again; if it fails again, it is a bug in the strategy: please report it"
STRATEGY = "the strategy does worse than it could: use `frontier`, or raise `max_imbalance`"
CLOSED = "the strategy does not honour capacities: use another"
EDITED = "the spec was edited during the run: start a new one"
KEEP = "keep the run's folder and both versions of the table, and report it"
#: Expectation -> what it means, and what to do when it fails.
TEXTS: dict[str, tuple[str, str]] = {
    "The channels are as even as asked, or as they can be": (
        "the fullest channel, in fair shares, is at most the aim: `max_imbalance`, or what "
        "chance and bytes ask for. If no function gets there (a key is heavier than its share) "
        f"or the budget buys less, the bound is the best point of the curve plus {MIN_GAIN:g}. "
        "The report says which of the three cases it is",
        STRATEGY,
    ),
    "The channels are not less even than before": (
        "the plan does not make the imbalance worse. Not asked when channels change, or when a "
        "person goes back to an earlier epoch",
        STRATEGY,
    ),
    "No function beats the floor": ("the plan's imbalance is at least the floor", RELEARN),
    "No load is lost and none appears": ("loads before and after have the same sum", RELEARN),
    "Closed and dropped channels carry no load": (
        "a channel of capacity 0, or beyond the new number, gets nothing",
        CLOSED,
    ),
    "Every slot and heavy key is owned by an open channel": (
        "the same holds for slots without any load",
        CLOSED,
    ),
    "The moves are exactly what differs between the two functions": (
        "the parent's function with the moves applied is the plan's function; split keys are "
        "compared share by share",
        BUG,
    ),
    "Every move starts at the channel that owns the slot or key now": (
        "the plan was made from this parent",
        BUG,
    ),
    "No slot or key moves twice": ("no share of a split key goes the same way twice either", BUG),
    "Every move goes to another channel": ("no move is useless", BUG),
    "Nothing moves without a reason": ("each move says why", BUG),
    "No move has negative load, bytes or rows": ("what a move carries is at least 0", BUG),
    "The bytes of the moves add up to the plan's": (
        "the plan's price is the sum of its moves' prices",
        BUG,
    ),
    "The plan starts from the epoch that it names": (
        "the digest of the parent is that of the current epoch",
        "another run was first: start a new run",
    ),
    "The imbalance that the plan states is that of its loads": (
        "the figure that people approve is true",
        AGAIN,
    ),
    "The loads that the plan predicts are those of the profile": (
        "they equal the loads computed once more from the run's profile",
        "the profile was learned again since: start a new run",
    ),
    "The plan moves no more than the budget": (
        "asked only if a budget is set",
        "raise `budget`; a channel that is to be emptied must move all that it holds",
    ),
    "Every state table was measured": ("no table passes because it was not measured", EDITED),
    "Only the plan's state tables were measured": (
        "no table is held to a plan that does not name it",
        EDITED,
    ),
    "No row is lost and none appears": (
        "rows in the version before our UPDATE = rows in the version after it",
        KEEP,
    ),
    "No value changes but the channel": (
        "the checksum over all columns but `channel` is the same",
        KEEP,
    ),
    "Every row is where the function says": (
        "0 rows whose channel or slot is not the new function's",
        "a writer wrote with another function: find it in `DESCRIBE HISTORY`",
    ),
    "No split key's state changes when its partials are merged": (
        "asked only if keys are split before or after. Merged over all channels, each split key "
        "has the same state as before; sketches are compared by their estimate, sums of floats up "
        "to rounding. Rows and checksums above then count whole keys only",
        KEEP,
    ),
    "Every owner of a split key has its copy": (
        "asked of tables whose rows are [copied](SPEC.md), if keys are split before or after: 0 "
        "owners lack their row, or have one that differs from the others'",
        "a writer deleted rows, or wrote on one owner alone, after the last sweep: find it in "
        "`DESCRIBE HISTORY`, then run again",
    ),
    "No key stands in two rows": (
        "each key has one row (not asked of tables with `rows: many`); a split key has one row "
        "a channel. If a key is split before or "
        "after, rows that a writer appended for it are merged as it moves, by the merges of the "
        "spec. Appended rows of other keys are not merged",
        "a writer appended a row for a whole key. Look first with `DESCRIBE HISTORY` and `VERSION "
        "AS OF` at the version before that append. If the new row holds only later events, merge "
        "both rows into one. If it holds everything, delete the old row. Then run again",
    ),
    "Only what was to move was written": (
        f"bytes written are at most {1 + WRITTEN_OVER_FAILURE:g} times the prediction, plus "
        f"{FILE_OVERHEAD:,} a file. Moved rows may have larger text, arrays or other values "
        "without a fixed size than the table's mean: the prediction adds the difference",
        "if `SHOW TBLPROPERTIES` does not say `delta.enableDeletionVectors` = `true`: set it, "
        "because whole files were rewritten. Otherwise the commits wrote rows that the plan does "
        "not name: keep the run's folder and report it",
    ),
    "No more was written than the budget": (
        "asked only if a budget is set: bytes written in all state tables, less "
        f"{FILE_OVERHEAD:,} a file, are at most the budget",
        "the moved rows take more bytes than rows of the same width in the table's other files; "
        "plan again, or raise `budget`",
    ),
    "The bytes written are as predicted": (
        f"bytes written are at most {1 + WRITTEN_OVER_WARNING:g} times the prediction, plus "
        f"{FILE_OVERHEAD:,} a file",
        "keys differ in size, or compress differently in new files: no harm. If it stays so, look "
        "at the table's row size",
    ),
    "Each channel holds the rows that were predicted": (
        f"the rows of all state tables together are within {ROWS_OFF:.0%} of the prediction, or "
        "within one row. The growth of the tables since they were weighed is allowed, too",
        "rows came or went since they were counted, and no harm is done: the next run counts them "
        "again",
    ),
}


def expectations(module: Path) -> list[tuple[str, bool]]:
    """Return each expectation of a suite as its code names it, and whether it only warns."""
    calls = [
        node
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "expect"
    ]
    return [
        (ast.literal_eval(call.args[2]), any(k.arg == "severity" for k in call.keywords))
        for call in sorted(calls, key=lambda call: call.lineno)
    ]


def suite(name: str) -> str:
    """Return the table of a suite, in the order of its code.

    Raises
    ------
    KeyError : TEXTS does not say what an expectation means
    """
    rows = [(what, *TEXTS[what], warns) for what, warns in expectations(ROOT / SUITES[name])]
    return table(HEAD, [(f"{what} (`!`)" if warns else what, *told) for what, *told, warns in rows])


def page_text() -> str:
    """Return the page with its tables as the code has them."""
    text = PAGE.read_text()
    for name in SUITES:
        between = rf"(<!-- make reference: {name} -->\n\n).*?(<!-- end of {name} -->)"
        text = re.sub(
            between, lambda m, name=name: m[1] + suite(name) + "\n\n" + m[2], text, flags=re.S
        )
    return text
