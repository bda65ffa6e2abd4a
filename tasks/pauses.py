"""Pause a queue or a kind: its jobs wait, nothing of it is handed over or started. What runs goes on."""

import logging
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from tasks.enqueue import wake_relay
from tasks.models import Job, Pause, Queue
from tasks.states import State

log = logging.getLogger(__name__)


def pause(what: str, name: str, by: str) -> Pause:
    """Pause a queue or a kind and return the pause, or the one that is there.

    Transition: relayed -> waiting for its jobs; their messages find nothing to start.
    Shape: what is one of Pause.What.
    Locks: the queues' rows, so that no relay is handing over meanwhile.
    """
    with transaction.atomic():
        list(Queue.objects.select_for_update().order_by("name"))
        made, is_new = Pause.objects.get_or_create(what=what, name=name, defaults={"by": by})
        Job.objects.filter(**{what: name}, state=State.RELAYED).update(state=State.WAITING, relayed_at=None, relays=0)
    if is_new:
        log.info("%s %s is paused by %s", what, name, by)
    return made


def resume(what: str, name: str, by: str) -> bool:
    """End a pause and tell whether there was one."""
    with transaction.atomic():
        deleted, _ = Pause.objects.filter(what=what, name=name).delete()
        if deleted:
            wake_relay()
    if deleted:
        log.info("%s %s is resumed by %s", what, name, by)
    return bool(deleted)


def claimable(now: datetime) -> QuerySet:
    """Return the jobs that could run now: due, and neither their kind nor their queue is paused."""
    return Job.objects.due(now).exclude(
        Exists(Pause.objects.filter(what=Pause.What.KIND, name=OuterRef("kind")))
        | Exists(Pause.objects.filter(what=Pause.What.QUEUE, name=OuterRef("queue")))
    )
