"""The turns of a rate limit: the moments at which one job each may start. Pure.

Turns are evenly spaced, a little wider than the rate itself asks for: a job starts up to LATE_S after its turn, and
still no window of `per_s` seconds may see more than `calls` starts.
Source: docs/decisions/0007-rate-limits-and-caps.md
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

LATE_S = 0.05  # a start that would come later after its turn takes a new turn
CATCH_UP = timedelta(seconds=0.03)  # a turn that passed so little ago may still be taken; below LATE_S
SPREAD_S = 0.08  # by so much `calls` turns are wider than `per_s`; above LATE_S


@dataclass(frozen=True)
class RateLimit:
    """At most so many starts in any window of so many seconds, over all workers and all kinds that share the name.

    Units: per_s in seconds.
    Raises: ValueError for what is no rate.
    """

    name: str
    calls: int
    per_s: float = 1.0

    def __post_init__(self):
        if not (isinstance(self.name, str) and 0 < len(self.name) <= 100):
            raise ValueError(f"A rate limit's name is 1 to 100 characters long, not {self.name!r}.")
        if type(self.calls) is not int or self.calls < 1:
            raise ValueError(f"Rate limit {self.name}: calls is {self.calls!r}; give it a whole number above 0.")
        if type(self.per_s) not in (int, float) or not (math.isfinite(self.per_s) and self.per_s > 0):
            raise ValueError(f"Rate limit {self.name}: per_s is {self.per_s!r}; give it a number of seconds above 0.")

    @property
    def spacing(self) -> timedelta:
        """Return the time from one turn to the next."""
        return timedelta(seconds=(self.per_s + SPREAD_S) / self.calls)

    def turn(self, free_at: datetime | None, now: datetime) -> datetime:
        """Return the next turn; turns that nobody took in time are gone, so there is no burst."""
        return max(free_at or now, now - CATCH_UP)

    def turns_until(self, end: datetime, free_at: datetime | None, now: datetime) -> int:
        """Return how many turns there are from now up to a moment."""
        return max(0, (end - self.turn(free_at, now)) // self.spacing + 1)
