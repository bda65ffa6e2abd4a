"""Tell the service manager how this process gets on. Does nothing where none listens.

Source: sd_notify(3)
"""

import logging
import os
import socket
from time import monotonic

log = logging.getLogger(__name__)

FEED_EVERY_S = 5.0


class ServiceManager:
    """What systemd has been told: once that the process is ready, its state in words when that changes, signs of life.

    Each process tells for itself, from one thread.
    """

    def __init__(self):
        self._is_ready = False
        self._status = ""
        self._feed_at = 0.0

    def tell(self, status: str, *, is_ready: bool = True) -> None:
        """Feed the watchdog, and say what is new: call it whenever the process has got on with its work.

        Shape: is_ready False only puts off the first word of being ready; nothing takes it back.
        """
        now = monotonic()
        lines = []
        if is_ready and not self._is_ready:
            lines.append("READY=1")
            self._is_ready = True
        if status != self._status:
            lines.append(f"STATUS={status}")
            self._status = status
        if lines or now >= self._feed_at:
            self._feed_at = now + FEED_EVERY_S
            send("\n".join(["WATCHDOG=1", *lines]))


def send(message: str) -> None:
    """Send a message. Raises: nothing; the manager decides for itself what a missing sign means."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # Linux's abstract names
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.setblocking(False)
            manager.sendto(message.encode(), address)
    except OSError as error:
        log.warning("the service manager does not take the sign of life: %s", error)
