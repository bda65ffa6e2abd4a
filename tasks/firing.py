"""One step of beat: fire what is due. All it knows is in rows, so any beat goes on where another was killed."""

import logging
from datetime import UTC, datetime, timedelta

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django_celery_beat.models import PeriodicTask

from tasks.enqueue import enqueue
from tasks.models import Job, ScheduleState
from tasks.schedules import (
    BrokenSchedule,
    check_schedule,
    fingerprint,
    is_single,
    job_of,
    nothing_ahead,
    schedules,
    slots_of,
)

log = logging.getLogger(__name__)

EDIT_SEEN_WITHIN = timedelta(seconds=10)
CLOCK_TOLERANCE = timedelta(seconds=60)


class Overtaken(Exception):
    """Roll back a firing whose schedule somebody has changed, deleted or fired meanwhile."""


def fire_due(now: datetime) -> datetime | None:
    """Fire each schedule that has a slot due, and return the earliest next slot of all.

    Raises: OperationalError, InterfaceError for a database that is away; nothing for a broken schedule.
    """
    ahead = [slot for row in schedules() if (slot := step(row, now))]
    return min(ahead, default=None)


def step(row: PeriodicTask, now: datetime) -> datetime | None:
    """Bring one schedule up to date and return its next slot; what breaks it is noted and stops nobody else's."""
    try:
        state = noted(row, now)
        return advance(row, state, now) if row.enabled else None
    except (OperationalError, InterfaceError):
        raise
    except BrokenSchedule as error:
        note(row, str(error))
    except Exception as error:  # one schedule among many
        if note(row, f"{type(error).__name__} while it was read or fired; the log of beat says more."):
            log.exception("schedule %r: its step failed", row.name)
    return None


def advance(row: PeriodicTask, state: ScheduleState, now: datetime) -> datetime | None:
    """Fire the latest slot that is due, if any, and return the next one.

    Raises: BrokenSchedule.
    """
    if problems := check_schedule(row):
        raise BrokenSchedule(" ".join(problems))
    slots = slots_of(row)
    anchor = state.anchor
    if slot := slots.latest(anchor, now):
        fire(row, state, slot, now)
        anchor = slot
        if is_single(row):
            return None
    note(row, nothing_ahead(slots, anchor))
    return slots.first_after(anchor)


def fire(row: PeriodicTask, state: ScheduleState, slot: datetime, now: datetime) -> Job | None:
    """Write the job of a slot and move the anchor, in one transaction; a slot that is too late only moves it.

    Transition: -> waiting.
    Locks: the rows of the schedule and of its state. A schedule that somebody is just saving waits for the next step.
    """
    try:
        with transaction.atomic():
            if not PeriodicTask.objects.select_for_update(skip_locked=True).filter(id=row.id, enabled=True).first():
                raise Overtaken
            mine = ScheduleState.objects.filter(schedule=row, anchor=state.anchor, fingerprint=state.fingerprint)
            if not mine.update(anchor=slot):
                raise Overtaken
            is_late = row.expire_seconds is not None and now - slot > timedelta(seconds=row.expire_seconds)
            job = None if is_late else enqueue(row.task, unique_key=key(row.name, slot), **job_of(row).arguments)
            count(row, slot, has_fired=job is not None and job.is_new)
    except Overtaken:
        return None
    log.info("schedule %r %s: %s", row.name, slot.isoformat(), f"job {job.id}" if job else "too late, left out")
    return job


def count(row: PeriodicTask, slot: datetime, *, has_fired: bool) -> None:
    """Count a run on the schedule's row, and switch a one-off off. No save(): it would overwrite a person's edit."""
    changes = {"last_run_at": slot, "total_run_count": F("total_run_count") + 1} if has_fired else {}
    PeriodicTask.objects.filter(id=row.id).update(**changes, enabled=not is_single(row))


def key(name: str, slot: datetime) -> str:
    """Return the unique key of a firing."""
    return f"{name} @ {slot.astimezone(UTC).isoformat()}"


def noted(row: PeriodicTask, now: datetime) -> ScheduleState:
    """Return the state of a schedule; write it when the schedule is new or was edited."""
    state, current = getattr(row, "beat_state", None), fingerprint(row)
    anchor = anchor_of(row, state, current, now)
    if state and (state.fingerprint, state.anchor) == (current, anchor):
        return state
    values = {"fingerprint": current, "anchor": anchor}
    return ScheduleState.objects.update_or_create(schedule_id=row.id, defaults=values)[0]


def anchor_of(row: PeriodicTask, state: ScheduleState | None, current: str, now: datetime) -> datetime:
    """Return after which slot a schedule goes on.

    A new one begins when it was made, an edited one when it was edited: neither fires backwards.
    Units: whole seconds where no slot has been handled, so that an interval's slots are easy to read.
    """
    if state is None:
        return min(row.last_run_at or row.date_changed, now).replace(microsecond=0)
    if state.fingerprint != current:
        is_just_saved = now - EDIT_SEEN_WITHIN <= row.date_changed <= now
        return (row.date_changed if is_just_saved else now).replace(microsecond=0)
    if state.anchor > now + CLOCK_TOLERANCE:
        log.warning("schedule %r: its last slot lies in the future; the clock was wrong, it goes on from now", row.name)
        return now.replace(microsecond=0)
    return state.anchor


def note(row: PeriodicTask, error: str) -> bool:
    """Keep what is wrong with a schedule, for people; log it and return True when it is new."""
    state = getattr(row, "beat_state", None)
    if error == (state.error if state else ""):
        return False
    ScheduleState.objects.filter(schedule=row).update(error=error)
    log.log(logging.WARNING if error else logging.INFO, "schedule %r: %s", row.name, error or "is in order again")
    return True
