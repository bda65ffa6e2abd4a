"""Wait for a database that is away."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

from tasks import backoff, handler_signals

log = logging.getLogger(__name__)

T = TypeVar("T")
DATABASE_AWAY = (OperationalError, InterfaceError)


def outlast(step: Callable[[], T], what: str, *, limit_s: float) -> T:
    """Return what the step returns, trying again while the database is away.

    Shape: what is said to wait in the log.
    Raises: DATABASE_AWAY once the limit has passed, or when the pool ends this process.
    """
    deadline = time.monotonic() + limit_s
    for delay_s in backoff.outage_delays_s():
        try:
            return step()
        except DATABASE_AWAY as error:
            if time.monotonic() > deadline or handler_signals.is_ending():
                raise
            log.warning("%s waits: the database is away (%s)", what, type(error).__name__)
            connection.close()
            time.sleep(delay_s)
    raise AssertionError("outage_delays_s does not end")
