"""How a run that did not succeed ends: what is decided, and the conditional UPDATE that writes it."""

import logging
import random
import traceback
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings

from tasks import backoff, heartbeat, registry
from tasks.errors import RetryLater
from tasks.models import Job
from tasks.scrub import scrub

UNKNOWN_DELAYS_S = (5, 60)  # how soon a job is offered to another worker: first, and at most
CRASH_BASE_S = 1.0  # a process that died says little about the job: the next attempt comes soon

FREE_INTERRUPTIONS = 5
SHORTEST_SNOOZE_S = 1.0  # a provider that says "at once" must not make a job spin


class Ending(NamedTuple):
    """How a run ends: what to say, and the conditional UPDATE that returns 0 when somebody else was first."""

    words: str
    update: Callable[[], int]
    level: int = logging.INFO


def dead(job: Job, entry: dict, why: str) -> Ending:
    """Stop trying, and say so where somebody may see it."""
    return Ending(f"is dead: {why}: {entry['error']}", lambda: Job.objects.bury(job, entry), logging.WARNING)


def unknown(job: Job, why: str, now: datetime) -> Ending:
    """Offer a job that this code cannot run to other workers, and bury it when none has known it for long.

    Shape: while a live worker knows it, the time begins anew with each refusal.
    """
    since = job.unknown_since_at or now
    unknown_s = (now - since).total_seconds()
    if heartbeat.is_known_elsewhere(job, now):
        since = now
    elif unknown_s >= settings.JOBS_UNKNOWN_GIVE_UP_S:
        entry = failure(job, f"No worker has known how to run it for {unknown_s:.0f} s. {why}", now)
        return dead(job, entry, "no worker knows it")
    first_s, most_s = UNKNOWN_DELAYS_S
    run_at = now + timedelta(seconds=min(max(2 * unknown_s, first_s), most_s))
    words = f"is left to a worker with other code: {why}"
    return Ending(words, lambda: Job.objects.release_unknown(job, run_at, since), logging.WARNING)


def snoozed(job: Job, later: RetryLater, now: datetime) -> Ending:
    """Let a job come back when its handler asked to, unless it has asked for nothing else for too long."""
    since = job.snoozed_since_at or now
    snoozed_s, max_age_s = (now - since).total_seconds(), registry.get(job.kind).max_age_s
    if snoozed_s >= max_age_s:
        sentence = f"It has only asked to come back for {snoozed_s:.0f} s; {max_age_s:g} s is the limit."
        entry = failure(job, sentence, now)
        return dead(job, entry, "snoozed for too long")
    seconds = min(max(SHORTEST_SNOOZE_S, later.seconds), max_age_s - snoozed_s)
    run_at = now + timedelta(seconds=seconds)
    return Ending(f"snoozes {seconds:g} s", lambda: Job.objects.snooze(job, run_at, since))


def failed(job: Job, error: BaseException, now: datetime) -> Ending:
    """Bury the job if trying again cannot help or its attempts are spent; otherwise wait for the next attempt."""
    kind = registry.get(job.kind)
    sentence = f"{type(error).__name__}: {text_of(error)}".removesuffix(": ")
    if isinstance(error, SoftTimeLimitExceeded):
        sentence = f"The soft time limit of {soft_limit_s(job.kind):g} s was exceeded."
    entry = failure(job, sentence, now, error)
    if kind.is_permanent(error):
        return dead(job, entry, "a permanent error")
    return _again(job, entry, now, base_s=kind.backoff_base_s, cap_s=kind.backoff_cap_s)


def crashed(job: Job, sentence: str, now: datetime, *, had_its_time: bool = False) -> Ending:
    """End a run whose process is gone: it costs an attempt, so a job that kills every process ends dead.

    The first time it keeps its place in the queue, or it would wait for long; not when it was at its hard limit.
    """
    entry = failure(job, sentence, now)
    if job.attempts == 1 < job.max_attempts and not had_its_time:
        return Ending(f"failed, again at once: {entry['error']}", lambda: Job.objects.retry(job, job.run_at, entry))
    return _again(job, entry, now, base_s=CRASH_BASE_S, cap_s=backoff.CAP_S)


def cancelled(job: Job, now: datetime) -> Ending:
    """End a run that somebody asked to stop; the row's cancel_requested_at decides where it goes."""
    entry = failure(job, "It was cancelled while it ran.", now)
    return Ending("was cancelled", lambda: Job.objects.retry(job, now, entry))


def interrupted(job: Job, now: datetime) -> Ending:
    """Give a job that a shutdown cut off its place in the queue back: no attempt spent, a bounded number of times."""
    if job.interruptions >= FREE_INTERRUPTIONS:
        return crashed(job, f"Its worker was stopped while it ran, for the {job.interruptions + 1}th time.", now)
    return Ending("was interrupted by a shutdown", lambda: Job.objects.interrupt(job, job.run_at))


def _again(job: Job, entry: dict, now: datetime, *, base_s: float, cap_s: float) -> Ending:
    if job.attempts >= job.max_attempts:
        return dead(job, entry, "its attempts are spent")
    delay_s = backoff.next_delay_s(job.attempts, random.random, base_s=base_s, cap_s=cap_s)
    run_at = now + timedelta(seconds=delay_s)
    words = f"failed, again in {delay_s:.1f} s: {entry['error']}"
    return Ending(words, lambda: Job.objects.retry(job, run_at, entry))


def text_of(error: BaseException) -> str:
    """Return an error's text, also of one that cannot tell it."""
    try:
        return str(error)
    except Exception:  # foreign code
        return "its text could not be read"


def failure(job: Job, sentence: str, now: datetime, error: BaseException | None = None) -> dict:
    """Return the history entry of a failed run, without addresses and secrets."""
    return {
        "at": now.isoformat(timespec="seconds"),
        "what": "failed",
        "run": job.run,
        "attempt": job.attempts,
        "worker": job.worker,
        "error": scrub(sentence, limit=500, is_start_kept=True),
        "traceback": scrub("".join(traceback.format_exception(error))) if error else "",
    }


def soft_limit_s(kind: str) -> float:
    """Return a kind's soft time limit, the worker's own for one this code does not know. Units: seconds."""
    known = registry.find(kind)
    return (known and known.soft_time_limit_s) or settings.CELERY_TASK_SOFT_TIME_LIMIT


def hard_limit_s(kind: str) -> float:
    """Return a kind's hard time limit, the worker's own for one this code does not know. Units: seconds."""
    known = registry.find(kind)
    return (known and known.time_limit_s) or settings.CELERY_TASK_TIME_LIMIT
