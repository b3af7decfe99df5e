"""Causes of errors about state: stored files, fences, and what does not fit together."""

from __future__ import annotations

#: Beginning of a message, as a pattern -> why it appears.
OF_STATE = {
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
    r"is adopted, and \{url\} has no epoch": "The registry was moved, emptied or lost, and the "
    "table still names it. Another epoch 0 would place rows elsewhere.",
    r"is in use: ": "The spec names an empty registry, and the table holds rows of another one.",
    r"is missing, ": "The file was deleted by hand, by a lifecycle rule of the bucket, or was left "
    "out of a restore.",
    r"is not the plan that led": "plan.json in the epoch's folder was edited or swapped.",
    r"its history no longer|version \{version\} cannot|rows were moved longer ago": "VACUUM, or "
    "the cleaning of Delta's log, has removed versions that this step compares. `keep` was too "
    "short for it, or another program ran VACUUM.",
    r"not JSON|not a (partitioning|plan|profile|sketch)|torn or edited"
    r"|\{place\}( is missing|: expected)": "The "
    "file does not hold what its writer wrote: it was edited, cut short by a copy, or restored in "
    "part. A newer release may have changed its format.",
    r"expected \{source\} files, found a \{kind\} table": "`format` was left out: it is parquet "
    "then. Or the path is below a table's folder. Files of removed rows stay beside the others.",
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
    r"is a clone of": "A RESTORE or a CLONE came between a window's look at the source and its "
    "MERGE. The source was cloned after that.",
    r"has ORC files": "The table, or the program that wrote it, is set to ORC, whose reader has no "
    "defaults of columns.",
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
    r"is a state table, too": "Spark ends a stream that reads a Delta table once rows of it are "
    "updated, as every move does.",
    r"its constraints changed|is not adopted any more": "Somebody changed the table meanwhile.",
    r"(its plan was withdrawn|this run was rolled back)": "This run was ended, by repair, by a "
    "person or by its own rollback. A task of it was cleared later.",
    r"other writers|others wrote|somebody|\{failed\} steps": "Other writers commit all the time, "
    "and this step needs a moment in which none changes the same files.",
    r"\{size\} bytes are|\{written\} bytes are": "The table has grown since the plan was made, or "
    "files to rewrite are larger than predicted.",
    r"epoch \{number\} is published, and": "A RESTORE, or a constraint dropped by hand, came after "
    "the last look at the table and before the epoch's file.",
    r"expected (an answer to the plan|that the gate has passed)": "A task before migrate was "
    "marked as a success in Airflow, or left out when tasks were cleared.",
    r"expected an answer to plan": "A task after approve was cleared or started by hand while the "
    "question stood, or plan was cleared without the tasks after it.",
    r"holds (no plan|plan \{digest\}), not": "The task plan, or a look of the watch, took the "
    "place of this plan just as the job began.",
    r"a key of the window has several rows on one": "A writer of the table's own appended rows of "
    "the key while the window was added.",
    r"its plan, or the limit of the spec": "The task plan was cleared, or `approve_over` was "
    "changed, while this run waited.",
    # The table, the spec and the registry do not fit together.
    r"column .* was made (by merge|of)|epoch \{number\} has state table|there is no state column"
    r"|is adopted with (rows|registry)|was adopted with registry"
    r"|expected partitions|is the folder of state table|expected (a table|state that Evenkeel).*"
    r"adopted|expected a table of the team": "The spec was edited after the tables were made or "
    "adopted, or a copy of it names tables of another one.",
    r"expected (a commit|a snapshot) that tells": "Commits of Evenkeel are gone from the table's "
    "history: its log was cleaned, its snapshots expired, or it was cloned or made again.",
    r"expected column ": "Somebody renamed or dropped the column, or evolve was broken off.",
    r"expected columns slot_N|lacks the key column": "Somebody renamed or dropped the column or "
    "the partition field, or made the table again (createOrReplace).",
    r"state table \{name\} has left, and": "evolve was broken off.",
    r"expected one column slot_N": "Somebody added a column of such a name.",
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
}
