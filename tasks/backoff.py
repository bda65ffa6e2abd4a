"""When to try again. Pure functions: randomness is a parameter."""

from collections.abc import Callable, Iterator

BASE_S = 10.0
CAP_S = 3600.0
FACTOR = 4


def next_delay_s(
    attempt: int,
    random: Callable[[], float],
    *,
    base_s: float = BASE_S,
    cap_s: float = CAP_S,
) -> float:
    """Return the wait before the next attempt: exponential, jittered by a quarter either way, capped.

    Shape: attempts 1, 2, 3, 4 of the defaults wait about 10, 40, 160, 640 s.
    Units: attempt counts from 1; random returns [0, 1); seconds.
    """
    jitter = 0.75 + random() / 2
    return min(cap_s, base_s * FACTOR ** min(attempt - 1, 20) * jitter)


def outage_delays_s(cap_s: float = 5.0) -> Iterator[float]:
    """Yield the waits between looks at a server that is away: 0.1, 0.2, 0.4 ... capped, without end.

    Units: seconds.
    """
    delay_s = 0.1
    while True:
        yield min(delay_s, cap_s)
        delay_s = min(delay_s * 2, cap_s)
