"""Causes of errors about single fields of a spec, of Params, and of merges of one's own."""

from __future__ import annotations

#: Beginning of a message, as a pattern -> why it appears.
OF_FIELDS = {
    # Rules of one value.
    r"must be \{expected\}": "The value is mistyped, or it is one of another release. Case counts.",
    r"must begin with a letter": "The table's name is part of names of DAGs, folders and files.",
    r"must not be empty": "The field has quotes with nothing between them.",
    r"must have \{min_length\}": "The list or the mapping is there, and has no entry.",
    r"must be \{(ge|le)\}|must be (more|less) than": "The number is out of the range that "
    "[the spec's page](../spec.md) gives, often by another unit.",
    r"must be a finite number$": "The value is `.inf` or `.nan`, or it is too large for a float.",
    r"must be a (whole )?number": "The value has a unit, a fraction or quotes, or it is a word.",
    r"must be true or false": "The value is a word or a number that YAML does not read as either.",
    r"must be a date": "The value is a word, has an hour, or has another order than year, month, "
    "day.",
    r"must be text": "YAML reads the value as a number, a date, true or false. Put it in quotes.",
    r"must be a list": "One value stands where several may: write `[value]`.",
    r"must be a mapping": "The fields below it are not indented, or a list or a word stands there.",
    r"there is no such field": "The name is mistyped, is one of another release, or stands at "
    "another depth of the file.",
    r"is missing$": "The field has no default, or it is indented as a part of another one.",
    # Paths, columns and merges.
    r"expected a path or a URL": "The value was read from a file or a variable with a NUL.",
    r"expected a path alone": "It has one slash, as in `file:/x`. Stores read it in another way.",
    r"expected another value than yes": "YAML reads `yes`, `no`, `on` and `off` as true and false. "
    "Put the value in quotes.",
    r"there is no such merge": "The merge is mistyped, or it is one of your own and "
    "EVENKEEL_MERGES does not name its file.",
    r"count takes no": "`count` counts events, whatever their columns have. All others need the "
    "column that they merge.",
    r"\{merge\} takes no": "`by` says which event is the last. Other merges do not ask.",
    r"expected either `columns`": "The table is neither said to be made from events nor to be "
    "yours, or both.",
    r"partitions: allowed": "Evenkeel partitions the tables that it makes by channel alone.",
    r"partitions: an Iceberg": "An Iceberg table has its partitions in its metadata.",
    r"path: expected an Iceberg": "The field has the path of a folder, or a name without its "
    "catalog.",
    r"\{kinds\} is merged by": "A copy has the whole value on each owner, and a sum has a part. "
    "One row cannot be both.",
    r"\{field\} lacks": "The SQL of the merge does not name a place that it must fill.",
    # Fields that go together.
    r"must divide a day": "Looks of the watch would drift against the day.",
    r"allowed: finite numbers": "Weights are shares of the load. A weight of 0 closes a channel.",
    r"\{weights\} weights for": "`channels` was changed, and the weights were not.",
    r"expected a cron": "The value is a time of day, a number of seconds, or a text that Airflow "
    "does not know.",
    r"watch\.every: expected less": "The watch looks between two runs of the schedule.",
    r"key columns must differ": "A column was copied. Its second place would change no hash.",
    r"\{own\}: set it": "An option of the strategy has the name of a field of the spec.",
    r"with `split`, `resources`": "A share of a split key has one size: that of its load.",
    r"resources must have L": "Gates and decisions compare loads. Others may be even beside them.",
    r"key: \{clash\}|state\.\{name\}: \{clash\}": "Rows have columns `slot` and `channel`, and the "
    "key's own. Case does not count here.",
    r"sketch: \{sketch\} counts": "The sketch adds 1 per event and has no place for a weight.",
    r"split\.by:": "All events of the key have one value there, so all would go to one channel.",
    r"watch: micro-batches": "The watch cuts the day by the time of events.",
    r"max_imbalance: may not": "A plan that reached just this would begin the next run at once.",
    r"state: expected": "One spec has one way of adding windows, for all of its tables.",
    r"\{fields\}: is for Delta": "Iceberg tables have no such setting, or no part of a key.",
    r"split: needs state tables": "Nobody but you knows how two rows of one key of yours become "
    "one.",
    r"state\.\{name\}\.columns": "Without a time nobody knows which event is the last.",
}
