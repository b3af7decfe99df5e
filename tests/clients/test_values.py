"""Clients refuse values that are not of their column's type: a hash of them is another key's."""

from __future__ import annotations

import subprocess
from datetime import date
from pathlib import Path

import pytest

from partitioning.function.canonical import canonical_json
from partitioning.function.channels import numbered_channels
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import KeyColumn, key_hash
from tests.clients.programs import copied, need

#: A program in each language, around statements; it prints one line for each value.
JAVASCRIPT = """
import {{ EvenkeelFunction }} from "./evenkeel.mjs";
const f = (type) => new EvenkeelFunction(`{function}`.replace("KIND", type));
const show = (type, value) => {{
  try {{ console.log(String(f(type).hash([value]))); }} catch (e) {{ console.log(e.message); }}
}};
{statements}
"""
JAVA = """
import java.util.*;
import java.time.*;
public class Values {{
    static final String JSON = "{function}";
    static void show(String type, Object value) {{
        try {{
            String json = JSON.replace("KIND", type);
            System.out.println(new EvenkeelFunction(json).hash(Arrays.asList(value)));
        }} catch (IllegalArgumentException e) {{
            System.out.println(e.getMessage());
        }}
    }}
    public static void main(String[] a) {{
        {statements}
    }}
}}
"""
GO = """
package main
import ("evenkeel"; "fmt"; "strings"; "time")
func show(kind string, value any) {{
    f, _ := evenkeel.New([]byte(strings.Replace(`{function}`, "KIND", kind, 1)))
    if h, err := f.Hash([]any{{value}}); err != nil {{ fmt.Println(err) }} else {{ fmt.Println(h) }}
}}
func main() {{
    _ = time.UTC
    {statements}
}}
"""
#: Of each language: its tool, the program, the program's file and the commands that run it.
PROGRAMS = {
    "javascript": ("node", JAVASCRIPT, "values.mjs", ["node values.mjs"]),
    "java": (
        "java",
        JAVA,
        "Values.java",
        ["javac EvenkeelFunction.java Values.java", "java -cp . Values"],
    ),
    "go": ("go", GO, "values/main.go", ["go run ./values"]),
}
REFUSED = {
    "javascript": [
        ("bigint", "2 ** 53"),
        ("bigint", "1.5"),
        ("bigint", '"5"'),
        ("bigint", '""'),
        ("bigint", "[]"),
        ("int", "true"),
        ("bigint", "2n ** 63n"),
        ("string", "5"),
        ("string", "undefined"),
        ("string", "new Date(0)"),
        ("string", r'"\ud83d"'),
        ("binary", "new Int8Array(3)"),
        ("binary", '"a"'),
        ("date", "new Date(1)"),
        ("date", "new Date(NaN)"),
        ("date", '"2013-01-01"'),
        ("date", "5"),
    ],
    "java": [
        ("bigint", '"5"'),
        ("bigint", "5.0"),
        ("int", "1L << 31"),
        ("bigint", "true"),
        ("string", "5"),
        ("string", r'"\ud83d"'),
        ("binary", '"a"'),
        ("date", "LocalDate.MAX"),
        ("date", "LocalDateTime.of(2013, 1, 1, 0, 0)"),
    ],
    "go": [
        ("bigint", "5"),
        ("bigint", '"5"'),
        ("int", "int64(1 << 31)"),
        ("string", "[]byte{65}"),
        ("string", r'"\xff"'),
        ("binary", '"a"'),
        ("date", "time.Date(9999999, 1, 1, 0, 0, 0, 0, time.UTC)"),
        ("date", "time.Date(-9999999, 1, 1, 0, 0, 0, 0, time.UTC)"),
        ("date", "int64(5)"),
    ],
}
#: Values, and what Python makes of them.
TAKEN = {
    "javascript": [
        ("bigint", "2 ** 53 - 1", 2**53 - 1),
        ("bigint", "-(2n ** 63n)", -(2**63)),
        ("int", "-0", 0),
        ("string", r'"\ufeff\u0000🙂"', "\ufeff\0🙂"),
        ("binary", "Buffer.from([0, 255])", b"\0\xff"),
        ("date", 'new Date("1000-01-01")', date(1000, 1, 1)),
        ("date", "null", None),
    ],
    "java": [
        ("bigint", "5", 5),
        ("tinyint", "(byte) -5", -5),
        ("bigint", 'new java.math.BigInteger("-9223372036854775808")', -(2**63)),
        ("string", r'"\ufeff\0🙂"', "\ufeff\0🙂"),
        ("date", "LocalDate.of(1000, 1, 1)", date(1000, 1, 1)),
        ("date", "null", None),
    ],
    "go": [
        ("binary", "[]byte(nil)", None),
        ("binary", "[]byte{}", b""),
        ("string", "nil", None),
        ("date", "time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC)", date(1000, 1, 1)),
        ("date", 'time.Date(1970, 1, 3, 1, 0, 0, 0, time.FixedZone("", 7200))', date(1970, 1, 3)),
    ],
}


#: Statements that read a function whose hashes have lost digits.
ROUNDED = {
    "javascript": """try { new EvenkeelFunction(JSON.parse('{"format":1}')); }
        catch (e) { console.log(e.message); }""",
    "java": """Map<String, Object> rounded = EvenkeelFunction.parse(JSON.replace("KIND", "int"));
        rounded.put("explicit", Map.of("keys", List.of(5e18), "channels", List.of(0)));
        try { new EvenkeelFunction(rounded); }
        catch (IllegalArgumentException e) { System.out.println(e.getMessage()); }""",
}


def said(folder: Path, language: str, statements: str) -> list[str]:
    """Return the lines that statements print, each `show` what a client says of a value."""
    name, program, file, commands = PROGRAMS[language]
    need(name)
    function = PartitioningFunction((KeyColumn("k", "int"),), numbered_channels(2), [0, 1])
    json = canonical_json(function.to_dict()).decode().replace('"type":"int"', '"type":"KIND"')
    text = program.format(
        function=json.replace('"', '\\"') if language == "java" else json,
        statements=statements,
    )
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(text)
    for command in commands:
        done = subprocess.run(
            command.split(), cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("language", PROGRAMS)
def test_values_of_another_type_are_refused_and_others_hashed(
    tmp_path: Path, language: str
) -> None:
    folder = copied(tmp_path, language)
    bad, good = REFUSED[language], TAKEN[language]
    values = [*bad, *((kind, value) for kind, value, _ in good)]
    end = "\n" if language == "go" else ";\n"
    shown = "".join(f'show("{kind}", {value}){end}' for kind, value in values)
    found = said(folder, language, shown)
    for (kind, value), line in zip(bad, found, strict=False):
        assert line.startswith("expected "), f"{value} as {kind}: {line}"
    hashes = [str(key_hash([[value]], [kind])[0]) for kind, _, value in good]
    assert found[len(bad) :] == hashes


@pytest.mark.parametrize("language", ROUNDED)
def test_hashes_that_have_lost_digits_are_refused(tmp_path: Path, language: str) -> None:
    (line,) = said(copied(tmp_path, language), language, ROUNDED[language])
    assert line.startswith("expected "), line
