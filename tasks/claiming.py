"""Claim jobs in a worker's child. A claim whose reply was lost must not leave a row running that nobody runs."""

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable

from django.conf import settings
from django.db import connection

from tasks import limits
from tasks.models import Job
from tasks.outage import DATABASE_AWAY, outlast

log = logging.getLogger(__name__)

# New at each start of a worker's main process, inherited by its children.
WORKER = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
SETTLE_S = 0.1  # a statement that the server has read ends even if its connection has not


def owner() -> dict:
    """Return who claims: this worker, and this child of its pool."""
    return {"worker": WORKER, "child_pid": os.getpid()}


def claim(kind: str, job_id: int, run: int) -> Job | None:
    """Take the job of a message, None as limits.claim.

    Shape: None too when the database went away meanwhile. Then, once it is back, the job waits again: the time limits
    of the message have been running, so nothing is begun under them.
    Raises: DATABASE_AWAY after a long wait.
    """
    try:
        return limits.claim(kind, job_id, run, **owner())
    except DATABASE_AWAY as error:
        undo(error, lambda: Job.objects.hand_back(job_id, run))


def claim_next(kind: str, queue: str) -> Job | None:
    """Take the next due job of a kind; otherwise as claim."""
    try:
        return limits.claim_next(kind, queue, **owner())
    except DATABASE_AWAY as error:
        undo(error, lambda: 0)


def undo(error: Exception, hand_back: Callable[[], int]) -> None:
    """Give back what a claim has taken, or was to take. A child runs one job at a time, and now it runs none.

    Transition: running or relayed -> waiting, without charge.
    Units: waits at most the worker's hard time limit; the pool kills the child at its kind's.
    """
    log.warning("a claim has no answer: the database is away (%s)", type(error).__name__)
    connection.close()
    time.sleep(SETTLE_S)

    def give_back() -> int:
        return hand_back() + Job.objects.unclaim(**owner())

    returned = outlast(give_back, "giving back an unanswered claim", limit_s=settings.CELERY_TASK_TIME_LIMIT)
    log.info("the database is back; jobs given back: %s", returned)
