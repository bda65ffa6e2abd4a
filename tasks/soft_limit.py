"""Keep the soft time limit's signal away from the statements around a handler.

The pool sends SIGUSR1 when a message is too long in a child. It may come at any moment, also while the
row is being claimed or finished, and twice during a shutdown; only the handler is meant to feel it.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = {signal.SIGUSR1}


@contextmanager
def held() -> Iterator[None]:
    """Hold the signal back inside the block; what came meanwhile is dropped at its end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        while signal.sigtimedwait(SIGNALS, 0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def felt() -> Iterator[None]:
    """Let the signal through inside the block. Raises: SoftTimeLimitExceeded, in a pool's child."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
