"""Causes of what tasks and DAG files raise as an exception that is not ours."""

from __future__ import annotations

#: Beginning of a message, as a pattern -> why it appears.
OF_TASKS = {
    r"nobody has answered in": "The plan waited for a person, and nobody approved or refused it "
    "in time.",
    r"the job \{job\} ended with": "The job failed, or something ended its process: a lack of "
    "memory, or Airflow's own limit of time.",
    r"the job \{job\} was ended from outside": "Somebody killed it, the machine ran out of memory, "
    "or its time on the cluster was over.",
    r"\{program\} is not on PATH": "Airflow was started by a shell or a service with another PATH "
    "than the one in which you installed Spark.",
    r"Airflow has no such connection": "Nobody has made it, `conn_id` is mistyped, or Airflow's "
    "API or secrets backend did not answer.",
    r"expected evenkeel://TABLE": "The address of an asset has a path or a query, or no table.",
    r"partitions need Airflow": "The spec's `schedule` has `partitions`, and this Airflow has no "
    "timetable for them.",
    r"decide has left no decision": "Somebody marked decide as a success, so it has no result.",
    r"The run failed at \{where\}, but its epoch": "A step after publish failed. Or verify failed "
    "late, and roll_back published what it had passed.",
    r"The run failed at": "A task before the report failed. Its log has the reason.",
    r"\{missing\} did not run": "A task failed, and Airflow starts nothing that waits for it.",
}
