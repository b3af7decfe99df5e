"""Causes of errors about installations, folders of specs and stores."""

from __future__ import annotations

#: Beginning of a message, as a pattern -> why it appears.
OF_INSTALLATION = {
    r"\{module\} is not installed": "The wheel has no extra, or it has it in another Python than "
    "the one that runs the command.",
    # Folders of specs.
    r"there is no such folder": "The folder is not mounted on this host, or its path is relative "
    "and this process started elsewhere.",
    r"expected a folder of table specs": "`load_tables` was called without a folder, and the "
    "process that reads DAG files does not have the variable of your shell.",
    r"expected a folder with the spec": "The command was given a name, and looked in the folder "
    "`tables` of where it runs.",
    r"there is no table \{table\}": "The name is mistyped, or the command runs with the folder of "
    "another place.",
    r"no DAG of Airflow loads": "The API server has other variables than the DAG processor, or no "
    "DAG file was read yet, or reading it failed.",
    # Programs and packages.
    r"expected the package evenkeel_spark": "A checkout was put on the Python path without its "
    "folder of jobs.",
    r"expected a folder with bin/spark-submit": "SPARK_HOME was left by another installation, or "
    "by a Spark that has been removed.",
    r"the job \{job\} did not start": "The driver runs another Python than the one with "
    "Evenkeel's packages, or pyspark-client was upgraded alone.",
    r"expected a Java for Spark": "None is installed on this host, or an upgrade has removed the "
    "one that JAVA_HOME names.",
    r"expected spark-submit in": "PySpark is in another environment, or the PATH of a service "
    "lacks the folder of this one.",
    r"expected Airflow's provider of Kubernetes": "Airflow's Spark hook loads it for such a master "
    "alone, and says nothing while it is missing.",
    r"expected deploy mode client on": "The connection was copied from YARN, or drivers were meant "
    "to run apart from Airflow's workers.",
    r"there is no Spark session": "The program asked for state before it made a session, or in "
    "another thread: each thread has its own active one.",
    r"expected the dialect": "Slots rest on Spark's xxhash64, and the SQL was meant for an engine "
    "with another hash.",
    # Stores.
    r"may not be \{cannot\}": "A role, a policy of the bucket, or the owner and mode of a file "
    "does not allow it. A key may have expired.",
    r"cannot be \{cannot\}": "For example a network that broke off, a limit on requests, or a full "
    "disk.",
    r"cannot be reached \(": "The protocol is mistyped, or the client of the store lacks a setting "
    "or a library with which it starts.",
    r"\{protocol\}:// needs": "Each store has a client of its own, and this Python lacks it. Spark "
    "reaches the store by another one.",
}
