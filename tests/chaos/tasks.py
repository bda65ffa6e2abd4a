"""The kinds of the run, and for each: how often it comes, and which end is its own."""

import functools
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tasks.api import PermanentError, RetryLater, job
from tasks.states import State
from tests.chaos.marks import marked, work
from tests.testjobs.models import Effect

# Faults cost attempts too: what must succeed gets far more than a run can take from it.
PATIENT = {"max_attempts": 25, "soft_time_limit_s": 8, "time_limit_s": 10}
QUICKLY = {"backoff_base_s": 0.2, "backoff_cap_s": 1.0}
ONCE, SOME, NONE = "exactly one effect", "an effect or more", "no effect"

# Kinds declared with a rate limit: how many starts a second. Add the kind below and to SPECS; checks.py does the rest.
RATE_LIMITED: dict[str, int] = {}


@dataclass(frozen=True)
class Spec:
    """What the run asks of a kind. Shape: reason is how the error of its own end begins, for dead ones."""

    weight: int
    end: State = State.SUCCEEDED
    reason: str = ""
    effects: str = NONE
    own_errors: tuple[str, ...] = ()
    arguments: Callable[[Random], dict] = lambda random: {}


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


@chaos_job("chaos.tick")
def tick(running):
    """Be fired by beat."""
    leave_effect(running)


def failures(random: Random) -> dict:
    """Return how often a flaky job fails."""
    return {"failures": random.randint(1, 3)}


def seconds(low: float, high: float) -> Callable[[Random], dict]:
    """Return what draws a duration."""
    return lambda random: {"seconds": round(random.uniform(low, high), 2)}


ON_PURPOSE = ("RuntimeError: on purpose",)
SPECS = {
    "chaos.quick": Spec(30, effects=SOME),
    "chaos.mail": Spec(15, effects=SOME),
    "chaos.slow": Spec(12, effects=SOME, arguments=seconds(0.5, 3)),
    "chaos.steps": Spec(5, effects=SOME, arguments=lambda random: {"count": random.randint(2, 6)}),
    "chaos.snooze": Spec(4, effects=SOME),
    "chaos.flaky": Spec(8, effects=SOME, own_errors=ON_PURPOSE, arguments=failures),
    "chaos.atomic": Spec(12, effects=ONCE, arguments=seconds(0, 0.6)),
    "chaos.atomic_flaky": Spec(6, effects=ONCE, own_errors=ON_PURPOSE, arguments=failures),
    "chaos.hopeless": Spec(4, State.DEAD, "RuntimeError: on purpose", own_errors=ON_PURPOSE),
    "chaos.hopeless_atomic": Spec(2, State.DEAD, "RuntimeError: on purpose", own_errors=ON_PURPOSE),
    "chaos.permanent": Spec(3, State.DEAD, "PermanentError: on purpose", own_errors=("PermanentError: on purpose",)),
    "chaos.poison": Spec(2, State.DEAD, "Its process was lost"),
    "chaos.overlong": Spec(1, State.DEAD, "The soft time limit of 1 s"),
    "chaos.hog": Spec(1, State.DEAD, "The hard time limit of 2 s"),
    "chaos.tick": Spec(0, effects=SOME),  # beat enqueues it
}
