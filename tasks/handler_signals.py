"""Let signals into the handler, and keep them away from the statements around it.

The pool sends SIGUSR1 when a message is too long in a child, and SIGTERM to end it. Either may come at any moment,
also while the row is being claimed or finished, and twice during a shutdown. A mask would not do: with a second thread
in the process the signal arrives there, and Python still raises in the main thread.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from celery.exceptions import SoftTimeLimitExceeded

END_S = 10  # from a SIGTERM outside the handler to the end of the process, whatever a statement waits for


class SoftLimit(SoftTimeLimitExceeded, SystemExit):
    """What a handler feels. An Exception as in Celery; a SystemExit, so that psycopg cancels what the server is at."""


_is_felt = False
_is_ending = False
_end = None  # the pool's own handler of SIGTERM


@contextmanager
def held() -> Iterator[None]:
    """Hold signals back inside the block.

    A soft limit outside `felt` is dropped, the hard limit still holds. A SIGTERM acts at the next `felt` or at the end.
    """
    global _is_ending, _end
    _is_ending = False
    limit, _end = signal.signal(signal.SIGUSR1, _on_limit), signal.signal(signal.SIGTERM, _on_term)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, _end)
        signal.signal(signal.SIGUSR1, limit)  # last: a limit just then raises
        if _is_ending:
            _end_process(None)


@contextmanager
def felt() -> Iterator[None]:
    """Let signals through inside the block. Raises: SoftTimeLimitExceeded; SystemExit as the pool means it."""
    global _is_felt
    try:
        _is_felt = True
        if _is_ending:
            _end_process(None)
        yield
    finally:
        _is_felt = False


def is_ending() -> bool:
    """Tell whether a SIGTERM is being held back: do what is at hand, and nothing more."""
    return _is_ending


def _on_limit(number, frame) -> None:
    if _is_felt:
        raise SoftLimit


def _on_term(number, frame) -> None:
    global _is_ending
    if not _is_ending:  # it may come again and again
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends the process in the midst of any call
        signal.alarm(END_S)
    _is_ending = True
    if _is_felt:
        _end_process(frame)


def _end_process(frame) -> None:
    """Do what the pool does at a SIGTERM: raise SystemExit. A second one must not disturb giving the job back."""
    global _is_ending
    _is_ending = False
    try:
        _end(signal.SIGTERM, frame)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
