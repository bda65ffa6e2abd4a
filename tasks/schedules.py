"""Read the schedules that people edit, and say in words what is wrong with one."""

import hashlib
import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.db.models import CharField, QuerySet
from django.db.models.functions import Cast
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from tasks import registry
from tasks.enqueue import draft
from tasks.errors import EnqueueError, UnknownKind
from tasks.models import Job
from tasks.slots import Clocked, Crontab, Interval, Slots

LONGEST_NAME = 160  # a job's unique key is `name @ slot`
SHORTEST_EXPIRY_S = 10  # a slot may be that late when another beat takes over
RULES = ("interval", "crontab", "clocked", "solar")
CRONTAB_FIELDS = ("minute", "hour", "day_of_month", "month_of_year")
SAID = {list: "a list", dict: "an object", str: "a text", bool: "true or false", type(None): "null"}
UNUSED = ("queue", "exchange", "routing_key", "priority", "headers")  # of a message; a row has none of them


class BrokenSchedule(ValueError):
    """A schedule that cannot fire, with the sentences that say why."""


def schedules() -> QuerySet:
    """Return all schedules with everything that a firing needs.

    Shape: `zone` is text, for a zone that this machine does not know would fail the whole query.
    """
    rows = PeriodicTask.objects.select_related("interval", "crontab", "clocked", "beat_state").order_by("id")
    return rows.defer("crontab__timezone").annotate(zone=Cast("crontab__timezone", CharField()))


def slots_of(row: PeriodicTask) -> Slots:
    """Return when a schedule fires.

    Raises: BrokenSchedule.
    """
    chosen = [name for name in RULES if getattr(row, f"{name}_id")]
    if len(chosen) != 1:
        raise BrokenSchedule(f"Choose exactly one of interval, crontab and clocked; it has {len(chosen)}.")
    if chosen == ["solar"]:
        raise BrokenSchedule("Solar schedules are not supported; use a crontab.")
    rule = {"interval": _interval, "crontab": _crontab, "clocked": _clocked}[chosen[0]](row)
    return Slots(rule, row.start_time, row.expires)


def is_single(row: PeriodicTask) -> bool:
    """Tell whether a schedule is switched off by its first firing."""
    return row.one_off or row.clocked_id is not None


def _clocked(row: PeriodicTask) -> Clocked:
    return Clocked(row.clocked.clocked_time)


def _interval(row: PeriodicTask) -> Interval:
    try:
        every = timedelta(**{row.interval.period: row.interval.every})
    except (TypeError, OverflowError):
        raise BrokenSchedule(f"Every {row.interval.every} {row.interval.period} is no interval.") from None
    if every < timedelta(seconds=1):
        raise BrokenSchedule(f"Its interval is {every.total_seconds():g} s; the shortest is one second.")
    return Interval(every, row.start_time)


def _crontab(row: PeriodicTask) -> Crontab:
    return crontab_slots(row.crontab, row.zone if hasattr(row, "zone") else str(row.crontab.timezone))


def crontab_slots(row: CrontabSchedule, zone: str) -> Crontab:
    """Return the slots of a crontab in a zone.

    Raises: BrokenSchedule.
    """
    return _parsed(tuple(getattr(row, field) for field in CRONTAB_FIELDS), row.day_of_week, zone)


@lru_cache(maxsize=1024)  # each step of beat reads each row; parsing took half of it
def _parsed(fields: tuple[str, ...], day_of_week: str, zone: str) -> Crontab:
    try:
        parsed = CrontabSchedule(
            **dict(zip(CRONTAB_FIELDS, fields, strict=True)),
            day_of_week=sunday_as_0(day_of_week),
            timezone=ZoneInfo(zone),
        ).schedule
    except (ZoneInfoNotFoundError, OSError):  # no such name, or one that leads out of the folder of zones
        raise BrokenSchedule(f"This machine knows no time zone {zone!r}; choose another.") from None
    except Exception as error:  # Celery's parser raises more than it has a common class for
        raise BrokenSchedule(f"Its crontab is impossible: {str(error).rstrip('.')}.") from None
    return Crontab(
        minutes=frozenset(parsed.minute),
        hours=frozenset(parsed.hour),
        days=frozenset(parsed.day_of_month),
        months=frozenset(parsed.month_of_year),
        weekdays=frozenset(parsed.day_of_week),
        is_every_hour=fields[CRONTAB_FIELDS.index("hour")].strip().startswith("*"),
        zone=parsed.tz,
    )


