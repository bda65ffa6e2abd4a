"""Move due rows to the broker, a bounded number per queue, and bring back what the broker lost."""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from tasks import limits
from tasks.broker import Broker, served_as, urgency
from tasks.models import Job, Queue
from tasks.pauses import claimable
from tasks.states import FINISHED, State

log = logging.getLogger(__name__)

CLEARLY_LATER_S = 5.0
MAX_DOUBLINGS = 8


def relay_batch(queue: str, now: datetime, *, depth: int | None = None) -> list[Job] | None:
    """Mark due waiting jobs as relayed, as many as there is room for, and return them to be published.

    Transition: waiting -> relayed.
    Shape: None when the queue has no room; an empty list when what is due has to wait for a limit of its kind.
    Units: depth counts messages in the broker, those of cancelled jobs and duplicates too; None when it is unknown.
    Locks: the queue's row, so that two relays keep one bound; the jobs, SKIP LOCKED; all released before publishing.
    """
    with transaction.atomic():
        Queue.objects.select_for_update().get(name=queue)
        relayed = Job.objects.filter(queue=queue, state=State.RELAYED).count()
        room = settings.JOBS_HIGH_WATER - max(relayed, depth or 0)
        if room <= 0:
            return None
        jobs = next_jobs(queue, now, room)
        Job.objects.relay([job.id for job in jobs], now)
    return jobs


def next_jobs(queue: str, now: datetime, room: int) -> list[Job]:
    """Return the next due jobs of a queue, those of limited kinds only as far as their limits leave room.

    Shape: each limited kind is looked for by itself, so that its backlog holds up no other kind.
    Locks: the jobs, SKIP LOCKED.
    """
    could_run = claimable(now).filter(queue=queue)
    due = could_run.select_for_update(skip_locked=True).only("id", "kind", "queue", "priority", "run", "run_at")
    limited = limits.limited_kinds(queue)
    jobs = list(due.exclude(kind__in=limited)[:room])
    if not could_run.filter(kind__in=limited).exists():
        return jobs
    rooms = limits.rooms(queue, now)
    for kind, left in rooms.items():
        jobs += due.filter(kind=kind)[: min(left, room)]
    jobs.sort(key=lambda job: (-job.priority, job.run_at, job.id))
    return list(limits.within_turns(jobs, rooms))[:room]


def publish_batch(broker: Broker, jobs: list[Job], relayed_at: datetime) -> int:
    """Send a wake-up for each job and return how many the broker took; the rest wait again.

    Transition: relayed -> waiting for those not sent.
    """
    for sent, job in enumerate(jobs):
        if not broker.publish(job):
            Job.objects.unrelay([unsent.id for unsent in jobs[sent:]], relayed_at, was_sent=False)
            return sent
    return len(jobs)


def return_lost(queue: str, broker: Broker, now: datetime) -> int:
    """Bring back jobs whose message the broker lost, and return how many.

    Transition: relayed -> waiting. A mistake is only a duplicate message, and the grace doubles each time.
    """
    grace_s = settings.JOBS_LOST_GRACE_S
    relayed = Job.objects.filter(queue=queue, state=State.RELAYED, relayed_at__lt=now - timedelta(seconds=grace_s))
    overdue = [
        job
        for job in relayed.only("id", "priority", "relayed_at", "relays", "run")
        if now - job.relayed_at > timedelta(seconds=grace_s * 2 ** min(job.relays - 1, MAX_DOUBLINGS))
    ]
    if not overdue:
        return 0
    depth = broker.depth(queue)
    if depth is None:
        return 0
    lost = [job for job in overdue if depth == 0 or was_overtaken(queue, job)]
    returned = sum(Job.objects.unrelay([job.id], job.relayed_at) for job in lost)
    if returned:
        log.warning("queue %s: %s jobs wait again, the broker has lost their messages", queue, returned)
    return returned


def was_overtaken(queue: str, job: Job) -> bool:
    """Tell whether a job relayed clearly later, in the same list of the broker, was started from its own message."""
    later = Job.objects.filter(
        served_as(urgency(job)),
        queue=queue,
        relayed_at__gt=job.relayed_at + timedelta(seconds=CLEARLY_LATER_S),
    )
    ended = Q(state__in=FINISHED, finished_at__gt=job.relayed_at, started_at__isnull=False)
    return later.filter(state=State.RUNNING).exists() or later.filter(ended).exists()
