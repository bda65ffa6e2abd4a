"""Delete old finished rows, run by beat: a table that only grows is an outage with a date."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q

from tasks.models import Job
from tasks.states import State

BATCH = 1_000


def prune_batch(limit: int, now: datetime) -> int:
    """Delete finished jobs that are older than their state is kept; return how many.

    Units: limit counts rows. Succeeded and cancelled jobs are kept JOBS_KEEP_SUCCEEDED_S, dead and discarded
    ones JOBS_KEEP_DEAD_S, and every job at least until its keep_until.
    """
    done = now - timedelta(seconds=settings.JOBS_KEEP_SUCCEEDED_S)
    dead = now - timedelta(seconds=settings.JOBS_KEEP_DEAD_S)
    old = Job.objects.filter(
        Q(state__in=[State.SUCCEEDED, State.CANCELLED], finished_at__lt=done)
        | Q(state__in=[State.DEAD, State.DISCARDED], finished_at__lt=dead)
    ).filter(Q(keep_until__isnull=True) | Q(keep_until__lt=now))
    ids = list(old.values_list("id", flat=True)[:limit])
    # The whole condition again: a person may have retried one meanwhile.
    return old.filter(id__in=ids).delete()[0] if ids else 0
