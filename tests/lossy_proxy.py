"""A database server's address that loses a reply: the statement is carried out, its answer never arrives."""

import contextlib
import socket
import threading
from urllib.parse import urlsplit, urlunsplit

CHUNK_BYTES = 65_536


class LossyProxy:
    """Passes every connection on to the server of an address, until it is told to lose one reply."""

    def __init__(self, url: str):
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        netloc = f"{parts.username}@127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = urlunsplit(parts._replace(netloc=netloc))
        self._text: bytes | None = None
        self.lost = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def lose_reply_to(self, text: bytes) -> None:
        """Cut the next connection that sends the text, once the server has answered it."""
        self.lost.clear()
        self._text = text

    def close(self) -> None:
        """Take no further connection."""
        self._listener.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                cut = threading.Event()
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(*pair, cut), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, cut: threading.Event) -> None:
        """Copy one direction of a connection; the first piece after `cut` is the reply, and ends both."""
        with contextlib.suppress(OSError):  # one side has ended
            while (data := source.recv(CHUNK_BYTES)) and not (cut.is_set() and source.getpeername() == self._server):
                if self._text is not None and self._text in data:
                    self._text = None
                    cut.set()
                target.sendall(data)
            if data:
                self.lost.set()
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
