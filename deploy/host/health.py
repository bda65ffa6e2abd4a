"""Does the site answer, and with which release?"""

import http.client
import socket

from . import django
from .layout import Layout
from .waiting import wait_until

ANSWER_LIMIT_S = 120  # a small machine that runs two releases at once can be as slow as that
ASK_LIMIT_S = 10


class SocketConnection(http.client.HTTPConnection):
    """HTTP over the site's socket, as nginx speaks it."""

    def __init__(self, path: str):
        super().__init__("localhost", timeout=ASK_LIMIT_S)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def release_that_answers(layout: Layout) -> str | None:
    """Return the release that the site's socket answers with now; None when it does not answer well."""
    host = django.setting(layout, "kit", "ALLOWED_HOSTS").partition(",")[0]
    connection = SocketConnection(str(layout.socket))
    try:
        connection.request("GET", "/healthz", headers={"Host": host, "X-Forwarded-Proto": "https"})
        answer = connection.getresponse()
        return answer.headers["X-Release"] if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def wait_for_answer(layout: Layout, name: str) -> None:
    """Wait until that release answers; beside it others may, whose turn it is to accept.

    Raises: KitError.
    """
    sentence = f"Release {name} did not answer /healthz on the site's socket"
    wait_until(lambda: release_that_answers(layout) == name, ANSWER_LIMIT_S, sentence)


def wait_for_flower(layout: Layout) -> None:
    """Wait until Flower answers on its port. Raises: KitError."""
    port = int(django.setting(layout, "flower", "FLOWER_PORT"))
    wait_until(lambda: is_open(port), ANSWER_LIMIT_S, f"Flower did not answer on port {port}")


def is_open(port: int) -> bool:
    """Tell whether something listens on the port of this host."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=ASK_LIMIT_S).close()
    except OSError:
        return False
    return True
