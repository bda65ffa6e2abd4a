"""Tell a person in words how a job stands. Pure: `now` is a parameter."""

from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from tasks.models import Job
from tasks.states import FINISHED, State

COUNTED = 10_000  # rows; beyond that "more than" is all a person needs, and all that is cheap


def span(duration: timedelta) -> str:
    """Return a duration in its largest unit, rounded down: 12 s, 3 min, 5 h, 4 d."""
    seconds = max(0, int(duration.total_seconds()))
    for unit_s, unit in ((2 * 86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{seconds // (86_400 if unit == 'd' else unit_s)} {unit}"
    return f"{seconds} s"


def moment(at: datetime, now: datetime) -> str:
    """Return a time to the second and how far it is: 2026-11-29 16:02:03 UTC (3 min ago)."""
    distance = f"in {span(at - now)}" if at > now else f"{span(now - at)} ago"
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M:%S %Z} ({distance})"


def jobs(number: int) -> str:
    """Return a number of jobs, as far as it was counted: 1 job, 3 jobs, more than 10,000 jobs."""
    if number > COUNTED:
        return f"more than {COUNTED:,} jobs"
    return f"{number:,} job{'' if number == 1 else 's'}"


def bounded_count(rows: QuerySet) -> int:
    """Return how many rows there are, without looking at more than COUNTED and one."""
    return rows.order_by().values("id")[: COUNTED + 1].count()


def standing(job: Job, now: datetime) -> str:
    """Return since when a job is in its state, or when it is due; read it after the state."""
    if job.state in FINISHED:
        return f"{span(now - job.finished_at)} ago"
    if job.state == State.RUNNING:
        asked = ", asked to stop" if job.cancel_requested_at else ""
        return f"for {span(now - job.started_at)}{asked}"
    if job.state == State.RELAYED:
        return f"for {span(now - job.relayed_at)}"
    if job.run_at > now:
        return f"due in {span(job.run_at - now)}"
    return f"due for {span(now - job.run_at)}"


def last_failure(job: Job) -> dict | None:
    """Return the newest failed run in the history; entries without `by` are no person's decision."""
    return next((entry for entry in reversed(job.history) if entry.get("error")), None)


def last_error(job: Job, limit: int = 120) -> str:
    """Return the first line of the newest error, shortened. Units: limit counts characters."""
    failure = last_failure(job)
    lines = failure["error"].strip().splitlines() if failure else []
    line = lines[0] if lines else ""
    return line if len(line) <= limit else line[: limit - 3] + "..."


def advice(job: Job) -> str:
    """Return what happens next to a job, and what a person can do about it."""
    spent = f"{job.attempts} of {job.max_attempts} attempts"
    if job.state == State.DEAD:
        return f"Stopped after {spent}. Retry it when the cause is gone, or discard it."
    if job.state == State.RUNNING and job.cancel_requested_at:
        return "Somebody asked it to stop: it is not tried again when this run ends."
    if job.state in FINISHED or not job.attempts:
        return ""
    if job.state == State.RUNNING:
        return f"This is attempt {job.attempts} of {job.max_attempts}."
    return f"It has spent {spent} and is tried again by itself."


def timeline(job: Job) -> list[dict]:
    """Return the history for reading, newest first: each entry with its time as a datetime."""
    return [read(entry) for entry in reversed(job.history)]


def read(entry: dict) -> dict:
    """Return a history entry with its time as a datetime."""
    return {**entry, "at": datetime.fromisoformat(entry["at"])}
