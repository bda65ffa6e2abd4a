"""Delays and long jobs: they wait in the table, so neither the broker's timeout nor a worker's memory decides."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models import F, Max

from tasks.api import draft, enqueue, enqueue_many
from tasks.clock import database_now
from tasks.models import Job
from tasks.registry import broker_queue
from tasks.states import State
from tests.kit import Process, wait_until
from tests.testjobs.models import Effect

pytestmark = pytest.mark.rung("postgresql+redis")

VISIBILITY_S = 2
MEBIBYTE = 1024 * 1024


def later(seconds: float):
    """Return a time from now."""
    return database_now() + timedelta(seconds=seconds)


def memory_bytes(worker: Process) -> int:
    """Return the resident memory of a worker's main process and its children."""
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in (worker.pid, *children)]
    return sum(pages) * 4096


def test_neither_delay_nor_length_beyond_the_visibility_timeout_makes_a_second_run(kit):
    """Redis hands the long job's message out again and again; stock runs each copy, on every worker."""
    kit.extra_env = {"TESTS_VISIBILITY_TIMEOUT_S": str(VISIBILITY_S)}
    kit.start("relay")
    for _ in range(2):
        kit.start("worker", "--loglevel=DEBUG")
    delayed = enqueue("test.echo", value="delayed", run_at=later(3 * VISIBILITY_S))

    long = enqueue("test.sleep", seconds=5 * VISIBILITY_S)

    wait_until(lambda: not Job.objects.exclude(state=State.SUCCEEDED).exists(), 40, "both succeed")
    with kit.redis.client() as redis:
        wait_until(lambda: not redis.exists("unacked"), 10, "all copies are acknowledged")
    assert sorted(Effect.objects.values_list("note", flat=True)) == ["test.echo", "test.sleep"]
    assert set(Job.objects.values_list("run", "attempts")) == {(1, 1)}
    delayed.refresh_from_db()
    assert timedelta() <= delayed.started_at - delayed.run_at < timedelta(seconds=2)
    long.refresh_from_db()
    assert long.finished_at - long.started_at > timedelta(seconds=5 * VISIBILITY_S)


def test_reminder_of_tomorrow_survives_the_restart_of_everything_and_an_emptied_broker(kit):
    """It runs once, when its time has come."""
    first = [kit.start("relay"), kit.start("worker")]
    reminder = enqueue("test.echo", value="tomorrow", run_at=later(24 * 3600))
    cancelled = enqueue("test.echo", value="cancelled", run_at=later(24 * 3600))
    for process in first:
        process.stop()
    kit.redis.flush()
    Job.objects.cancel(cancelled.id, "user 1", database_now())

    kit.start("relay")
    kit.start("worker")
    Job.objects.filter(state=State.WAITING).update(run_at=database_now())

    wait_until(lambda: Job.objects.filter(id=reminder.id, state=State.SUCCEEDED).exists(), 20)
    assert list(Effect.objects.values_list("value", flat=True)) == ["tomorrow"]


def test_twenty_thousand_delayed_jobs_cost_a_worker_no_memory_and_hold_up_none_that_is_due(kit):
    """They are rows; stock keeps each in the memory of whichever worker has taken its message."""
    enqueue_many(draft("test.noop", run_at=later(3600)) for _ in range(20_000))
    kit.start("relay")
    worker = kit.start("worker")
    warm_up = enqueue("test.noop")
    wait_until(lambda: Job.objects.filter(id=warm_up.id, state=State.SUCCEEDED).exists(), 20)
    before = memory_bytes(worker)

    due = enqueue_many(draft("test.echo", value=number, run_at=later(number / 10)) for number in range(50))

    soon = Job.objects.filter(id__in=[job.id for job in due])
    wait_until(lambda: not soon.exclude(state=State.SUCCEEDED).exists(), 30, "what is due has run")
    assert soon.aggregate(worst=Max(F("started_at") - F("run_at")))["worst"] < timedelta(seconds=5)
    assert memory_bytes(worker) - before < 20 * MEBIBYTE
    assert Job.objects.filter(state=State.WAITING).count() == 20_000
    with kit.redis.client() as redis:
        assert redis.keys(broker_queue("default") + "*") == []
