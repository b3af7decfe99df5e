"""A copy of the Java client, as Flink makes one to ship it with a job, agrees with the vectors."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.clients.programs import copied, need
from tests.clients.vectors import CASES, FILE

#: Writes the function of each JSON line, reads it back, and asks the copy for each key and row.
PROGRAM = """
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
public class Copy {
    public static void main(String[] arguments) throws Exception {
        EvenkeelFunction copy = null;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split("\\t", -1);
            if (parts[0].equals("function")) {
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                new ObjectOutputStream(bytes).writeObject(new EvenkeelFunction(parts[2]));
                InputStream in = new ByteArrayInputStream(bytes.toByteArray());
                copy = (EvenkeelFunction) new ObjectInputStream(in).readObject();
                continue;
            }
            byte[] key = parts[0].equals("\\\\N") ? null : HexFormat.of().parseHex(parts[0]);
            Object text = key == null ? null : new String(key, StandardCharsets.UTF_8);
            Object row = parts[1].equals("\\\\N") ? null : Long.valueOf(parts[1]);
            List<Object> columns = Collections.singletonList(text);
            System.out.println(copy.channel(columns, row) + " " + copy.slot(copy.hash(columns)));
        }
    }
}
"""


def test_a_copy_that_was_serialized_finds_the_same_channels(tmp_path: Path) -> None:
    need("javac")
    folder = copied(tmp_path, "java")
    # It has all that a function can have: slots, heavy keys, and split keys with a row column.
    kinds, *_, row = CASES["split"]
    assert (kinds, row) == (("string",), "bigint")
    _, text = FILE.read_text().split("function\tsplit\t")
    vectors = text.split("\nfunction\t")[0].split("\n")
    (folder / "split.txt").write_text("\n".join([f"function\tsplit\t{vectors[0]}", *vectors[1:]]))
    (folder / "Copy.java").write_text(PROGRAM)
    for command in ("javac EvenkeelFunction.java Copy.java", "java -cp . Copy split.txt"):
        done = subprocess.run(
            command.split(), cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
    expected = [line.split("\t")[:2:-1] for line in vectors[1:]]
    assert len(expected) == 2000
    assert done.stdout.splitlines() == [f"{channel} {slot}" for channel, slot in expected]
