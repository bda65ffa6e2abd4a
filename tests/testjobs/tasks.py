"""The test kinds, one for each way a handler can end."""

import ctypes
import os
import resource
import signal
import time

from django.db import connection

from tasks.api import PermanentError, RateLimit, RetryLater, job
from tests.testjobs.models import Effect

QUICKLY = {"backoff_base_s": 0.1, "backoff_cap_s": 0.3}
SHORT = {"soft_time_limit_s": 10, "time_limit_s": 20}  # on SQLite nobody else writes while an atomic job runs


@job("test.echo", **QUICKLY)
def echo(value):
    """Write the value."""
    Effect.objects.create(note="test.echo", value=value)


@job("test.echo_default", **QUICKLY)
def echo_default(value="default"):
    """Write the value; needs no arguments, so that a typed line can enqueue it."""
    Effect.objects.create(note="test.echo_default", value=value)


@job("test.sleep", **QUICKLY)
def sleep(seconds):
    """Take a while, then write."""
    time.sleep(seconds)
    Effect.objects.create(note="test.sleep", value=seconds)


@job("test.fail", **QUICKLY)
def fail(message="on purpose"):
    """Fail in a way that trying again may cure."""
    raise RuntimeError(message)


@job("test.permanent", **QUICKLY)
def permanent(message="on purpose"):
    """Fail in a way that trying again cannot cure."""
    raise PermanentError(message)


@job("test.snooze", **QUICKLY)
def snooze(seconds):
    """Write once, and come back later until a second effect is there."""
    Effect.objects.create(note="test.snooze", value=seconds)
    if Effect.objects.filter(note="test.snooze").count() < 2:
        raise RetryLater(seconds)


@job("test.atomic", atomic=True, **SHORT, **QUICKLY)
def atomic(value):
    """Write in the same transaction that finishes the job."""
    Effect.objects.create(note="test.atomic", value=value)


@job("test.atomic_fail", atomic=True, **SHORT, **QUICKLY)
def atomic_fail(value):
    """Write, then fail: nothing may be left."""
    Effect.objects.create(note="test.atomic_fail", value=value)
    raise RuntimeError("on purpose, after the write")


@job("test.countdown", **QUICKLY)
def countdown(number):
    """Write each number down to one, by calling itself as a person would."""
    Effect.objects.create(note="test.countdown", value=number)
    if number > 1:
        countdown(number - 1)


@job("test.soft_limit", soft_time_limit_s=1, time_limit_s=30, **QUICKLY, max_attempts=2)
def soft_limit():
    """Take far longer than the soft limit allows."""
    time.sleep(20)


@job("test.nap", **QUICKLY)
def nap(seconds=2):
    """Take long enough to be seen running."""
    time.sleep(seconds)


@job("test.long_nap", **QUICKLY)
def long_nap(seconds=60):
    """Take longer than any stop waits."""
    time.sleep(seconds)


@job("test.limited_nap", soft_time_limit_s=1.9, time_limit_s=2, **QUICKLY)
def limited_nap(seconds):
    """Take nearly as long as the limits allow."""
    time.sleep(seconds)


@job("test.leave_behind", **QUICKLY)
def leave_behind(seconds):
    """Leave a process behind that was forked and goes on, and write its pid."""
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    Effect.objects.create(note="test.leave_behind", value=pid)
    time.sleep(seconds)


@job("test.die", **QUICKLY)
def die(how):
    """End the process that runs this, in one of the ways a process ends."""
    Effect.objects.create(note="test.die", value=how)
    {
        "sigkill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "segfault": lambda: ctypes.string_at(0),
        "exit": lambda: os._exit(7),
    }[how]()


@job("test.eat", **QUICKLY, max_attempts=1)
def eat():
    """Ask for more memory than the process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**30, hard))
    try:
        bytearray(2**31)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@job("test.hog", time_limit_s=2, soft_time_limit_s=1, max_attempts=2, **QUICKLY)
def hog():
    """Swallow every exception and go on: only the hard limit ends it."""
    while True:
        try:
            time.sleep(60)
        except Exception:
            Effect.objects.create(note="test.hog")


@job("test.needs_effect", **QUICKLY)
def needs_effect(note):
    """Read what was written in the transaction that enqueued this."""
    Effect.objects.get(note=note)


@job("test.noop")
def noop():
    """Do nothing, so that only the way through is measured."""


if not os.environ.get("TESTJOBS_OLD_CODE"):  # what a release adds; a worker with this variable set lacks it

    @job("test.new", **QUICKLY)
    def new():
        """Write that the new code has run."""
        Effect.objects.create(note="test.new")


@job("test.stubborn", **QUICKLY)
def stubborn():
    """Go on whatever is raised: only the end of its process stops it."""
    for _ in range(60):
        try:
            time.sleep(1)
        except BaseException:
            Effect.objects.create(note="test.stubborn")


@job("test.steps", bind=True, **QUICKLY)
def steps(running, count):
    """Do a step a second, and go on where the last run was told to stop."""
    for step in range(running.checkpoint or 0, count):
        Effect.objects.create(note="test.steps", value=step)
        running.save_checkpoint(step + 1)
        running.report_progress(100 * (step + 1) // count)
        time.sleep(1)
        if running.should_stop():
            raise RetryLater(1)


@job("test.rated", rate_limit=RateLimit("test", 10), **QUICKLY)
def rated():
    """Write when it started."""
    started = time.time()
    Effect.objects.create(note="test.rated", value=started)


@job("test.rated_too", rate_limit=RateLimit("test", 10), **QUICKLY)
def rated_too():
    """Share the limit of another kind."""
    started = time.time()
    Effect.objects.create(note="test.rated", value=started)


@job("test.capped", max_running=2, **QUICKLY)
def capped(seconds=0.3):
    """Write when it started and when it ended."""
    started = time.time()
    time.sleep(seconds)
    Effect.objects.create(note="test.capped", value=f"{started} {time.time()}")


@job("test.query", soft_time_limit_s=2, time_limit_s=30, max_attempts=1, **QUICKLY)
def query(seconds):
    """Let the database take its time."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(%s)", [seconds])
