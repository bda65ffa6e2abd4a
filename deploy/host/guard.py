"""One deploy at a time, and none that is cut off half way without putting things back."""

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator

from .errors import KitError
from .layout import Layout

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextlib.contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Hold the host's deploy lock; the system drops it when this process ends, however it ends.

    Raises: KitError while another deploy runs.
    """
    file = layout.root / "run/kit-deploy.lock"
    with open(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise KitError(f"Another deploy runs here (pid {lock.read().strip()}): wait for its end.") from None
        lock.truncate()
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn the signals that end a process into an error, so that what was begun is put back."""

    def interrupt(number, frame) -> None:
        raise KitError(f"Interrupted by {signal.Signals(number).name}.")

    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let nobody interrupt what puts things back."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
