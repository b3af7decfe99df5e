"""Causes of single messages, which come before those that several messages share."""

from __future__ import annotations

#: Beginning of a message, as a pattern -> why it appears.
OF_SINGLE = {
    r"has the constraint .*(which is not this plan's|where another plan)": "Another run moved "
    "rows, or published, since this plan was made. Or the registry is older than the table.",
    r"has the constraint .* by now": "Two calls of bootstrap or evolve made one table at once.",
    r"rows were moved longer ago": "More than `keep` days passed between migrate and verify. "
    "Delta refuses such versions, vacuumed or not.",
    r"expected approval of plan": "A person refused the plan. Or a task before this one was "
    "cleared and made another plan than the one that was approved.",
    r"is the plan of run": "plan.json was copied from the folder of another run.",
    r"another plan wrote to the table": "This job stood still, and another run moved rows "
    "meanwhile.",
    r"\{operation\} came between": "While repair closed the table, somebody restored it, or "
    "changed its properties, columns or constraints.",
    r"\{name\} is of attempt": "migrate ran again after the last verify, for example after a "
    "rollback.",
    r"another attempt has begun, or": "migrate was started again, or the epoch was published, "
    "while this rolled back.",
    r"expected column .* by which keys are split": "The column of `split.by` was renamed or "
    "dropped in the input.",
    r"epoch \{number\} is of before the table": "The first epoch of a team's table is published "
    "before its rows get their columns.",
    r"epoch \{number\} was published meanwhile": "A run of the other tables had begun before this "
    "one was adopted, and published while its rows were written.",
    r"two of them name one column": "Two options --rename have one old name or one new name.",
    r"\{beyond\} events are dated": "Times were read in another unit or zone, or a clock upstream "
    "is wrong.",
    r"state tables disagree": "One of them was made by another bootstrap, or was copied from "
    "another table.",
    r"(Spark|\{name\}) .* is too old": "The cluster, or this Python, has an older release than "
    "Evenkeel runs on.",
    r"the joins have": "Somebody wrote to the demo's tables while their rows moved.",
    r"\{failed\} steps have failed": "Each step has a reason of its own, in the brackets.",
    r"this run has begun to move rows by plan": "The task plan was cleared after migrate had "
    "begun.",
    r"has got another constraint": "A second run or repair works on the table, or somebody "
    "changed its constraint by hand. With `fence: slot` it may be a row that the fence let "
    "through.",
    r"\{text\} is not (a|\{kind)": "The text is no number, or a pair lacks its colon.",
    r"there is no (job|state table) \{": "The name is mistyped, of another table, or of another "
    "release.",
    r"is for Delta tables: rows": "The parameter limits the commits of a move, and a move of "
    "Iceberg tables is one commit.",
    r"has (\{_UPSERTS\}|write.upsert)": "Flink's upserts delete a row where it was before, and "
    "rows move.",
    r"Spark could not be started": "spark.master names a cluster that does not answer, or a "
    "setting of Spark is wrong.",
}
