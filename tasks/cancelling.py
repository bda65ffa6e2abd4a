"""Ask the one child that runs a job to stop it. The ask names the job: the child may have gone on to another."""

import mmap
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager

# Shared with every child, recycled ones too: which jobs are meant by the signal. Of two asks one after the other, the
# second must not overwrite the first before that child has read it.
SLOTS, SLOT_BYTES = 512, 8
_asked = mmap.mmap(-1, SLOTS * SLOT_BYTES)
_current: int | None = None


class CancelRequested(SystemExit):
    """Raised inside a handler whose job somebody cancels. No Exception: one that goes on after errors stops too.

    A SystemExit, so that psycopg cancels a statement that the server is at; after others it would let it run on.
    """


def ask(pid: int, job_id: int) -> None:
    """Interrupt the handler of a job in a child of this process."""
    _asked[_slot(job_id)] = struct.pack("q", job_id)
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
    if _current is not None and struct.unpack("q", _asked[_slot(_current)])[0] == _current:
        raise CancelRequested


def _slot(job_id: int) -> slice:
    start = job_id % SLOTS * SLOT_BYTES
    return slice(start, start + SLOT_BYTES)
