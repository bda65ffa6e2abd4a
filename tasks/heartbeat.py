"""A worker's sign of life: for people, and to know whether another worker can run what this one cannot.

Who is dead is decided by locks, not by heartbeats.
"""

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from time import monotonic

from django.db import Error as DatabaseError
from django.db import connection

from tasks import locks, registry
from tasks.clock import database_now
from tasks.models import Job, WorkerHeartbeat

log = logging.getLogger(__name__)

EVERY_S = 10.0
KEPT = timedelta(days=1)
SEEN_LATELY = timedelta(seconds=30)  # as good as a lock that its worker is just taking again
LOOKED_AT = 100  # workers, the last seen first
SQLITE_WAIT_MS = 100  # the guardian has children to look after


class Heartbeat:
    """Writes one worker's row now and then."""

    def __init__(self, who: str, queues: Callable[[], list[str]]):
        self._who, self._queues = who, queues
        self._due_at = 0.0

    def beat(self) -> None:
        """Write the row when it is due. Raises: nothing; the next one is written, and the worker's work goes on."""
        if monotonic() < self._due_at:
            return
        self._due_at = monotonic() + EVERY_S
        try:
            with little_waiting():
                self._write(database_now())
        except DatabaseError as error:
            log.warning("the heartbeat was not written (%s); the next one follows", type(error).__name__)

    def _write(self, now: datetime) -> None:
        values = {
            "seen_at": now,
            "queues": self._queues(),
            "kinds": {kind.name: known(kind) for kind in registry.kinds()},
        }
        if not WorkerHeartbeat.objects.filter(who=self._who).update(**values):
            WorkerHeartbeat.objects.create(who=self._who, started_at=now, **values)
        WorkerHeartbeat.objects.filter(seen_at__lt=now - KEPT).delete()


@contextmanager
def little_waiting() -> Iterator[None]:
    """Let no statement in the block wait long for SQLite's one writer."""
    if connection.vendor != "sqlite":
        yield
        return
    with connection.cursor() as cursor:
        usual_ms = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
        cursor.execute(f"PRAGMA busy_timeout = {SQLITE_WAIT_MS}")
        try:
            yield
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {usual_ms}")


def known(kind: registry.Kind) -> dict:
    """Return what of a job's row this code can run.

    Shape: accepted is None where the handler takes any name.
    """
    parameters = kind.signature.parameters.values()
    named = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    return {
        "version": kind.version,
        "upgrades": kind.upgrade is not None,
        "required": sorted(parameter.name for parameter in named if parameter.default is inspect.Parameter.empty),
        "accepted": sorted(parameter.name for parameter in named) if len(named) == len(parameters) else None,
    }


def is_known_elsewhere(job: Job, now: datetime) -> bool:
    """Tell whether a live worker with other code takes the job's queue and can run it; ours cannot.

    Shape: job.worker is this worker.
    """
    ours = registry.find(job.kind)
    ours = ours and known(ours)
    others = WorkerHeartbeat.objects.filter(kinds__has_key=job.kind).exclude(who=job.worker).order_by("-seen_at")
    able = [
        other
        for other in others[:LOOKED_AT]
        if registry.broker_queue(job.queue) in other.queues and can_run(other.kinds[job.kind], job, ours)
    ]
    held = locks.held({locks.of_worker(other.who) for other in able}) if able else set()
    return any(other.seen_at > now - SEEN_LATELY or locks.of_worker(other.who) in held for other in able)


def can_run(theirs: dict, job: Job, ours: dict | None) -> bool:
    """Tell whether the code that knows this much can run the job, which ours has refused."""
    if theirs == ours:
        return False
    if job.version != theirs["version"]:
        return theirs["upgrades"] and job.version < theirs["version"]
    names = set(job.arguments)
    return names >= set(theirs["required"]) and (theirs["accepted"] is None or names <= set(theirs["accepted"]))
