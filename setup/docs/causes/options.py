"""Causes of errors about options of strategies, of backtests and of generated events."""

from __future__ import annotations

#: Beginning of a message, as a pattern -> why it appears.
OF_OPTIONS = {
    # Strategies.
    r"there is no (strategy|preset)": "The name is mistyped, or it is one of another release.",
    r"\{strategy\} has no option": "The option is of another strategy: `strategy` was changed, and "
    "`options` was not.",
    r"\{strategy\}\.\{name\} cannot be": "The value is read by its form: in quotes it is text, and "
    "2.0 is no whole number. No option takes infinity, or a number near it.",
    r"\{strategy\}\.\{name\}: expected keys as text": "YAML reads NO as false, 007 as 7 and "
    "2024-01-05 as a date. Plans and files write keys as text, so these would be other keys.",
    r"expected 1 \(perfect\) or more": "Imbalance is the fullest channel's load over the mean. The "
    "part above the mean was given alone, such as 0.05.",
    r"expected 0 bytes or more|must be at least 0, got \{moves\}": "A negative number was to "
    "mean: no limit.",
    r"expected more than 0 seconds": "0 was to mean: no limit.",
    r"expected 2 or more, and splitting": "1 was to mean that no key is split, or `copies` was "
    "given without splitting.",
    r"expected 0 or more, finite, got \{(worth|value|least)\}": "A negative number was to mean: "
    "off. Here 0 does that.",
    r"expected a key \(": "An entry of `pinned` or `excluded` has other columns than the key, or a "
    "value that does not convert to the type of its column.",
    r"no open channel": "The channel was renamed or drained after `pinned` was written, or its "
    "name is mistyped.",
    r"expected letters of": "`resources` is empty, or has a letter for which profiles have no "
    "figure.",
    r"expected three of C, L and Q": "`resources` was written as frontier takes it. This strategy "
    "takes one letter each for state, computation and communication.",
    r"no utility": "The name is mistyped. Options are read when a plan is made, not before.",
    r"\{alpha\} tolerates": "`alpha` is the fullest channel's load over the emptiest one's: at 1, "
    "all loads would have to be the same. Often the part above 1 was given alone.",
    r"(expected more than 0 and (at most|less than) 1|must be from 0 to under 1)"
    r"|expected 0 or more and less than 1": "The option is a part of 1. It was given in percent, "
    "or as the end of its range, where the method does not work.",
    r"expected more than 0, (finite, )?got \{(excess|hot|width)\}": "0 was to mean: off. The "
    "option is a threshold or a size with which the method divides work, and it needs one.",
    r"expected more than 1, got \{delta\}": "`delta` is a factor by which a number of channels "
    "grows. Often the growth alone was given, such as 0.5 for 1.5.",
    r"\{options\} is below 0": "`eta` and `tau` are loads, in mean loads of a channel. A negative "
    "one was to mean: always.",
    r"expected 1 window or more|\{draws\} draws|\{mu\} buckets|\{batch\} tuples": "0 was to "
    "mean: off, or no limit. This count has no such value.",
    r"\{points\} points": "0 was to mean: off. Or the number has too many digits: each point of a "
    "channel takes time and memory.",
    r"\{count\} substreams": "The number was taken over from a paper or from another table. A "
    "substream is made of whole slots, and some strategies compare each two in memory.",
    r"\{seed\} is below 0": "The seed was computed as a number with a sign, such as Python's "
    "`hash`.",
    r"\{decay\} is not from 0 to 1|must be from 0 to 1, got \{decay\}": "The decay is the weight "
    "of a day against the next one. A number of days was given, or percent.",
    r"\{name\} must be finite and not": "The column of `load` has negative numbers, infinities or "
    "NaN, for example from corrections or from a division by 0.",
    # Functions that a program makes or asks.
    r"expected text, got \{name\}": "A program gave a number, or nothing, as a column's name.",
    r"(type \{type\} cannot be a key|a key of type)": "Keys are placed by Spark's hash, which "
    "other programs must get bit for bit. Floats, decimals and timestamps are left out.",
    r"a partitioning function needs|there must be at least 1 channel|\{count\} channels asked": "A "
    "program computed it, and nothing was left. A spec cannot say this.",
    r"channel names must differ": "An entry of `channels` was copied with its name.",
    r"capacities must be": "All channels were drained at once, with capacity 0. Or a program "
    "computed a capacity, and it came out negative, infinite or NaN.",
    r"\{(columns|names)\} (key )?columns given": "The key has several columns, and each is an "
    "argument of its own. One was left out, or all were given as one.",
    r"key \{key\} has \{values\}": "A comma or ` | ` in a value was read as the end of a column, "
    "or a column was left out.",
    r"key \{key\} has \{json\}": "In a JSON list, a value without quotes is a number, and this "
    "column is text.",
    # Backtests.
    r"\{text\} has an empty name": "Two commas stand side by side, one stands at an end, or a "
    "variable of the shell was empty.",
    r"must be whole numbers": "The numbers were given as a range, or with spaces between them.",
    r"must be NAME\.k=v": "The strategy's name was left out. A backtest may run several, so each "
    "option names its own.",
    r"must be a file, found a folder": "A folder was given for the page to be put into.",
    r"expected Parquet files, found a Delta": "A backtest reads files without Spark. It does not "
    "see in Delta's log which rows still count.",
    r"there is no such file": "A relative path starts at the folder in which the command runs.",
    r"weights must be numbers": "The column has text, dates or lists. In a CSV file, one cell that "
    "is no number makes the whole column text.",
    r"a weight of": "Sums with such a weight would overflow, or lose it in rounding.",
    r"no column \{name\}": "The name is mistyped, or a CSV file has no header or another separator "
    "than the comma. Upper and lower case differ.",
    r"cannot be written \(\{strerror\}": "The folder is read-only or gone, or its disk is full.",
    r"must be at least 1, got \{(hashes|value)\}": "0 was to mean: off, or no limit.",
    r"\{channels\} channels for": "The file is a small sample. Channels without a key would make "
    "every strategy look uneven.",
    r"strategy \{name\} is not in": "The option was left from a command with other strategies.",
    r"channels must be at least 1, got": "A list from a loop or a formula began at 0.",
    r"windows need either": "Both or none were given. They cut windows in different ways: by "
    "count, or by time.",
    r"must be a number and s, m, h": "The unit was left out, is written out, or is of no fixed "
    "length, such as a month.",
    # Generated events.
    r"is \{value\}$": "The number is outside of what the generator can make, such as a share over "
    "1, or more keys than its arrays hold.",
    r"needs a window before it": "The heaviest key can vanish only after a window that has it.",
}
