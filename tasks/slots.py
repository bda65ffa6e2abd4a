"""The slots of a schedule: the times at which it fires. Pure, so a year can be counted in a second.

A schedule is read anew at each step and keeps no plan in memory. `after` is its anchor: the last slot handled.
Source: docs/decisions/0006-beat.md
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

INSTANT = timedelta(microseconds=1)
DAY = timedelta(days=1)
HORIZON = 8 * 366 * DAY  # two leap days are at most 8 years apart


@dataclass(frozen=True)
class Crontab:
    """Wall clock times of a zone. Day of month and day of week must both match, as in Celery.

    Shape: numbers as in cron, Sunday is 0. `is_every_hour` when the hour field begins with `*`.
    Where the clock jumps ahead, a missing time fires as much later; with every hour it is left out.
    Where the clock goes back, a repeated time fires once, the first time; with every hour it fires both times.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_every_hour: bool
    zone: ZoneInfo

    def first_after(self, after: datetime) -> datetime | None:
        """Return the first slot after a time, or None when there is none for 8 years."""
        day = after.astimezone(self.zone).date() - DAY
        end = day + HORIZON
        while day <= end:
            if self._within(after, None, day):
                return min(self._within(after, None, day, day + DAY))
            day += DAY
        return None

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last slot after one time and not after another, or None."""
        day, end = until.astimezone(self.zone).date() + DAY, after.astimezone(self.zone).date() - DAY
        while day >= end:
            if self._within(after, until, day):
                return max(self._within(after, until, day, day - DAY))
            day -= DAY
        return None

    def _within(self, after: datetime, until: datetime | None, *days: date) -> list[datetime]:
        # Two days at once where the order matters: a clock that is changed around midnight mixes their slots.
        found = []
        for slots in (slots_of_day(self, day) for day in days):
            end = None if until is None else bisect_right(slots, until)
            found += slots[bisect_right(slots, after) : end]
        return found


@dataclass(frozen=True)
class Interval:
    """Elapsed time from one slot to the next, counted from `start` where there is one, else from the last slot."""

    every: timedelta
    start: datetime | None = None

    def first_after(self, after: datetime) -> datetime:
        """Return the first slot after a time."""
        start = self.start or after
        return start + max(0, (after - start) // self.every + 1) * self.every

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last slot after one time and not after another, or None."""
        start = self.start or after
        slot = start + (until - start) // self.every * self.every
        return slot if after < slot and start <= slot else None


@dataclass(frozen=True)
class Clocked:
    """One moment."""

    at: datetime

    def first_after(self, after: datetime) -> datetime | None:
        """Return the moment if it lies ahead."""
        return self.at if after < self.at else None

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Return the moment if it lies after one time and not after another."""
        return self.at if after < self.at <= until else None


@dataclass(frozen=True)
class Slots:
    """All slots of one schedule: those of its rule from its start to its end, both included."""

    rule: Crontab | Interval | Clocked
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    def first_after(self, after: datetime) -> datetime | None:
        """Return the first slot after a time, or None."""
        return first_of(self, after)

    def latest(self, after: datetime, now: datetime) -> datetime | None:
        """Return the last slot that is due, or None: however many were missed, one is caught up."""
        first = first_of(self, after)
        if first is None or first > now:
            return None
        return self.rule.latest(self._from(after), min(now, self.ends_at or now))

    def _from(self, after: datetime) -> datetime:
        return max(after, self.starts_at - INSTANT) if self.starts_at else after


@lru_cache(maxsize=4096)  # asked for each schedule at each step; the answer changes with the anchor only
def first_of(slots: Slots, after: datetime) -> datetime | None:
    """Return the first slot after a time, or None, also where the calendar ends before it."""
    try:
        slot = slots.rule.first_after(slots._from(after))
    except OverflowError:
        return None
    return None if slot is None or (slots.ends_at and slot > slots.ends_at) else slot


@lru_cache(maxsize=4096)
def slots_of_day(crontab: Crontab, day: date) -> tuple[datetime, ...]:
    """Return the slots of one local day, in UTC and in order."""
    if not (day.month in crontab.months and day.day in crontab.days and day.isoweekday() % 7 in crontab.weekdays):
        return ()
    walls = (
        datetime(day.year, day.month, day.day, hour, minute, tzinfo=crontab.zone)
        for hour in crontab.hours
        for minute in crontab.minutes
    )
    return tuple(sorted({slot for wall in walls for slot in instants(wall, both=crontab.is_every_hour)}))


def instants(wall: datetime, *, both: bool) -> list[datetime]:
    """Return when a wall clock time happens, in UTC: once; in a gap later or not; repeated once or twice."""
    first, second = wall.replace(fold=0), wall.replace(fold=1)
    is_missing, is_repeated = first.utcoffset() < second.utcoffset(), first.utcoffset() > second.utcoffset()
    if is_missing and both:
        return []
    return [moment.astimezone(UTC) for moment in ([first, second] if is_repeated and both else [first])]
