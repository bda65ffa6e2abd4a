"""How are we doing: the age of the oldest job that could run, and how many stand where."""

from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db.models import Count, Min, Q

from tasks.models import Job
from tasks.pauses import claimable
from tasks.states import State

SHOWN = (State.RELAYED, State.RUNNING, State.DEAD)


class QueueStats(NamedTuple):
    """One queue's numbers.

    Units: oldest_s is how long the oldest job that could run has been due, None when there is none; counts in jobs.
    Shape: waiting are due, delayed are not yet; paused ones are in neither.
    """

    queue: str
    oldest_s: float | None
    waiting: int
    delayed: int
    relayed: int
    running: int
    dead: int


def queue_stats(now: datetime) -> list[QueueStats]:
    """Return the numbers of every queue. Delayed, snoozed and paused jobs age nothing."""
    due = claimable(now).order_by().values("queue").annotate(oldest=Min("run_at"), count=Count("id"))
    waiting = {row["queue"]: row for row in due}
    delayed = counts(Q(state=State.WAITING, run_at__gt=now))
    standing = [counts(Q(state=state)) for state in SHOWN]
    found = []
    for queue in settings.JOBS_QUEUES:
        row = waiting.get(queue, {"oldest": None, "count": 0})
        oldest_s = (now - row["oldest"]).total_seconds() if row["oldest"] else None
        numbers = [counted.get(queue, 0) for counted in (delayed, *standing)]
        found.append(QueueStats(queue, oldest_s, row["count"], *numbers))
    return found


def counts(which: Q) -> dict[str, int]:
    """Return how many such jobs each queue has."""
    return dict(Job.objects.filter(which).order_by().values_list("queue").annotate(count=Count("id")))
