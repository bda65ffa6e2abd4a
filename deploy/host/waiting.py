"""Wait for a condition, never for ever."""

import time
from collections.abc import Callable

from .errors import KitError

LOOK_S = 0.2


def wait_until(condition: Callable[[], object], limit_s: float, sentence: str) -> None:
    """Wait until the condition is true. Raises: KitError with the sentence when it stays false."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise KitError(f"{sentence} within {limit_s:g} s.")
        time.sleep(LOOK_S)
