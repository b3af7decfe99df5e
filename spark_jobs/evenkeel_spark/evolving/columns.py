"""How the columns of one state table differ from its spec."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from evenkeel.registry.state_view import (
    COLUMNS_PROPERTY,
    edited_merge_fix,
    goes_by,
    is_edited,
    kinds,
    noted_merge,
)
from evenkeel.spec.parts import CHANNEL, SLOT
from evenkeel.spec.table_spec import TableSpec
from evenkeel_spark.adoption.team_checks import refuse_checked
from evenkeel_spark.evolving.changes import Intent, Kind, TableChange
from evenkeel_spark.evolving.widening import FormatRules, widenings
from evenkeel_spark.tables.column_inputs import (
    INPUTS_PROPERTY,
    check_hashes,
    inputs_text,
    inputs_words,
    kept_inputs,
    made_of,
    other_inputs,
    same_inputs,
)
from evenkeel_spark.tables.declared_columns import ADDING_PROPERTY, declared
from evenkeel_spark.tables.iceberg.table import SLOT_NAME
from evenkeel_spark.tables.rows.comparable import comparable
from evenkeel_spark.tables.schema_edits import AddColumn, DropColumn, RenameColumn
from evenkeel_spark.windows.kept_types import may_keep
from partitioning.errors import InputError

_OTHER_NAME = "Give the new column another name in the spec, and drop the old one with --drop"


@dataclass(frozen=True, eq=False)
class TableColumns:
    """The columns of a state table, as they are and as the spec has them.

    Parameters
    ----------
    name : of the state table, in the spec
    wanted : columns that events make by now
    types : Spark's simple name of the type of each input column
    checked : what of the team's own names a column, and how it goes
    rules : of the table's format
    """

    spec: TableSpec
    name: str
    wanted: StructType
    types: Mapping[str, str]
    intent: Intent
    properties: Mapping[str, str]
    stored: StructType
    checked: Mapping[str, tuple[str, str]]
    rules: FormatRules

    @property
    def where(self) -> str:
        """The table, for errors."""
        return f"{self.name} ({self.spec.state[self.name].path})"

    @property
    def made(self) -> dict[str, str | None]:
        """The merge of each column that the table was made with; None: it is not known."""
        kept = self.properties.get(COLUMNS_PROPERTY)
        if kept is not None:
            return dict(json.loads(kept))
        # A table of an early version is known by the names of its columns alone.
        named = {*self.spec.state[self.name].columns}
        named |= {old for table, old in self.intent.renames if table == self.name}
        named |= {d.partition(".")[2] for d in self.intent.drops if d.startswith(f"{self.name}.")}
        return {c: None for c in self.stored.fieldNames() if c in named}

    def changes(self) -> list[TableChange]:
        """List what is left to change, in the order in which it can be done.

        Raises
        ------
        InputError : something cannot be done, or nothing says what became of a column
        """
        made = self.made
        renames = self._renames(made)
        found = [*self._renamed(renames, made), *self._dropped(renames, made)]
        before = {new: old for old, new in renames.items()}
        for column in self.spec.state[self.name].columns:
            old = before.get(column, column)
            if old in made:
                self._check_merge(column, old, made)
                found += [*self._widened(column, old), *self._other_input(column, old)]
            else:
                found += self._added(column)
        return found or [*self._ended()]

    def wanted_properties(self) -> dict[str, str]:
        """Return the properties that say which columns the table has, and what they are made of."""
        return {
            COLUMNS_PROPERTY: declared(self.spec.state[self.name]),
            INPUTS_PROPERTY: inputs_text(self.spec, self.name, self.types),
        }

    def _renames(self, made: Mapping[str, str | None]) -> dict[str, str]:
        """Return the renames that are not done yet, new name by old one."""
        columns, found = self.spec.state[self.name].columns, {}
        for (table, old), new in self.intent.renames.items():
            if table != self.name or (old not in made and new in made):
                continue
            if old not in made:
                wrong = f"there is no state column {old!r}; there are {', '.join(made)}"
            elif old in columns:
                wrong = f"the spec still has column {old!r}"
            elif new not in columns:
                wrong = f"the spec has no column {new!r}"
            elif old.lower() == new.lower():
                wrong = "only letters' case differs; rename it to a third name first"
            elif new in made or (self._has(old) and self._has(new)):
                wrong = f"there is a column {new!r} already"
            else:
                found[old] = new
                continue
            raise InputError(
                f"cannot rename {old!r} to {new!r}: {wrong}",
                self.where,
                "Give the old name that the table has, and the new one that the spec has",
            )
        return found

    def _renamed(
        self, renames: Mapping[str, str], made: Mapping[str, str | None]
    ) -> Iterator[TableChange]:
        for old, new in renames.items():
            refuse_checked(self.checked, "rename", old, self.where)
            edits = (RenameColumn(old, new),) if self._has(old) else ()
            meaning = f"from {old}; its values stay, and no file is rewritten"
            yield TableChange(Kind.rename_column, self.name, new, meaning, edits)

    def _dropped(
        self, renames: Mapping[str, str], made: Mapping[str, str | None]
    ) -> Iterator[TableChange]:
        columns = self.spec.state[self.name].columns
        for column in columns:
            if self._is_to_drop(column):
                raise InputError(
                    f"cannot drop column {column!r}: the spec still has it",
                    self.where,
                    "Take it out of the spec, or leave out --drop",
                )
        for column, merge in made.items():
            if column in columns or column in renames:
                continue
            if not self._is_to_drop(column):
                by = "" if merge is None else f", made by merge {merge},"
                raise InputError(
                    f"column {column!r}{by} is not in the spec, and nothing says what became of it",
                    self.where,
                    f"Put it back into the spec; or give --drop {self.name}.{column}, or "
                    f"--rename {self.name}.{column}=NEW",
                )
            yield self._drop(column)
        # One that a call has added and not declared, or a person by hand.
        own = {SLOT, CHANNEL, *self.spec.key, *columns, *made}
        for column in self.stored.fieldNames():
            if column not in own and not SLOT_NAME.fullmatch(column) and self._is_to_drop(column):
                yield self._drop(column)

    def _is_to_drop(self, column: str) -> bool:
        return f"{self.name}.{column}" in self.intent.drops

    def _drop(self, column: str) -> TableChange:
        refuse_checked(self.checked, "drop", column, self.where)
        edits = (DropColumn(column),) if column in self.stored.fieldNames() else ()
        meaning = "its values can be read no more; files lose them when they are next rewritten"
        return TableChange(Kind.drop_column, self.name, column, meaning, edits)

    def _added(self, column: str) -> Iterator[TableChange]:
        merge = self.spec.state[self.name].columns[column]
        of = "" if merge.of is None else f" of {merge.of}"
        kind = kinds(self.wanted)[column]
        made = f"{kind}, {merge.merge}{of}"
        if not comparable(self.wanted[column].dataType):
            raise InputError(
                f"column {column!r} would be {kind}: rows with a map or a variant cannot be "
                "compared before and after they move",
                self.where,
                "Keep it in another table",
            )
        if column in self.stored.fieldNames():
            meaning = f"{made}: it is there already, and windows fill it from now on"
            yield TableChange(Kind.add_column, self.name, column, meaning)
            yield from self._widened(column, column)
            return
        if self._has(column):
            raise InputError(
                f"cannot add column {column!r}: there is one of this name in other letters",
                self.where,
                "Give it another name in the spec",
            )
        meaning = f"{made}: null in all rows that are there; windows fill it from now on"
        edits = (AddColumn(column, self.wanted[column].dataType),)
        yield TableChange(Kind.add_column, self.name, column, meaning, edits)

    def _widened(self, column: str, old: str) -> Iterator[TableChange]:
        """Yield the change of a column's type that its events need by now, if any.

        Parameters
        ----------
        column, old : its name in the spec, and in the table
        """
        there = self.stored.fieldNames()
        now = column if column in there else old
        if now not in there:
            raise InputError(
                f"expected column {now!r}, found {', '.join(there)}",
                self.where,
                "If evolve was broken off, run it again with the spec and the options that it had. "
                "Else find out who took the column away, and bring it back. If it is gone for "
                f"good, take it out of the spec, and give --drop {self.name}.{now}",
            )
        is_now, will_be = self.stored[now].dataType, self.wanted[column].dataType
        wider = widenings(is_now, will_be, (column,), self.rules.widens)
        names = f"{is_now.simpleString()}", f"{will_be.simpleString()}"
        if wider is None and not may_keep(is_now, will_be, self._merge(column)):
            raise InputError(
                f"column {column!r} is {names[0]} in the table, and events make {names[1]} by "
                f"now: {self.rules.format} cannot widen the one to the other",
                self.where,
                f"Set the spec or the input back. {_OTHER_NAME}",
            )
        if wider:
            refuse_checked(self.checked, "widen", now, self.where)
            meaning = f"from {names[0]} to {names[1]}; no file is rewritten"
            yield TableChange(Kind.widen_column, self.name, column, meaning, tuple(wider))

    def _other_input(self, column: str, old: str) -> Iterator[TableChange]:
        """Yield the change of input columns that only have other names by now; refuse others.

        Parameters
        ----------
        column, old : its name in the spec, and in the table
        """
        now = made_of(self.spec, self.name, self.types)[column]
        was = kept_inputs(self.properties).get(old, now)
        check_hashes(self.where, column, was, now)
        if same_inputs(was, now):
            return
        if f"{self.name}.{column}" not in self.intent.same:
            raise other_inputs(self.spec, self.name, column, was, now)
        meaning = f"made of {inputs_words(now)}, before of {inputs_words(was)}; its values stay"
        yield TableChange(Kind.rename_input, self.name, column, meaning)

    def _ended(self) -> Iterator[TableChange]:
        """Yield the end of a call that was broken off, where nothing else of it is left to do."""
        if self.properties.get(ADDING_PROPERTY) == "true":
            meaning = "a call was broken off; columns that it has added stay"
            yield TableChange(Kind.end_change, self.name, "", meaning)

    def _check_merge(self, column: str, old: str, made: Mapping[str, str | None]) -> None:
        """Refuse a merge that a column was not made by.

        Parameters
        ----------
        column, old : its name in the spec, and in the table
        """
        noted, intent = made[old], self._merge(column)
        if noted is None or goes_by(noted, intent):
            return
        raise InputError(
            f"column {column!r} was made by merge {noted}, the spec says {noted_merge(intent)}: "
            "its values would be merged with ones of another meaning",
            self.where,
            edited_merge_fix(self.spec.state[self.name], made, column)
            if column == old and is_edited(noted, intent)
            else _OTHER_NAME,
        )

    def _merge(self, column: str) -> str:
        return self.spec.state[self.name].columns[column].merge

    def _has(self, column: str) -> bool:
        """Return whether the table has a column, as Spark compares names: in any letters."""
        return column.lower() in {c.lower() for c in self.stored.fieldNames()}
