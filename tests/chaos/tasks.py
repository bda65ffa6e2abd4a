"""The kinds of the run, one for each way a handler can end. What is asked of each stands in specs.py."""

import functools
import os
import signal
import time

from tasks.api import PermanentError, RateLimit, RetryLater, job
from tests.chaos import specs
from tests.chaos.marks import marked, work
from tests.testjobs.models import Effect

# Faults cost attempts too: what must succeed gets far more than a run can take from it.
PATIENT = {"max_attempts": 25, "soft_time_limit_s": 8, "time_limit_s": 10}
QUICKLY = {"backoff_base_s": 0.2, "backoff_cap_s": 1.0}


def chaos_job(kind: str, **options):
    """Register a handler that marks each of its runs."""

    def register(handler):
        @functools.wraps(handler)
        def with_marks(running, *args, **kwargs):
            with marked(running):
                handler(running, *args, **kwargs)

        return job(kind, bind=True, **(PATIENT | QUICKLY | options))(with_marks)

    return register


def leave_effect(running) -> None:
    """Write the row that is counted at the end."""
    Effect.objects.create(note=running.kind, value=running.id)


@chaos_job("chaos.quick")
def quick(running, number):
    """Do little."""
    leave_effect(running)


@chaos_job("chaos.mail", queue="mail", priority=7)
def mail(running, number):
    """Do little, in the other queue and more urgently."""
    work(running, 0.1)
    leave_effect(running)


@chaos_job("chaos.slow")
def slow(running, number, seconds):
    """Be there when something is killed."""
    work(running, seconds)
    leave_effect(running)


@chaos_job("chaos.steps")
def steps(running, number, count):
    """Keep a checkpoint after each step, and come back when the worker stops."""
    for step in range(running.checkpoint or 0, count):
        work(running, 0.4)
        running.save_checkpoint(step + 1)
        if running.should_stop():
            raise RetryLater(1)
    leave_effect(running)


@chaos_job("chaos.snooze")
def snooze(running, number):
    """Come back once."""
    if running.checkpoint is None:
        running.save_checkpoint("asked")
        raise RetryLater(1)
    leave_effect(running)


@chaos_job("chaos.flaky")
def flaky(running, number, failures):
    """Fail at first."""
    if running.attempt <= failures:
        raise RuntimeError("on purpose, at first")
    leave_effect(running)


@chaos_job("chaos.atomic", atomic=True)
def atomic(running, number, seconds):
    """Write, and be long enough for a kill between the write and the commit."""
    leave_effect(running)
    work(running, seconds)


@chaos_job("chaos.atomic_flaky", atomic=True)
def atomic_flaky(running, number, failures):
    """Write and fail at first: those writes must be gone."""
    leave_effect(running)
    if running.attempt <= failures:
        raise RuntimeError("on purpose, after the write")


@chaos_job("chaos.hopeless", max_attempts=3)
def hopeless(running, number):
    """Fail always."""
    raise RuntimeError("on purpose, always")


@chaos_job("chaos.hopeless_atomic", atomic=True, max_attempts=3)
def hopeless_atomic(running, number):
    """Write and fail always."""
    leave_effect(running)
    raise RuntimeError("on purpose, always")


@chaos_job("chaos.permanent")
def permanent(running, number):
    """Fail for good."""
    raise PermanentError("on purpose, for good")


@chaos_job("chaos.poison", max_attempts=2)
def poison(running, number):
    """Kill the process that runs it."""
    os.kill(os.getpid(), signal.SIGKILL)


@chaos_job("chaos.overlong", soft_time_limit_s=1, time_limit_s=8, max_attempts=2)
def overlong(running, number):
    """Take longer than the soft limit allows."""
    time.sleep(7)


@chaos_job("chaos.hog", soft_time_limit_s=1, time_limit_s=2, max_attempts=2)
def hog(running, number):
    """Swallow everything and go on: only the hard limit ends it. A cold shutdown may."""
    ends = time.monotonic() + 7
    while time.monotonic() < ends:
        try:
            work(running, 7)
        except Exception:
            continue


@chaos_job("chaos.limited", rate_limit=RateLimit("chaos", calls=specs.RATE_LIMITED["chaos.limited"]))
def limited(running, number):
    """Ask a provider that allows so many calls a second."""
    leave_effect(running)


@chaos_job("chaos.capped", max_running=specs.CAPPED["chaos.capped"])
def capped(running, number, seconds):
    """Need what few may have at once."""
    work(running, seconds)
    leave_effect(running)


@chaos_job("chaos.tick")
def tick(running):
    """Be fired by beat."""
    leave_effect(running)
