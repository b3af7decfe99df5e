"""The console: look at specs, epochs, runs and keys, compare strategies, repair tables.

Every command that answers takes `--format json` (backtest: `jsonl`) for machines. Those that start
Spark print what the job prints. Our own errors are one line on stderr. The exit code is 2; or
1 for a gate and for what `doctor` finds, 75 if trying again may help, 77 if a right is missing.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from itertools import takewhile
from typing import Annotated, Any

import numpy as np
import typer
from typer.core import TyperCommand

from evenkeel import __version__
from evenkeel.backtest.command import backtest
from evenkeel.doctor.command import doctor
from evenkeel.inspect.key_history import owner_names
from evenkeel.registry.epochs import Registry
from evenkeel.render.answer_format import As, Format, answer, minute_text, shown_text
from evenkeel.run_commands import cost, runs
from evenkeel.spark_commands import TableName, adopt, evolve, forget, job, release, repair, spark
from evenkeel.spec.loading import check_enough_slots, find_spec
from evenkeel.table import open_table
from partitioning.errors import DamagedError, EvenkeelError, InputError
from partitioning.function.canonical import canonical_json
from partitioning.function.hashing import key_hash, slot_of
from partitioning.function.key_text import key_columns
from partitioning.function.sql import channel_sql, slot_sql

#: Engine -> why its SQL cannot have the function. All engines but Spark are refused.
_NO_DIALECT = {
    "duckdb": "DuckDB has no xxhash64",
    "polars": "Polars has no xxhash64 in its SQL",
    "trino": "Trino's xxhash64 takes no seed, and that of a key begins with 42",
}

#: Title of a column of times, which a narrow console must not cut.
_PUBLISHED = "published (UTC)"

app = typer.Typer(
    name="evenkeel",
    help="Keep keyed state evenly spread: look at specs, epochs and keys; compare strategies.",
    no_args_is_help=True,
    add_completion=False,
)


def _say_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"evenkeel {__version__}\n")
        raise typer.Exit


@app.callback()
def _console(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="say it, and end"),
    ] = False,
) -> None: ...


class _Keys(TyperCommand):
    """A command that takes keys: a number below zero is a key, not an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {o for p in self.get_params(ctx) for o in (*p.opts, *p.secondary_opts)}
        options = (a for a in takewhile(lambda a: a != "--", args) if a.startswith("-"))
        for option in (a.split("=")[0] for a in options):
            if option not in known and not re.match(r"-\.?\d", option):
                ctx.fail(f"No such option: {option}. Keys that begin with a dash come after --")
        ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)


@app.command()
def check(
    spec: Annotated[str, typer.Argument(help="path of a table spec, or a table's name")],
    format: As = Format.table,
) -> None:
    """Check a table spec; name every wrong field with what is allowed.

    It reads the spec alone. `evenkeel doctor TABLE` looks at its input, columns and stores.
    """
    file = find_spec(spec)
    found = open_table(str(file)).spec
    check_enough_slots(found, str(file))
    if file.stem != found.table:
        sys.stderr.write(
            f"evenkeel: note: {file}: the file's name is not its table's. Commands know the table "
            f"as {found.table!r}, and refuse {file.stem!r}\n"
        )
    names = [c.name for c in found.channel_list()]
    facts = {
        "table": found.table,
        "key": found.key,
        "channels": len(names),
        "slots": found.slots,
        "state": {name: state.path for name, state in found.state.items()},
        "registry": found.registry,
        "strategy": found.strategy,
    }
    answer(format, facts, ["field", "value"], [[k, shown_text(v)] for k, v in facts.items()])


@app.command()
def epochs(
    table: TableName,
    last: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="list the newest N epochs; default: all"),
    ] = None,
    format: As = Format.table,
) -> None:
    """List a table's epochs, the newest last."""
    registry = open_table(table).registry
    _note_release(registry)
    numbers = registry.numbers()
    facts = [_summary_or_note(registry, n) for n in (numbers[-last:] if last else numbers)]
    if not facts and format is not Format.json:
        sys.stdout.write(f"no epoch is published yet in {registry.url}: bootstrap or adopt it\n")
        return
    columns = ["epoch", "published", "strategy", "channels", "explicit_keys", "plan_digest"]
    rows = [[_epoch_text(f, column) for column in columns] for f in facts]
    shown = {"published": _PUBLISHED, "explicit_keys": "pinned keys"}
    titles = [shown.get(c, c) for c in columns]
    answer(format, facts, titles, rows, whole=[_PUBLISHED])


@app.command()
def show(
    table: TableName,
    epoch: Annotated[int | None, typer.Argument(help="its number; default: the current")] = None,
    format: As = Format.table,
) -> None:
    """Show one epoch: its function, its channels and the versions of its state tables."""
    of = open_table(table)
    found = of.epoch(epoch)
    _note_release(of.registry)
    function = found.function
    facts = {
        **_summary(found),
        "key": [f"{c.name} {c.type}" for c in function.key],
        "slots": len(function.slots),
        "row_slots": function.row_slots,
        "options": dict(function.options),
        "digest": function.digest,
        "parent": function.parent,
        "tables": {n: {"path": t.path, "version": t.version} for n, t in found.tables.items()},
        "owned": [
            {"channel": c.name, "capacity": c.capacity, "slots": int(s), "explicit_keys": int(k)}
            for c, s, k in zip(
                function.channels,
                np.bincount(function.slots, minlength=len(function.channels)),
                np.bincount(function.explicit_channels, minlength=len(function.channels)),
                strict=True,
            )
        ],
    }
    rows = [[k, shown_text(v)] for k, v in facts.items() if k != "owned"]
    rows += [
        [f"channel {o['channel']}", f"{o['slots']} slots, {o['explicit_keys']} pinned keys"]
        for o in facts["owned"]
    ]
    answer(format, facts, ["field", "value"], rows)