def sunday_as_0(days: str) -> str:
    """Return a day of week field as Celery reads it: cron and the form's help also call Sunday 7, Celery does not.

    Shape: 7 becomes 0, 5-7 becomes 5-6,0.
    """
    parts = [part.strip() for part in days.split(",")]
    parts = ["0" if part == "7" else re.sub(r"^([1-6])-7$", r"\1-6,0", part) for part in parts]
    return ",".join(parts)


def job_of(row: PeriodicTask) -> Job:
    """Return the job that a schedule fires, unsaved and without its key.

    Raises: BrokenSchedule.
    """
    args, kwargs = _read(row, "args", list), _read(row, "kwargs", dict)
    if reserved := registry.RESERVED & kwargs.keys():
        raise BrokenSchedule(
            f"The keyword arguments hold {', '.join(sorted(reserved))}, which enqueue keeps for itself."
        )
    try:
        return draft(row.task, *args, **kwargs)
    except UnknownKind as error:
        raise BrokenSchedule(f"{error} A schedule fires jobs only: what is declared with @job.") from None
    except EnqueueError as error:
        raise BrokenSchedule(str(error)) from None


def _read(row: PeriodicTask, field: str, shape: type):
    text, wanted = getattr(row, field), {list: "a list, e.g. [1]", dict: 'an object, e.g. {"user_id": 1}'}[shape]
    try:
        value = json.loads(text or repr(shape()))
    except (ValueError, RecursionError) as error:
        raise BrokenSchedule(f"The {field} are not JSON: {error}. They must be {wanted}.") from None
    if not isinstance(value, shape):
        raise BrokenSchedule(f"The {field} are {SAID.get(type(value), 'a number')}; they must be {wanted}.")
    return value


def check_schedule(row: PeriodicTask) -> list[str]:
    """Return in sentences what keeps a schedule from firing; none when it can."""
    found = []
    for read in (slots_of, job_of):
        try:
            read(row)
        except BrokenSchedule as error:
            found.append(str(error))
    if len(row.name) > LONGEST_NAME:
        found.append(f"Its name has {len(row.name)} characters; {LONGEST_NAME} is the limit.")
    if used := [field for field in UNUSED if getattr(row, field) not in (None, "", "{}")]:
        found.append(f"Leave {', '.join(used)} empty: the kind decides, and a job row has no message options.")
    if row.expire_seconds is not None and row.expire_seconds < SHORTEST_EXPIRY_S:
        found.append(f"It expires after {row.expire_seconds} s; a slot may be {SHORTEST_EXPIRY_S} s late.")
    return found


def nothing_ahead(slots: Slots, after: datetime) -> str:
    """Return why a schedule has no slot after a time, or an empty text when it has one."""
    if slots.first_after(after):
        return ""
    if isinstance(slots.rule, Clocked):
        return f"Its time, {slots.rule.at:%Y-%m-%d %H:%M:%S %Z}, has passed."
    if slots.ends_at and replace(slots, ends_at=None).first_after(after):
        return f"It has ended: it expires at {slots.ends_at:%Y-%m-%d %H:%M:%S %Z}, before its next slot."
    return "It has no slot within the next 8 years."


def fingerprint(row: PeriodicTask) -> str:
    """Return a hash of all that decides when a schedule fires."""
    parts = [row.enabled, row.one_off, row.start_time]
    parts += [row.interval and (row.interval.every, row.interval.period)]
    parts += [row.clocked and row.clocked.clocked_time]
    if row.crontab:
        parts += [row.zone, row.crontab.day_of_week, *(getattr(row.crontab, field) for field in CRONTAB_FIELDS)]
    if row.expires:
        parts += [row.expires]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()
