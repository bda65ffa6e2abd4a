"""A network that can fail: a TCP proxy between processes of the kit and a server."""

import contextlib
import selectors
import socket
import struct
import threading

from tests.services import HOST

TICK_S = 0.02
CHUNK_BYTES = 65536
RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time: close() sends RST


class Proxy:
    """Pass bytes both ways between whoever connects to `port` and the target, as long as the network is there.

    Shape: one thread. A connection is two sockets; `_peers` knows each one's other end.
    """

    def __init__(self, target_port: int):
        self.target_port = target_port
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self._peers: dict[socket.socket, socket.socket] = {}
        self._stale: list[socket.socket] = []
        self._is_cut = False
        self._is_closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def cut(self) -> None:
        """Pass nothing any more; connections stay open, new ones are taken and get no answer either."""
        self._is_cut = True

    def forget(self) -> None:
        """Restore the network for new connections; those of now stay open, and nobody answers on them ever again."""
        with self._lock:
            self._stale += self._peers
            self._peers.clear()
        self._is_cut = False

    def reset(self) -> None:
        """Restore the network and end all connections of now with RST."""
        with self._lock:
            for end in [*self._peers, *self._stale]:
                _reset(end)
            self._peers.clear()
            self._stale.clear()
        self._is_cut = False

    def __enter__(self) -> "Proxy":
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._is_closed = True
        self._thread.join()
        self.reset()
        self._listener.close()

    def _run(self) -> None:
        while not self._is_closed:
            with self._lock, selectors.DefaultSelector() as selector:
                if self._is_cut:
                    readable = []
                else:
                    for end in [self._listener, *self._peers]:
                        selector.register(end, selectors.EVENT_READ)
                    readable = [key.fileobj for key, _ in selector.select(TICK_S)]
                for end in readable:
                    self._accept() if end is self._listener else self._pass(end)
            threading.Event().wait(TICK_S if self._is_cut else 0)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection((HOST, self.target_port), timeout=2)
        except OSError:
            return _reset(client)
        for end in (client, server):
            end.settimeout(2)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peers |= {client: server, server: client}

    def _pass(self, end: socket.socket) -> None:
        if (peer := self._peers.get(end)) is None:
            return
        try:
            chunk = end.recv(CHUNK_BYTES)
            if chunk:
                return peer.sendall(chunk)
        except OSError:
            pass  # one side has broken off: so does the other
        for gone in (end, peer):
            self._peers.pop(gone, None)
            gone.close()


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    end.close()
