"""The files of docs/how-to/engines/java.md, run with a broker of Kafka and in a local Flink."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import sleep

import pytest

from partitioning.function.canonical import canonical_json
from partitioning.function.function import PartitioningFunction
from partitioning.function.hashing import key_hash
from tests.clients.programs import CLIENTS, jars, need, of_epoch
from tests.clients.vectors import functions
from tests.support.wheel import ROOT

PAGE = ROOT / "docs/how-to/engines/java.md"
KAFKA = ("org.apache.kafka", "kafka_2.13")
FLINK = ("org.apache.flink", "flink-clients")
KEYS = [f"p{number}" for number in range(60)]
#: Makes a topic, then sends a record for each line it reads; prints the record's partition.
PRODUCER = """
import java.io.*;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.StringSerializer;
public class Send {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.load(new StringReader(Files.readString(Path.of("producer.properties"))));
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("key.serializer", StringSerializer.class);
        settings.put("value.serializer", StringSerializer.class);
        String topic = arguments[1];
        try (Admin admin = Admin.create(settings)) {
            int partitions = Integer.parseInt(arguments[2]);
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (String key = in.readLine(); key != null; key = in.readLine()) {
                try {
                    var sent = producer.send(new ProducerRecord<>(topic, key, "5")).get();
                    System.out.println(sent.partition());
                } catch (IllegalStateException error) {
                    System.out.println(error.getMessage());
                }
            }
        }
    }
}
"""
SERVER = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
offsets.topic.replication.factor=1
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def version(artifact: str) -> str:
    """Return the version that the page says it was tested with."""
    (found,) = re.findall(rf"{artifact} (\d+\.\d+\.\d+)", PAGE.read_text())
    return str(found)


def written(folder: Path, *names: str) -> None:
    """Write files of the page into a folder, beside the client."""
    shutil.copy(CLIENTS / "java/EvenkeelFunction.java", folder)
    fence = r"^```\w+\n((?://|#) ([\w.]+)\b[^\n]*\n.*?)^```"
    files = re.findall(fence, PAGE.read_text(), re.M | re.S)
    texts = {name: text for text, name in files}
    for name in names:
        text = texts[name].replace("/srv/registry/epochs", str(folder / "epochs"))
        (folder / name).write_text(text.replace("seconds=60", "seconds=1"))


def ran(folder: Path, *command: str) -> str:
    """Run a command in a folder; return what it printed."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def publish(folder: Path, number: int, function: PartitioningFunction) -> None:
    """Write an epoch into a registry."""
    epoch = folder / f"epochs/{number:08}"
    epoch.mkdir(parents=True)
    (epoch / "epoch.json").write_text(of_epoch(canonical_json(function.to_dict()).decode()))


def function_of(turn: int) -> PartitioningFunction:
    """Return a function with p0 to p4 as heavy keys; each turn has other channels."""
    function = functions()["text"]
    heavy = sorted(key_hash([KEYS[:5]], ["string"]).tolist())
    slots = [(channel + turn) % len(function.channels) for channel in function.slots.tolist()]
    owners = [(7 + turn) % len(function.channels)] * len(heavy)
    return replace(function, slots=slots, explicit_keys=heavy, explicit_channels=owners)


@contextmanager
def broker(folder: Path, libraries: str) -> Iterator[str]:
    """Run a broker of Kafka; give its address."""
    ports = []
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
            ports.append(free.getsockname()[1])
    text = SERVER.format(port=ports[0], control=ports[1], folder=folder)
    (folder / "server.properties").write_text(text)
    java = ("java", "-Xmx512m", "-cp", libraries)
    tool = ("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk")
    ran(folder, *java, *tool, "-c", "server.properties")
    with (folder / "broker.log").open("w") as log:
        server = subprocess.Popen(
            [*java, "kafka.Kafka", "server.properties"], cwd=folder, stdout=log, stderr=log
        )
        try:
            yield f"127.0.0.1:{ports[0]}"
        finally:
            server.kill()
            server.wait()


