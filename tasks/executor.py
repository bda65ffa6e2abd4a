"""Run jobs in a worker's child: claim the row, call the handler, finish the row."""

import logging
import os
import random
import secrets
import socket
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from billiard.common import terminate_handler_fired
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction

from tasks import backoff, registry, shutdown, soft_limit
from tasks.errors import RetryLater, Superseded, Unfit
from tasks.models import Job
from tasks.running_job import RunningJob
from tasks.scrub import scrub

log = logging.getLogger(__name__)

# New at each start of a worker's main process, inherited by its children.
WORKER = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"

# A message is a wake-up: Celery's own cost per message is paid once for many small jobs.
JOBS_PER_MESSAGE = 20
SECONDS_PER_MESSAGE = 1.0
LIMIT_SHARE = 60  # earlier jobs of a message use up at most this part of the last one's soft time limit
UNKNOWN_DELAYS_S = (5, 60)  # how soon a job is offered to another worker: first, and at most

DATABASE_AWAY = (OperationalError, InterfaceError)


class Ending(NamedTuple):
    """How a run ends: what to say, and the conditional UPDATE that returns 0 when somebody else was first."""

    words: str
    update: Callable[[], int]


def execute(job_id: int, run: int) -> None:
    """Run the job of a message, then further due jobs of its kind for a moment.

    Raises: nothing for a database that is away at the claim; the row comes back by the lost-message rule.
    """
    with soft_limit.held():
        started = time.monotonic()
        try:
            job, done = Job.objects.claim(job_id, run, **owner()), 0
            while job is not None:
                perform(job)
                done += 1
                if done == JOBS_PER_MESSAGE or time.monotonic() - started > wake_up_s(job.kind) or shutdown.has_begun():
                    return
                job = Job.objects.claim_next(job.kind, job.queue, **owner())
        except DATABASE_AWAY as error:
            log.warning("job %s: the database is away (%s); the job is tried again later", job_id, type(error).__name__)
            connection.close()


def owner() -> dict:
    """Return who claims: this worker, and this child of its pool."""
    return {"worker": WORKER, "child_pid": os.getpid()}


def wake_up_s(kind: str) -> float:
    """Return for how long one message may start further jobs. Units: seconds."""
    return min(SECONDS_PER_MESSAGE, soft_limit_s(kind) / LIMIT_SHARE)


def soft_limit_s(kind: str) -> float:
    """Return a kind's soft time limit, the worker's own for one this code does not know. Units: seconds."""
    known = registry.find(kind)
    return (known and known.soft_time_limit_s) or settings.CELERY_TASK_SOFT_TIME_LIMIT


def perform(job: Job) -> None:
    """Call the handler of a claimed job and write how it ended. Transition: running -> any but relayed."""
    running = RunningJob(job)
    log.info("job %s.%s %s started, attempt %s", job.id, job.run, job.kind, job.attempts)
    try:
        ending = call(running, job)
    except Unfit as unfit:
        ending = release_unknown(running, job, str(unfit))
    except RetryLater as later:
        ending = snooze(running, job, later)
    except Superseded:
        ending = Ending("was taken over; its effects were rolled back", lambda: 1)
    except BaseException as error:  # foreign code: MemoryError and SystemExit must not reach the pool either
        if terminate_handler_fired() or isinstance(error, KeyboardInterrupt):
            raise  # the pool is being stopped; the main process gives the row back
        ending = fail(running, job, error)
    ended = write(ending)
    log.info("job %s.%s %s %s after %.3f s", job.id, job.run, job.kind, ended, running.elapsed_s())


def call(running: RunningJob, job: Job) -> Ending:
    """Call the handler; for an atomic kind, finish the row in the same transaction.

    Raises: Unfit; whatever the handler raises; Superseded when an atomic job is no longer ours.
    """
    arguments = registry.fitted_arguments(job.kind, job.version, job.arguments)
    kind = registry.get(job.kind)
    given = [running] if kind.bind else []
    if not kind.atomic:
        with soft_limit.felt():
            kind.handler(*given, **arguments)
        return Ending("succeeded", lambda: Job.objects.succeed(job))
    with transaction.atomic():
        with soft_limit.felt():
            kind.handler(*given, **arguments)
        if not Job.objects.succeed(job):
            raise Superseded
    return Ending("succeeded", lambda: 1)


