"""Tell the service manager that this process gets on with its work."""

import logging
import os
import socket

log = logging.getLogger(__name__)


def still_alive() -> None:
    """Feed systemd's watchdog; nothing where no service manager listens.

    Source: sd_notify(3)
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # Linux's abstract names
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.setblocking(False)
            manager.sendto(b"READY=1\nWATCHDOG=1", address)
    except OSError as error:  # it decides for itself what a missing sign means
        log.warning("the service manager does not take the sign of life: %s", error)