def asked(producer: subprocess.Popen[str], keys: list[str]) -> list[str]:
    """Send keys; return what the producer says of each."""
    assert producer.stdin and producer.stdout
    producer.stdin.write("".join(f"{key}\n" for key in keys))
    producer.stdin.flush()
    return [producer.stdout.readline().strip() for _ in keys]


@contextmanager
def sending(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the producer of the page's settings."""
    command = ["java", "-Xmx256m", "-cp", *arguments]
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as producer:
        try:
            yield producer
        finally:
            producer.kill()


def test_a_producer_of_kafka_sends_by_the_current_epoch(tmp_path: Path) -> None:
    need("javac")
    libraries = jars(*KAFKA, version("Kafka"))
    written(tmp_path, "CurrentEpoch.java", "EpochPartitioner.java", "producer.properties")
    (tmp_path / "Send.java").write_text(PRODUCER)
    ran(tmp_path, "javac", "-cp", libraries, "EpochPartitioner.java", "Send.java",
        "CurrentEpoch.java", "EvenkeelFunction.java")  # fmt: skip
    functions_of = [function_of(turn) for turn in range(2)]
    channels = len(functions_of[0].channels)
    expected = [[str(c) for c in f.lookup(KEYS).tolist()] for f in functions_of]
    assert all(a != b for a, b in zip(*expected, strict=True))
    publish(tmp_path, 9, functions_of[0])
    path = f"{tmp_path}:{libraries}"
    with broker(tmp_path, libraries) as address:
        with sending(tmp_path, path, "Send", address, "sales", str(channels)) as producer:
            assert asked(producer, KEYS) == expected[0]
            publish(tmp_path, 10, functions_of[1])
            (tmp_path / "epochs/00000011").mkdir()
            sleep(1.1)  # its interval is a second
            assert asked(producer, KEYS) == expected[1]
            # A damaged epoch, and then a registry that is gone: the epoch before stays.
            (tmp_path / "epochs/00000011/epoch.json").write_text("{")
            sleep(1.1)
            assert asked(producer, KEYS) == expected[1]
            (tmp_path / "epochs").rename(tmp_path / "gone")
            sleep(1.1)
            assert asked(producer, KEYS) == expected[1]
        (tmp_path / "gone").rename(tmp_path / "epochs")
        shutil.rmtree(tmp_path / "epochs/00000011")
        with sending(tmp_path, path, "Send", address, "narrow", "1") as producer:
            said = asked(producer, KEYS)
    for channel, line in zip(expected[1], said, strict=True):
        if channel != "0":
            assert line.startswith(f"expected a partition for channel {channel}, topic narrow"), (
                line
            )
    assert "0" in said


def test_a_job_of_flink_sends_by_the_function_that_it_ships(tmp_path: Path) -> None:
    need("javac")
    libraries = jars(*FLINK, version("Flink"))
    names = ["CurrentEpoch.java", "ChannelOf.java", "ChannelPartitioner.java", "RouteSales.java"]
    written(tmp_path, *names)
    ran(tmp_path, "javac", "-cp", libraries, "EvenkeelFunction.java", *names)
    function = function_of(0)
    publish(tmp_path, 3, function)
    (tmp_path / "sales.csv").write_text("".join(f"{key},5\n" for key in KEYS))
    subtasks = 4
    said = ran(tmp_path, "java", "-Xmx1g", "-cp", f"{tmp_path}:{libraries}", "RouteSales",
               "epochs", "sales.csv", str(subtasks))  # fmt: skip
    found = dict(re.findall(r"> (\w+),5 at (\d+)$", said, re.M))
    channels = dict(zip(KEYS, function.lookup(KEYS).tolist(), strict=True))
    assert found == {key: str(channel % subtasks) for key, channel in channels.items()}
    assert len(set(found.values())) == subtasks
