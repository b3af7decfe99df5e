"""Iceberg catalogs for tests: a folder's own (hadoop), SQLite (jdbc), and a server (rest).

The server is Iceberg's own, of its tests: setup/iceberg_catalogs.sh fetches it. It keeps its tables
in SQLite, and runs in a process of its own that listens on 127.0.0.1 alone.
"""

from __future__ import annotations

import http.client
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyspark.sql import SparkSession

from tests.support.wheel import ROOT

KINDS = ("hadoop", "jdbc", "rest")
#: Kind of the catalog of tests that do not choose one.
ANY_KIND = os.environ.get("ICEBERG_CATALOG", "hadoop")
JARS = ROOT / ".jars" / "iceberg-rest"
PAGE = ROOT / "docs" / "how-to" / "formats" / "iceberg-catalogs.md"
#: The server's address on that page.
EXAMPLE = "https://catalog.example.com/"
_DRIVER = "org.sqlite.JDBC"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


#: Kind and server of the catalog of each folder; a folder that is not here has its own (hadoop).
_chosen: dict[Path, tuple[str, CatalogServer | None]] = {}


@contextmanager
def catalog_of(folder: Path, kind: str) -> Iterator[CatalogServer | None]:
    """Let `settle` give sessions a catalog of a kind for this folder; yield its server, if any."""
    with serving(folder) if kind == "rest" else nullcontext() as server:
        _chosen[folder] = (kind, server)
        try:
            yield server
        finally:
            del _chosen[folder]


def lake_in(spark: SparkSession, folder: Path) -> SparkSession:
    """Make a session with the catalog `lake` in a folder, which has read none of its tables yet."""
    if EXTENSIONS not in spark.conf.get("spark.sql.extensions", ""):
        pytest.skip("this Spark has no Iceberg: run make setup with requirements.lock")
    made = spark.newSession()
    settle(made, folder)
    return made


def settle(spark: SparkSession, folder: Path) -> None:
    """Give a session the catalog `lake`, with its tables in a folder."""
    kind, server = _chosen.get(folder, ("hadoop", None))
    if kind == "jdbc":
        skip_without_sqlite(spark)
    if server is not None:
        server.see_files()
    (folder / "lake").mkdir(exist_ok=True)
    spark.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    for name, value in settings_of_page(kind, folder, server.uri if server else "").items():
        spark.conf.set(f"spark.sql.catalog.lake.{name}", value)
    if kind != "hadoop":
        # There, a folder is a namespace.
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")


def skip_without_sqlite(spark: SparkSession) -> None:
    """Skip a test where Spark has no driver for SQLite."""
    found: Any = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if found.getResource(f"{_DRIVER.replace('.', '/')}.class") is None:
        pytest.skip("sqlite-jdbc is not among Spark's jars: make setup")


def settings_of_page(kind: str, folder: Path, uri: str = "") -> dict[str, str]:
    """Return the settings that the page gives for a kind of catalog, with these places.

    Parameters
    ----------
    uri : of a REST server
    """
    section = re.split(r"^## ", PAGE.read_text(), flags=re.M)
    (text,) = (s for s in section if s.lower().startswith(f"{kind}:"))
    text = text.replace("/data/lake", str(folder / "lake")).replace(EXAMPLE, uri)
    lines = re.findall(r"^spark\.sql\.catalog\.lake\.(\S+) +(\S+)$", text, re.M)
    return dict(lines)


@dataclass
class CatalogServer:
    """Iceberg's REST catalog over a folder's SQLite, and a door before it that can fail.

    Clients know the door alone, so its address stays when the server starts again.
    """

    folder: Path
    #: Asked before each request is passed on, with its method and path. True: drop it.
    drop: Callable[[str, str], bool] = lambda method, path: False
    #: The same after the server has answered: the client never gets that answer.
    drop_answer: Callable[[str, str], bool] = lambda method, path: False
    _process: subprocess.Popen[bytes] | None = None
    _inner: int = 0
    _door: ThreadingHTTPServer | None = None
    #: Port of the door, and inode of the database that the server has open.
    _port: int = 0
    _inode: int = 0

    @property
    def uri(self) -> str:
        """The address that clients use."""
        return f"http://127.0.0.1:{self._port}/"

    def start(self) -> None:
        """Start the server's process."""
        if not JARS.is_dir():
            pytest.skip("Iceberg's REST catalog is not in .jars/iceberg-rest: make iceberg")
        hadoop = [str(j) for j in _spark_jars().glob("hadoop-client-*.jar")]
        port, token, self._process = launch_gateway(
            classpath=os.pathsep.join([f"{JARS}/*", *hadoop]),
            jarpath=str(next(_spark_jars().glob("py4j*.jar"))),
            javaopts=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
            java_path=str(Path((ROOT / ".jars" / "java_home").read_text().strip()) / "bin/java"),
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
        )
        java: Any = gateway.jvm
        (self.folder / "lake").mkdir(exist_ok=True)
        settings = settings_of_page("jdbc", self.folder)
        nothing = java.org.apache.hadoop.conf.Configuration()
        kept = java.org.apache.iceberg.CatalogUtil.buildIcebergCatalog("kept", settings, nothing)
        rest, jetty = java.org.apache.iceberg.rest, java.org.eclipse.jetty
        servlet = rest.RESTCatalogServlet(rest.RESTCatalogAdapter(kept))
        handler = jetty.servlet.ServletContextHandler()
        handler.addServlet(jetty.servlet.ServletHolder(servlet), "/*")
        server = jetty.server.Server(java.java.net.InetSocketAddress("127.0.0.1", 0))
        server.setHandler(handler)
        server.start()
        self._inner = server.getURI().getPort()
        gateway.close()
        self._inode = self._database.stat().st_ino
        self._door = ThreadingHTTPServer(("127.0.0.1", self._port), _handler(self))
        self._port = self._door.server_port
        Thread(target=self._door.serve_forever, args=(0.05,), daemon=True).start()

    def see_files(self) -> None:
        """Start again if the folder was replaced: the server has the old database open."""
        if not self._database.exists() or self._database.stat().st_ino != self._inode:
            self.kill()
            self.start()

    def kill(self) -> None:
        """End the server's process at once, as a lost machine does. Clients are refused."""
        if self._door is not None:
            self._door.shutdown()
            self._door.server_close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._door = None

    @property
    def _database(self) -> Path:
        return self.folder / "lake" / "catalog.db"


def _spark_jars() -> Path:
    return Path((ROOT / ".jars" / "spark_home").read_text().strip()) / "jars"


def _handler(server: CatalogServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = None
            if not server.drop(self.command, self.path):
                answer = _ask(server, self.command, self.path, body, dict(self.headers))
            if answer is None or server.drop_answer(self.command, self.path):
                self.close_connection = True
                return
            status, kind, text = answer
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_HEAD = do_POST = do_DELETE = _pass

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    return Handler


def _ask(
    server: CatalogServer, method: str, path: str, body: bytes, headers: dict[str, str]
) -> tuple[int, str, bytes] | None:
    """Pass a request on; None: the server has gone."""
    to = http.client.HTTPConnection("127.0.0.1", server._inner, timeout=60)
    try:
        to.request(method, path, body, headers)
        answer = to.getresponse()
        return answer.status, answer.headers.get("Content-Type", "text/plain"), answer.read()
    except OSError:
        return None
    finally:
        to.close()


@contextmanager
def serving(folder: Path) -> Iterator[CatalogServer]:
    """Run a server for a block."""
    server = CatalogServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
