"""Causes of errors about specs, and about what a command or a job is asked to do with one."""

from __future__ import annotations

#: Beginning of a message, as a pattern -> why it appears.
OF_SPECS = {
    # Files of specs.
    r"expected a table spec, a mapping": "The file is empty or has comments alone, or it is a YAML "
    "file of another kind in the folder of specs.",
    r"expected a mapping of merges": "The file is empty, or it begins with a list.",
    r"\{name\} cannot name a custom": "The name has a hyphen, a dot or a space, or this release "
    "has a merge of its own by that name.",
    r"registry: .* is already that|table: \{table\} is already|state: \{twice\}": "A spec, or an "
    "entry of it, was copied, and this field was left as it was.",
    r"table: expected \{table\}, as its file": "The file was copied or renamed, and its field "
    "`table` was not changed. Or the field was, and the file was not.",
    r"slots: must be at least": "`channels` was raised beyond `slots`: a slot is whole on one "
    "channel. Or `slots` was set low by hand.",
    r"input\.time is not set": "A window, a day or a stream was asked for, and windows are cut by "
    "the time of the events.",
    r"watch is not set": "The job or the stream was started by hand, or `watch` was taken out of "
    "the spec while they ran.",
    r"there is no column \{missing\}": "The column was renamed at its source, or is mistyped in "
    "the spec. Upper and lower case differ here.",
    r"key column \{name\}: expected": "Two programs write the table and its input, and each chose "
    "a type. Equal numbers of two types have different hashes.",
    r"column \{time_column\} is date": "Events that come once a day often have a date alone. The "
    "watch cuts each day into micro-batches.",
    r"(makes \{fold\} of column|column \{column\} would be)": "Spark cannot compare maps and "
    "variants. The merge makes one, such as by map_from_entries, or keeps one of the input.",
    r"expected a key of types that Iceberg": "Iceberg keeps such numbers as int. The type is part "
    "of the function, and the table would come back with another one.",
    r"no run has made a plan yet": "The table is new, or its runs have found no need to move rows.",
    r"expected the name of a run|(there is )?no (state table \{name\}|job)": "The name is mistyped "
    "or of another table or another release. A run's folder is removed by `maintain` once it is "
    "old.",
    r"there is no epoch": "The number is mistyped or of another table, or it is that of a plan "
    "whose run never published it.",
    r"epoch \{(to_epoch|number)\} is the current": "The table has gone back to this epoch already, "
    "or the epoch to leave was named in place of the one to go to.",
    r"must be (whole bytes|a finite number of bytes)": "A field of a form has a unit of powers of "
    "two, such as MiB, a fraction of a byte, or far too many digits.",
    r"expected days that are over": "A template or a form gave today's date in a zone east of "
    "UTC, or tomorrow's. A day of a column with a zone is a UTC day.",
    r"\{field\}: is \{what\}": "Two specs, or two fields of one, name one folder of a lake. "
    "The vacuum of a Delta table removes files below its folder that are not its own.",
    r"(strategy: \{strategy\} needs|budget: \{strategy\} takes)": "Only the default strategy has a "
    "budget and an aim that follows from chance.",
    r"schedule: partitions are": "Each partition learns the window that ends with its day, so "
    "events need a time.",
    r".*differ by case alone": "Spark takes names of columns without regard to case.",
    # Iceberg tables.
    r"there is no such table$": "The catalog or the namespace is mistyped, nobody has made the "
    "table yet, or it was dropped or renamed.",
    r"expected an Iceberg table": "The name is that of a view, or of a table of another format in "
    "the same catalog.",
    r"expected state that bootstrap": "A table of the team's, or of a trial, has the name that the "
    "spec gives to state of Evenkeel.",
    r"expected no table, or one of": "Another table's bootstrap has used the name, or `slots` was "
    "changed after a bootstrap that had not ended.",
    # Commands and jobs.
    r"cannot drop (column|state table)": "The option came before the change of the spec, or this "
    "host reads a copy of the spec that was not changed.",
    r"expected TABLE\.(COLUMN|OLD)": "A column was named alone. A spec may have several state "
    "tables, so each name begins with one.",
    r"expected Delta tables that Evenkeel made": "The option takes back a window that Evenkeel has "
    "added to a Delta table. Here the team adds rows, or the format is another.",
    r"expected an empty folder for a new": "A table of another spec, or what a trial left, is in "
    "the folder.",
    r"is for --release only": "The option says how a table leaves, and `adopt` takes one in.",
    r"the window from .* has no day": "The first day was given twice, as the end is not part of a "
    "window. A DAG with `@daily` gives such a pair: its runs have no interval.",
    r"both are needed": "One was left out. Without --holds-until the job adds a window of days.",
    r"expected the name of the run that": "The job was started by hand. In Airflow its DAG names "
    "the run.",
    r"a stream needs a checkpoint": "The stream was started by hand. Its progress is kept there, "
    "so there is no default that several could share.",
    r"expected seconds, or a time such": "The setting has a sign, a unit that Spark's times do not "
    "have, or two parts, such as 1h30m.",
    # Airflow.
    r"expected a day as YYYY-MM-DD": "A template gave a moment, or a Param of a DAG of one's own "
    "took any text.",
    r"expected a partition key that": "The program that updates the asset names its partitions in "
    "another way, such as by week or by region.",
    r"expected arguments of Airflow's": "A name is mistyped, is of another operator, or is one "
    "that each task sets by itself.",
    r"expected one group of table": "A DAG was to rebalance a table twice, such as before and "
    "after a load.",
    r"\{options\} cannot be split": "The shell took the inner quotes for its own.",
    r"expected prefix_group_id": "Ids without the group's name were wanted, as Airflow's own "
    "TaskGroup can have them.",
}