@app.command()
def sql(
    table: TableName,
    epoch: Annotated[int | None, typer.Argument(help="its number; default: the current")] = None,
    dialect: Annotated[
        str, typer.Option(metavar="spark", help="engine of the SQL; no other has Spark's hash")
    ] = "spark",
    format: As = Format.table,
) -> None:
    """Print SQL expressions for the slot and the channel of a row."""
    if dialect != "spark":
        why = _NO_DIALECT.get(dialect.lower(), "its hash is not known to equal Spark's xxhash64")
        raise InputError(
            f"expected the dialect spark, got {dialect!r}: {why}",
            "--dialect",
            "Ask `evenkeel locate`, or in Python `open_table(NAME).epoch().lookup(...)`. The "
            "docs of each release have clients for Java, Go, Rust and JavaScript, in clients/",
        )
    found = open_table(table).epoch(epoch)
    function = found.function
    slot, channel = slot_sql(function.key, function.row_slots), channel_sql(function)
    facts = {"epoch": found.number, "slot": slot, "channel": channel}
    # Not in a grid: they are there to be copied.
    plain = f"{slot} AS slot,\n{channel} AS channel"
    shown = canonical_json(facts).decode() if format is Format.json else plain
    sys.stdout.write(shown + "\n")


@app.command(cls=_Keys)
def locate(
    table: TableName,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help="keys; the columns of a composite key with commas or ' | ' between them, or as a "
            "JSON list; after --, also texts that begin with a dash",
        ),
    ],
    epoch: Annotated[int | None, typer.Option(help="its number; default: the current")] = None,
    format: As = Format.table,
) -> None:
    """Say which channel owns each key, and whether it goes with its slot, is pinned or is split.

    For a split key, list all its channels with their shares.
    """
    found = open_table(table).epoch(epoch)
    function = found.function
    columns = key_columns(keys, [c.type for c in function.key], sure=True)
    hashes = key_hash(columns, [c.type for c in function.key])
    owners = function.lookup_hashes(hashes)
    by_name = np.isin(hashes, function.explicit_keys)
    slots = slot_of(hashes, function.row_slots)
    placed = np.where(by_name, "name", "slot").astype(object)
    placed[function.split.find(hashes) >= 0] = "split"
    facts = [
        {
            "key": key,
            "channel": name,
            "number": int(owner),
            "slot": int(slot),
            "placed_by": str(by),
            "epoch": found.number,
        }
        for key, name, owner, slot, by in zip(
            keys, owner_names(function, hashes), owners, slots, placed, strict=True
        )
    ]
    shown = ["key", "channel", "slot", "placed_by", "epoch"]
    answer(format, facts, shown, [[shown_text(f[c]) for c in shown] for f in facts])


for _command in (runs, cost, repair, adopt, release, evolve, spark):
    app.command()(_command)
app.command(cls=_Keys)(forget)
app.command(context_settings={"ignore_unknown_options": True})(job)
app.command()(backtest)
app.command()(doctor)


def _summary(epoch: Any) -> dict[str, Any]:
    return {
        "epoch": epoch.number,
        "published": epoch.published,
        "strategy": epoch.function.strategy,
        "channels": len(epoch.function.channels),
        "explicit_keys": len(epoch.function.explicit_keys),
        "plan_digest": epoch.plan_digest,
    }


def _summary_or_note(registry: Registry, number: int) -> dict[str, Any]:
    """Return the facts of an epoch; if its file is damaged, a note and facts that are null."""
    try:
        return _summary(registry.epoch(number))
    except DamagedError as error:
        sys.stderr.write(f"evenkeel: note: {error}\n")
        facts = ("published", "strategy", "channels", "explicit_keys", "plan_digest")
        return {"epoch": number, **dict.fromkeys(facts)}


def _epoch_text(facts: dict[str, Any], column: str) -> str:
    if column == "published":
        moment = facts[column]
        return "cannot be read" if moment is None else minute_text(moment)
    return shown_text(facts[column])


def _note_release(registry: Registry) -> None:
    mark = None
    with suppress(EvenkeelError):  # a note, without which the answer is whole
        mark = registry.files.released.find()
    if mark is not None:
        sys.stderr.write(
            f"evenkeel: note: the tables were released on {mark.time[:10]}: nothing places their "
            "rows by these epochs\n"
        )


def main() -> None:
    """Run the console."""
    try:
        app()
    except EvenkeelError as error:
        sys.stderr.write(f"evenkeel: error: {error}\n")
        raise SystemExit(error.exit_code) from None
