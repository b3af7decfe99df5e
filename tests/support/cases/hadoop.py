"""Hadoop's mini cluster on loopback: HDFS with its WebHDFS, and YARN, in a JVM of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.docs.readme import ROOT

#: What `setup/cluster.sh` has fetched.
JARS = ROOT / ".jars" / "hadoop"
#: What Spark's own folder has of the rest.
_SPARKS = ("hadoop-client-*", "*slf4j*", "log4j-*")


class Hadoop(NamedTuple):
    """A cluster that runs.

    Parameters
    ----------
    hdfs, webhdfs : URLs of its root
    conf : folder for HADOOP_CONF_DIR
    manager : host and port of YARN's API; None: without YARN
    """

    hdfs: str
    webhdfs: str
    conf: Path
    manager: str | None


@contextmanager
def hadoop(folder: Path, *, yarn: bool) -> Iterator[Hadoop]:
    """HDFS with one data node; with YARN, a node manager of 6 GB, too."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    if not JARS.is_dir():
        pytest.skip("no Hadoop here: make cluster fetches it")
    spark = Path(os.environ["SPARK_HOME"]) / "jars"
    jars = [*JARS.glob("*.jar"), *(jar for name in _SPARKS for jar in spark.glob(f"{name}.jar"))]
    conf = folder / "hadoop"
    conf.mkdir()
    with (folder / "hadoop.log").open("wb") as log:
        port, process = launch_gateway(
            classpath=":".join(map(str, jars)),
            javaopts=["-Xmx900m", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"],
            java_path=f"{os.environ['JAVA_HOME']}/bin/java",
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            # MiniYARNCluster keeps its logs and local files below the working folder.
            cwd=str(folder),
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        try:
            yield _started(gateway.jvm, folder, conf, yarn)
        finally:
            gateway.shutdown()
            process.kill()
            process.wait()


def _started(jvm: Any, folder: Path, conf: Path, yarn: bool) -> Hadoop:
    apache = jvm.org.apache.hadoop
    made = apache.yarn.conf.YarnConfiguration()
    scheduler = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
    disks = "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage"
    for name, value in {
        "dfs.permissions.enabled": "false",
        "yarn.nodemanager.resource.memory-mb": "6144",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.scheduler.minimum-allocation-mb": "256",
        "yarn.resourcemanager.scheduler.class": scheduler,
        # The disk of a small machine may be nearly full.
        disks: "99.9",
    }.items():
        made.set(name, value)
    builder = getattr(apache.hdfs, "MiniDFSCluster$Builder")
    dfs = builder(made, jvm.java.io.File(str(folder / "dfs"))).build()
    root = dfs.getFileSystem().getUri().toString()
    made.set("fs.defaultFS", root)
    if yarn:
        cluster = apache.yarn.server.MiniYARNCluster("yarn", 1, 1, 1)
        cluster.init(made)
        cluster.start()
        made = cluster.getConfig()
        made.set("fs.defaultFS", root)
        # A class of the mini cluster alone, which its clients do not have.
        made.unset("net.topology.node.switch.mapping.impl")
    # A default of one kind comes after the settings of another: so each kind has them all.
    for kind in ("core", "hdfs", "yarn"):
        file = jvm.java.io.FileOutputStream(str(conf / f"{kind}-site.xml"))
        made.writeXml(file)
        file.close()
    manager = made.get("yarn.resourcemanager.webapp.address") if yarn else None
    web = dfs.getHttpUri(0).replace("http://", "webhdfs://")
    return Hadoop(root, web, conf, manager)
