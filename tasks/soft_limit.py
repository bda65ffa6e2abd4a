"""Keep the soft time limit away from the statements around a handler.

The pool sends SIGUSR1 when a message is too long in a child. It may come at any moment, also while the row is being
claimed or finished, and twice during a shutdown; only the handler is meant to feel it. A mask would not do: with a
second thread in the process the signal arrives there, and Python still raises in the main thread.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from celery.exceptions import SoftTimeLimitExceeded

_is_felt = False


@contextmanager
def held() -> Iterator[None]:
    """Hold the limit back inside the block; one that comes outside `felt` is dropped: the hard limit still holds."""
    before = signal.signal(signal.SIGUSR1, _on_limit)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def felt() -> Iterator[None]:
    """Let the limit through inside the block. Raises: SoftTimeLimitExceeded."""
    global _is_felt
    _is_felt = True
    try:
        yield
    finally:
        _is_felt = False


def _on_limit(number, frame) -> None:
    if _is_felt:
        raise SoftTimeLimitExceeded
