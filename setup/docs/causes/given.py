"""Causes of errors about data, gates, programs, and tables that users give."""

from __future__ import annotations

#: Beginning of a message, as a pattern -> why it appears.
OF_GIVEN = {
    # Data that is read.
    r"a file cannot be created once|of two that create one file": "Two jobs could both "
    "believe that they own a step. The registry of such a store cannot keep them apart.",
    r"a rewrite needs": "A rewrite writes all rows once more, beside the old files.",
    r"a time is outside": "Whole numbers were read in another unit, such as milliseconds as "
    "seconds, or a time is damaged.",
    r"expected a Delta table, found": "The path is wrong, or another program wrote the files.",
    r"no events in the window|the input is empty": "The input is late, or these days lie before or "
    "after all of its data.",
    r"sketch: \{sketch\} needs": "Executors have another Python than the driver.",
    r"expected a folder of user": "Two users share the folder of one Spark.",
    r"its spec has another \{field\}": "The spec was edited, or replaced by that of another "
    "table, while a stream ran.",
    r"expected at most \{slots\} channels": "A slot is whole on one channel. More channels than "
    "slots leave some without light keys.",
    # Gates and programs.
    r"the tables did not pass|\{failed\} of \{results\}": "Data or plan break a rule of the "
    "gate. [The gates](../../GATES.md) tell each rule with its cause.",
    r"Airflow \{found\}|Spark \{found\}|Delta's jars|expected (one version|a Spark of P)": "Two "
    "installations are mixed, or one was upgraded alone.",
    r"Delta Lake is not|Spark (cannot open|has no catalog)|on \{scheme\}": "Spark was started "
    "without the packages or settings that this store needs.",
    # Files of the input.
    r"lacks column \{shown\}": "The column was renamed or left out at its source. Spark "
    "takes the columns of the first file, and gives nulls for those that another lacks.",
    r"is gone, and was there": "The input was compacted or cleaned up while a job read it.",
    r"column \{column\} is \{found_type\}, and": "The program that writes the input has "
    "changed the column's type, such as from int to bigint, and older files are as before.",
    r"was made from other events": "Between two tries of a bootstrap, late events "
    "came, or old ones were removed.",
    r"expected a Spark (session|of the job)": "The program was started with SPARK_REMOTE, or asked "
    "for a remote session.",
    r"has the column .*, and the newest epoch": "The registry was brought back from a backup "
    "that is older than the table.",
    r"expected no table of this name for": "The name was taken already, by another program or for "
    "another spec.",
    r"has slots = .* in its rows, and epoch": "The registry was lost or left behind, and another "
    "one was begun with another number of slots.",
    r"expected a multiple of the \{slots\} slots in force": "The spec has another number of slots "
    "since this was learned.",
    r"has slots = \{known\}, the spec": "`slots` was edited, left out, or copied from another "
    "spec.",
    r"its newest commit is": "A writer of the table has, or had, a clock that was ahead.",
    r".*has not said whether": "The catalog ended, or its connection broke, during a commit.",
    r"Spark could not|a job could not|expected a Spark that stays|.*catalog does not answer": "The "
    "process is not started, has died, or listens elsewhere.",
    # What users give.
    r"Evenkeel made it": "Rows of a split key are parts. A plain reader would count each part.",
    r"a Spark stays up|is not empty$": "The folder is in use, or an earlier try has left files.",
    r"expected a folder, or": "A file has this name, or this account may not write there.",
    r"other users may": "The folder was made with rights for a group or for all.",
    r"(a key is not of type|values (are not|of type))": "A value of the key does not convert to "
    "the type that the epoch has, such as text in a column of numbers.",
    r"a state column cannot|the table's own constraint": "The merge of a key's values gives one "
    "that the column's type or a CHECK of yours does not hold, such as a sum that is too large.",
    r"a streaming query|has \{_UPSERTS\}|has write.upsert": "The query was "
    "started before adoption, so it routes no row, or deletes rows where they were before.",
    r"was rolled back from": "Somebody called rollback_to_snapshot while this job worked.",
    r"\{several\} keys have": "A writer that had begun before an epoch was published wrote rows of "
    "keys that had moved, such as an upsert of Flink.",
    r"another run has applied|its commits tell|the window .*(was applied|ends at)": "Two runs "
    "added windows at once, or a table was brought back to an older version.",
    r"windows are applied|no window is in it": "Each window is added once, in order. This one "
    "comes again, or too early.",
    r"belongs to table|holds state of|is (a table|(being )?adopted as a table) of"
    r"|holds a Delta table|has the constraint \{ours\}": "Two specs name one folder, a spec was "
    "copied, or another system made the table.",
    r"cannot (add|drop|rename|\{change\}) column|cannot rename": "The change collides with a "
    "column, a CHECK, or something else that the table has.",
    r"changes the type|does not do for column|column \{column\} is \{kind": "The SQL of the "
    "merge gives another type than the column's, or refuses it.",
    r"column \{column\} (has hashes|is \{(is_now|names)\})|column \{name\} is": "The type of an "
    "input column has changed since the state column was made, or is one that cannot be used.",
    r"column \{column\}(, made by merge \{merge\},)? is not|state table \{name\} is not": "A part "
    "was taken out of the spec. Evenkeel cannot tell a dropped one from a renamed one.",
    r"is of format|its deletion|has \{iceberg\}|is append-only"
    r"|has liquid": "The table has a format or a property with which rows cannot move by small "
    "commits.",
    r"(does not go|goes) with": "The options exclude each other, or need each other.",
    r"emptying the channels|making split keys": "The change itself moves more than the budget "
    "allows, before any balancing.",
    r"epoch \{number\} (has no|knows no|has the key)|its key is|the (function in|profile was)"
    r"|was made with|state tables disagree": "The spec or its input has changed since that epoch, "
    "profile or table was made.",
    r"(epoch \{number\} |\{strategy\} |keys are )split": "`split` was taken out of the spec, or "
    "was never set.",
    r"has a column|two of them|was partitioned": "Names of columns of the table collide with ones "
    "that Evenkeel needs, or a column was dropped.",
    r"has epochs": "The option is for a registry that is gone, and this one is there.",
    r"has lost the properties|is not adopted|was released": "The table was released, restored "
    "to before its adoption, or never adopted.",
    r"holds (no state table|something that is not a Delta)": "The path in the spec is wrong, "
    "or the folder was moved or emptied.",
    r"its header|line \{line\}|not readable|not YAML": "The file was written by "
    "another program, cut, or edited with a mistake.",
    r"its state tables": "`rows` in a spec marks tables of the team, and this command is for the "
    "other kind.",
    r"key \{key\} could": "The text can be read as one JSON value and as plain text.",
    r"key columns of": "Arrays of the key's columns were cut or filtered one by one.",
    r"nothing was measured|\{missing\} missing": "The job that measures was left out or "
    "has failed.",
    r"the folder of this file": "The path was mistyped, or nobody has made the folder yet.",
    r"\{name\} (cannot name a run|is not a name)": "The name was mistyped, or would lead out of "
    "the folder.",
    r"\{(count|bad|null_count|nulls|int)\} (events|rows|weights)": "The "
    "events or the given numbers have gaps, often from a failed load upstream.",
    r"\{field\}: (has a pattern|is outside)": "The operator limits places by EVENKEEL_ROOTS.",
    r"times must be dates": "The column of times holds numbers, or a file was read by another "
    "program that changed its type.",
    r"\{found\} windows": "The file covers too few days, or its times are read in a wrong column.",
    r"line \{error\}": "Somebody put a secret into the spec, which logs and pages would show.",
    r"(generated column|has rows whose generated)": "Delta computes such a column in the session "
    "of each writer, by its time zone.",
    r"partition column .* times without": "An older Delta wrote them, or a session with this "
    "setting off.",
    r"\{lost\} rows have an empty|is to be partitioned by the binary": "Delta writes partitions as "
    "text, and reads an empty one as null.",
    r"has no snapshot": "The Iceberg table was made, and nobody has written to it.",
    r"sketches of one|splitting evens": "The call mixes what the algorithm cannot.",
}
