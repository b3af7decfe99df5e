"""Receivers of alerts: a server that takes JSON, and one that takes mail."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import takewhile


@contextmanager
def json_receiver() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Give a URL on loopback, and the list of all that is posted to it."""
    heard: list[dict[str, str]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with _serving(HTTPServer(("127.0.0.1", 0), Receiver)) as port:
        yield f"http://127.0.0.1:{port}", heard


@contextmanager
def mail_receiver() -> Iterator[tuple[int, list[EmailMessage]]]:
    """Give a port on loopback that speaks SMTP (RFC 5321), and the list of all mail it takes."""
    heard: list[EmailMessage] = []

    class Receiver(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 ready")
            for line in self.rfile:
                verb = line.split()[0].upper()
                if verb == b"DATA":
                    self._say("354 go on")
                    lines = takewhile(lambda line: line not in (b".\r\n", b""), self.rfile)
                    text = b"".join(lines)
                    heard.append(message_from_bytes(text, policy=policy.default))  # type: ignore[arg-type]
                self._say("221 bye" if verb == b"QUIT" else "250 ok")

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    with _serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Receiver)) as port:
        yield port, heard


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    """Serve in a thread until the block ends."""
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
