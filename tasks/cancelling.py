"""Ask the one child that runs a job to stop it. The ask names the job: the child may have gone on to another."""

import mmap
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager

# Shared with every child, recycled ones too: which job is meant by the signal.
_asked = mmap.mmap(-1, 8)
_current: int | None = None


class CancelRequested(BaseException):
    """Raised inside a handler whose job somebody cancels. No Exception: one that goes on after errors stops too."""


def ask(pid: int, job_id: int) -> None:
    """Interrupt the handler of a job in a child of this process."""
    _asked[:] = struct.pack("q", job_id)
    os.kill(pid, signal.SIGUSR2)


def listen() -> None:
    """Take the signal in this process from now on; a pool's child would end by it.

    Called for every message: without an event loop the pool sets its own handlers after worker_process_init.
    """
    signal.signal(signal.SIGUSR2, _on_ask)


@contextmanager
def possible(job_id: int) -> Iterator[None]:
    """Let the handler of this job be interrupted inside the block. Raises: CancelRequested."""
    global _current
    _current = job_id
    try:
        yield
    finally:
        _current = None


def _on_ask(number, frame) -> None:
    if _current is not None and struct.unpack("q", _asked[:])[0] == _current:
        raise CancelRequested