def release_unknown(running: RunningJob, job: Job, why: str) -> Ending:
    """Offer a job that this code cannot run to other workers, and bury it when none has known it for long."""
    now = running.now()
    since = job.unknown_since_at or now
    unknown_s = (now - since).total_seconds()
    if unknown_s >= settings.JOBS_UNKNOWN_GIVE_UP_S:
        entry = failure(running, job, f"No worker has known how to run it for {unknown_s:.0f} s. {why}")
        return Ending("is dead: no worker knows it", lambda: Job.objects.bury(job, entry))
    log.warning("job %s.%s is left to a worker with other code: %s", job.id, job.run, why)
    first_s, most_s = UNKNOWN_DELAYS_S
    run_at = now + timedelta(seconds=min(max(unknown_s, first_s), most_s))
    return Ending("released", lambda: Job.objects.release_unknown(job, run_at, since))


def snooze(running: RunningJob, job: Job, later: RetryLater) -> Ending:
    """Let a job come back when its handler asked to, unless it has asked for nothing else for too long."""
    now = running.now()
    since = job.snoozed_since_at or now
    snoozed_s, max_age_s = (now - since).total_seconds(), registry.get(job.kind).max_age_s
    if snoozed_s >= max_age_s:
        entry = failure(
            running, job, f"It has only asked to come back for {snoozed_s:.0f} s; {max_age_s:g} s is the limit."
        )
        return Ending("is dead: snoozed for too long", lambda: Job.objects.bury(job, entry))
    run_at = now + timedelta(seconds=max(0.0, later.seconds))
    return Ending(f"snoozes {later.seconds:g} s", lambda: Job.objects.snooze(job, run_at, since))


def fail(running: RunningJob, job: Job, error: BaseException) -> Ending:
    """Bury the job if trying again cannot help or its attempts are spent; otherwise wait for the next attempt."""
    kind = registry.get(job.kind)
    sentence = f"{type(error).__name__}: {error}"
    if isinstance(error, SoftTimeLimitExceeded):
        sentence = f"The soft time limit of {soft_limit_s(job.kind):g} s was exceeded."
    entry = failure(running, job, sentence, error)
    if kind.is_permanent(error):
        return Ending("is dead: a permanent error", lambda: Job.objects.bury(job, entry))
    if job.attempts >= job.max_attempts:
        return Ending("is dead: its attempts are spent", lambda: Job.objects.bury(job, entry))
    delay_s = backoff.next_delay_s(job.attempts, random.random, base_s=kind.backoff_base_s, cap_s=kind.backoff_cap_s)
    run_at = running.now() + timedelta(seconds=delay_s)
    return Ending(f"failed, again in {delay_s:.1f} s", lambda: Job.objects.retry(job, run_at, entry))


def failure(running: RunningJob, job: Job, sentence: str, error: BaseException | None = None) -> dict:
    """Return the history entry of a failed run, without addresses and secrets."""
    return {
        "at": running.now().isoformat(timespec="seconds"),
        "what": "failed",
        "run": job.run,
        "attempt": job.attempts,
        "worker": job.worker,
        "error": scrub(sentence, limit=500, is_start_kept=True),
        "traceback": scrub("".join(traceback.format_exception(error))) if error else "",
    }


def write(ending: Ending) -> str:
    """Write the end of a run, waiting for a database that is away; return what became of the job.

    Units: waits at most one hard time limit; the pool kills the child then at the latest.
    """
    deadline = time.monotonic() + settings.CELERY_TASK_TIME_LIMIT
    for delay_s in backoff.outage_delays_s():
        try:
            if connection.errors_occurred:  # in the handler: it may be lost
                connection.close_if_unusable_or_obsolete()
            return ending.words if ending.update() else "was ended by somebody else; this run changes nothing"
        except DATABASE_AWAY as error:
            if time.monotonic() > deadline:
                raise
            log.warning("the end of a run waits: the database is away (%s)", type(error).__name__)
            connection.close()
            time.sleep(delay_s)
    raise AssertionError("outage_delays_s does not end")
