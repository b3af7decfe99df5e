"""Causes of errors: why a message appears, where it does not say so itself."""

from __future__ import annotations

import re
from functools import cache

from partitioning.errors import FAULT

#: Class of errors -> why its messages appear, for the heading of the class.
OF_CLASSES = {
    "DamagedError": "Somebody edited or deleted a file by hand, a copy or a restore was broken "
    "off, or a disk was full. Evenkeel itself writes whole files only.",
    "DeniedError": "The account of this process lacks a right on the store.",
    "FenceError": "Another run, writer or person changed the table or the registry after this work "
    "had read it. Or a run was broken off and has left the table half moved.",
    "GateError": "An expectation of a gate did not hold. The page of the gate names each one.",
    "MissingExtraError": "The wheel was installed without the extra that this command needs.",
    "SetupError": "Versions, variables or Spark's settings on this machine do not fit together.",
    "SeveralRowsError": "A writer of the table's own appended rows of a key while the window was "
    "added, so that key has several rows.",
    "StoreError": "The store or the network had a failure that is not a matter of rights.",
    "UnderWayError": "A run moves rows at this moment, or was broken off. Or two attempts of one "
    "Airflow task ran at once, for instance after a lost heartbeat.",
    "UnreachableError": "The service is down, starts up, or cannot be reached over the network.",
}
#: Messages that say both what they expected and what they found: the difference is the cause.
_TELL = re.compile(
    r"expected |\bmust |, got |needs |cannot be|may not|at least|at most|the spec says"
    r"|the spec has|the spec still|there is no |^no |is missing|is not set|given twice|is already"
    r"|is empty|is below|is not from|out of range|outside of the years|for --release only"
    r"|are needed"
    r"|tolerates no|asked for$|\} (draws|points|substreams|tuples)|buckets a channel|^is \{value\}"
    r"|is the current one|given (where|for)|need either|\} channels for|for ever$|no day"
    r"|has (no option|an empty name)|values\} columns|is not in --strategy|to split by$"
)
#: Beginning of a message, as a pattern -> why it appears.
_OF_MESSAGES = {
    # Stored files.
    r"a move would leave": "Rows were counted before and after a move on its branch, and differ. "
    "Spark or the store answered wrongly, or Evenkeel has a fault.",
    r"version .* cannot be read any more": "VACUUM has removed files of that version.",
    r"cannot be read \(\{e\}\)": "The .npz file is cut short, or was edited. Its checksums tell.",
    r"column \{lost\} came in": "An append with mergeSchema added the column after Delta "
    "had resolved the columns of an UPDATE, and before that UPDATE's transaction.",
    r"constraint \{name\} is not the one": "Somebody wrote a CHECK with a name that Evenkeel uses, "
    "or another release of Evenkeel wrote it.",
    r"holds state of another bootstrap": "A bootstrap with another registry, or one that was "
    "broken off, has made this folder.",
    r"is in use: ": "The spec names an empty registry, and the table holds rows of another one.",
    r"is missing, ": "The file was deleted by hand, by a lifecycle rule of the bucket, or was left "
    "out of a restore.",
    r"is not the plan that led": "plan.json in the epoch's folder was edited or swapped.",
    r"its history no longer|version \{version\} cannot|rows were moved longer ago": "VACUUM, or "
    "the cleaning of Delta's log, has removed versions that this step compares. `keep` was too "
    "short for it, or another program ran VACUUM.",
    r"not JSON|not a (partitioning|plan|profile|sketch)|torn or edited|\{field\}: \{said\}": "The "
    "file does not hold what its writer wrote: it was edited, cut short by a copy, or restored in "
    "part. A newer release may have changed its format.",
    r"cannot be read \(\{(error|reason)\}\)|there is no \{source\} input": "The path is wrong, "
    "or this account may not read it, or the file has another format.",
    r"the window from .* is not in \{name\}": "A window that left a gap was broken off between two "
    "state tables. The days of the gap are in neither.",
    # The fence.
    r"Airflow still asks|expected approval|holds plan|is the plan of run"
    r"|\{name\} is of another": "A task before this one was cleared, and it made "
    "another plan than the one that was approved.",
    r"a key was forgotten": "`evenkeel forget` ran beside this job.",
    r"its plan names a key": "A run that has begun to move rows lists the key in its plan.",
    r"another attempt|\{name\} is of attempt": "Airflow started the task again while an earlier "
    "try still ran.",
    r"another (bootstrap|job is making)|has the constraint \{others\}": "Two bootstraps of one "
    "table ran at once.",
    r"another (epoch was|plan wrote)|epoch \{(epoch|number|parent_epoch)\} (is (already|current"
    r"|not the one|the one)|was (published|replaced))|this function follows": "Another run, the "
    "watch or a rollback published an epoch in between.",
    r"epoch \{number\} is not published": "The job verify was killed between sealing the tables "
    "and writing the epoch.",
    r"expected epoch|has the column \{column\}, and|has the constraint .* (has no epoch|brought"
    r"|this plan's)|.*no commit of its history": "The registry was restored from an older backup "
    "than the table, or the spec names another registry.",
    r"has got another constraint|\{wrong\}: somebody|has the constraint .* (by now|alone)": "A "
    "second run or repair works on the table, or somebody changed its constraint by hand.",
    r"expected a page in UTF-8": "Somebody saved the page in another encoding, or a copy was cut.",
    r"has lost its branch": "Somebody dropped the branch, or an expiry of snapshots removed it.",
    r"has lost its constraint": "Somebody dropped the CHECK by hand, or wrote the table new.",
    r"has rows that|\{operation\} came between": "Rows came past the CHECK: by a restore, by a "
    "copy, or while somebody had dropped it.",
    r"files of the new table are gone": "A bootstrap was suspended for over ten minutes while it "
    "wrote, and another one ran.",
    r"unknown name \{|Airflow ignores": "The conf of the run was written by hand or by a "
    "program, or Airflow is set to take none.",
    r"expected the digest of a plan": "A task was cleared and has failed since, so it left no plan "
    "for those after it.",
    r"\{.*\} is running$": "Another DAG that moves rows of this table is at work.",
    r"evolve has begun": "A call of evolve was killed, or is at work at this moment.",
    r"has no version left|has the column slot|.*(half moved|state moves|rows move just now"
    r"|is moving rows|begun to move|has not ended|not migrated|still has the constraint"
    r"|about to publish|begun to move rows)": "A run moves rows at this moment, or was broken off "
    "before it sealed the table.",
    r"is a plan for|its columns are those|there is no column \{gone\}": "The spec or the table's "
    "columns were changed between the plan and this step.",
    r"(is at|snapshot|version) .*the plan saw": "The table was restored, rewritten or made again "
    "after it was weighed.",
    r"its constraints changed|is not adopted any more": "Somebody changed the table meanwhile.",
    r"(its plan was withdrawn|this run was rolled back)": "This run was ended, by repair, by a "
    "person or by its own rollback. A task of it was cleared later.",
    r"other writers|others wrote|somebody|\{failed\} steps": "Other writers commit all the time, "
    "and this step needs a moment in which none changes the same files.",
    r"\{size\} bytes are|\{written\} bytes are": "The table has grown since the plan was made, or "
    "files to rewrite are larger than predicted.",
    # The table, the spec and the registry do not fit together.
    r"column .* was made (by merge|of)|epoch \{number\} has state table|there is no state column"
    r"|state was made with|is adopted with (rows|slots|registry)|was adopted with registry"
    r"|expected partitions|is the folder of state table|expected (a table|state that Evenkeel).*"
    r"adopted|expected a table of the team": "The spec was edited after the tables were made or "
    "adopted, or a copy of it names tables of another one.",
    r"expected (a commit|a snapshot) that tells": "Commits of Evenkeel are gone from the table's "
    "history: its log was cleaned, its snapshots expired, or it was cloned or made again.",
    r"expected (column|columns slot_N)": "Somebody renamed or dropped the column, or evolve was "
    "broken off.",
    r"expected (delta\.set|\{key\} to be)": "Somebody has set or unset this property of the table.",
    r"expected (each window upon|no commit of somebody)": "The table was restored, or replaced by "
    "a copy, while a window waited to be added.",
    r"expected windows up to": "Another run added windows, or the table was rolled back.",
    r"expected one row a key": "A writer appends rows where it should merge them by key.",
    r"expected other state tables": "The state table is new in the spec, and the others lack the "
    "windows that it would begin with.",
    r"has (got )?column \{wrong\}, of which": "Somebody added the column to the table alone.",
    r"no (epoch is published|profile is learned) yet|\{file\} is missing": "A step before this one "
    "has not run for this registry, has failed, or its folder was removed.",
    r"the version of epoch": "VACUUM has removed files of that version.",
    # Data that is read.
    r"a file cannot be created once only": "Two jobs could both believe that they own a step. The "
    "registry of such a store cannot keep them apart.",
    r"a rewrite needs": "A rewrite writes all rows once more, beside the old files.",
    r"a time is outside": "Whole numbers were read in another unit, such as milliseconds as "
    "seconds, or a time is damaged.",
    r"expected a Delta table, found": "The path is wrong, or another program wrote the files.",
    r"no events in the window|the input is empty": "The input is late, or these days lie before or "
    "after all of its data.",
    r"sketch: \{sketch\} needs": "Executors have another Python than the driver.",
    r"expected a folder of user": "Two users share the folder of one Spark.",
    # Gates and programs.
    r"the tables did not pass|\{failed\} of \{results\}": "Data or plan break a rule of the "
    "gate. [The gates](../../GATES.md) tell each rule with its cause.",
    r"Airflow \{found\}|Spark \{found\}|Delta's jars|expected (one version|a Spark of P)": "Two "
    "installations are mixed, or one was upgraded alone.",
    r"Delta Lake is not|Spark (cannot open|has no catalog)|on S3 Delta": "Spark was started "
    "without the packages or settings that this store needs.",
    r"expected a Spark (session|of the job)": "The program was started with SPARK_REMOTE, or asked "
    "for a remote session.",
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
    r"windows are applied": "Each window is added once, in order. This one comes again, or too "
    "early.",
    r"belongs to table|(holds state|is (a table|adopted as a table)) of|has the constraint \{ours\}"
    r"|holds a Delta table": "Two specs name one folder, a spec was copied, or another system "
    "made the table.",
    r"cannot (add|rename|\{change\}) column|cannot rename": "The change collides with a column or "
    "a CHECK that the table has.",
    r"changes the type|does not do for column|column \{column\} is \{kind": "The SQL of the "
    "merge gives another type than the column's, or refuses it.",
    r"column \{column\} (has hashes|is \{(is_now|names)\})|column \{name\} is": "The type of an "
    "input column has changed since the state column was made, or is one that cannot be used.",
    r"column \{column\}\{by\} is not|state table \{name\} is not": "A part was taken out of the "
    "spec. Evenkeel cannot tell a dropped one from a renamed one.",
    r"is for Delta": "This part is written for Delta tables alone so far.",
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
    r"holds (no state table|\{held\})": "The path in the spec is wrong, or the folder was moved "
    "or emptied.",
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
    r"\{(count|bad|null_count|nulls|int)\} (events|rows|weights)|\{said\}, and none": "The "
    "events or the given numbers have gaps, often from a failed load upstream.",
    r"\{field\}: (has a pattern|is outside|\{wrong\})": "The operator limits places by "
    "EVENKEEL_ROOTS, or two folders of a spec overlap.",
    r"\{found\} windows": "The file covers too few days, or its times are read in a wrong column.",
    r"line \{error\}": "Somebody put a secret into the spec, which logs and pages would show.",
    r"\{text\} is not": "The text lacks its colon, or one of its parts is no number.",
    r"(generated column|has rows whose generated)": "Delta computes such a column in the session "
    "of each writer, by its time zone.",
    r"partition column .* times without": "An older Delta wrote them, or a session with this "
    "setting off.",
    r"\{lost\} rows have an empty|is to be partitioned by the binary": "Delta writes partitions as "
    "text, and reads an empty one as null.",
    r"has no snapshot": "The Iceberg table was made, and nobody has written to it.",
    r"sketches of one|splitting evens": "The call mixes what the algorithm cannot.",
}


@cache
def cause(what: str, fix: str) -> str:
    """Return why a message appears; empty: it says so itself, or its class does."""
    if fix.startswith(FAULT):
        return "A rule of Evenkeel's own code is broken. No input of yours does this."
    return next((why for start, why in _OF_MESSAGES.items() if re.match(start, what)), "")


def tells(what: str) -> bool:
    """Return whether a message says what it expected and what it found."""
    return _TELL.search(what) is not None


def unused(messages: list[str]) -> list[str]:
    """List the patterns that no message begins with."""
    return [start for start in _OF_MESSAGES if not any(re.match(start, m) for m in messages)]
