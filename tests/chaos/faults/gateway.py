"""A gateway before a store that is reached by HTTP: it passes everything on, until it is told to
refuse."""

from __future__ import annotations

import contextlib
import socket
import threading

#: As S3 answers who asks too much.
_CODE = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>"
)
_REFUSED = (
    b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_CODE), _CODE)
)


class Gateway:
    """Listens on a free port of 127.0.0.1 for what goes to another one; `refused`: how many
    requests it has answered by itself."""

    def __init__(self, target: int) -> None:
        self._target, self._refusing, self.refused = target, threading.Event(), 0
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listens.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def refuse(self, yes: bool) -> None:
        """From now on answer 503 to every request, or pass them on again."""
        (self._refusing.set if yes else self._refusing.clear)()

    def close(self) -> None:
        """Listen no more."""
        self._listens.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listens.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        to = ("127.0.0.1", self._target)
        with contextlib.suppress(OSError), client, socket.create_connection(to) as server:
            threading.Thread(target=_copy, args=(server, client), daemon=True).start()
            while some := client.recv(1 << 16):
                if self._refusing.is_set():
                    self.refused += 1
                    client.sendall(_REFUSED)
                    return
                server.sendall(some)


def _copy(source: socket.socket, target: socket.socket) -> None:
    """All that comes, until either end is closed."""
    with contextlib.suppress(OSError):
        while some := source.recv(1 << 16):
            target.sendall(some)
        target.shutdown(socket.SHUT_WR)
