"""Jobs beside each other: nobody waits for a slow one, starts too early, or is lost where processes come and go."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection, transaction

from tasks.api import draft, enqueue, enqueue_many
from tasks.models import Job
from tasks.states import State
from tests.kit import wait_until
from tests.testjobs.models import Effect

pytestmark = pytest.mark.rung("postgresql+redis")


def has_succeeded(*jobs: Job) -> bool:
    """Tell whether all of them have."""
    return Job.objects.filter(id__in=[job.id for job in jobs], state=State.SUCCEEDED).count() == len(jobs)


def assert_each_ran_once(jobs: list[Job]) -> None:
    """Compare the jobs with the effects of test.echo."""
    assert Effect.objects.filter(note="test.echo").count() == len(jobs)
    assert set(Job.objects.filter(id__in=[job.id for job in jobs]).values_list("run", "attempts")) == {(1, 1)}


def test_no_short_job_waits_behind_a_long_one(kit):
    """Two children: while one is busy for long, the other takes all the rest, without a pause."""
    kit.start("relay")
    kit.start("worker", concurrency=2)
    long = enqueue("test.long_nap", seconds=8)
    wait_until(lambda: Job.objects.filter(id=long.id, state=State.RUNNING).exists())

    short = enqueue_many(draft("test.sleep", seconds=0.1) for _ in range(30))

    wait_until(lambda: has_succeeded(*short), 20, "the short jobs have run")
    assert Job.objects.get(id=long.id).state == State.RUNNING
    starts = list(Job.objects.filter(kind="test.sleep").order_by("started_at").values_list("started_at", flat=True))
    waits = [later - earlier for earlier, later in pairwise([short[0].enqueued_at, *starts])]
    assert max(waits) < timedelta(seconds=2)


def test_job_starts_only_after_the_commit_that_wrote_it(kit):
    """The transaction stays open for as long as another job takes from end to end."""
    kit.start("relay")
    kit.start("worker")

    def run_another() -> None:
        try:
            another = enqueue("test.echo", value="meanwhile")
            wait_until(lambda: has_succeeded(another), 20, "another job has run")
        finally:
            connection.close()

    with transaction.atomic():
        Effect.objects.create(note="business data")
        job = enqueue("test.needs_effect", note="business data")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(run_another).result()

    wait_until(lambda: has_succeeded(job), 20)
    assert Job.objects.get(id=job.id).attempts == 1


def test_children_that_are_replaced_all_the_time_lose_nothing(kit):
    """After five messages each, with arguments as large as may be."""
    kit.start("relay")
    kit.start("worker", "--max-tasks-per-child=5")

    jobs = enqueue_many(draft("test.echo", value="x" * 60_000) for _ in range(300))

    wait_until(lambda: has_succeeded(*jobs), 60, "all have run")
    assert_each_ran_once(jobs)
    children = set(Job.objects.values_list("child_pid", flat=True))
    assert len(children) > 2


def test_relay_that_is_killed_again_and_again_loses_and_doubles_nothing(kit):
    """Wherever in its step the kill falls: what was marked comes back if it was not published, and runs once."""
    kit.extra_env = {"JOBS_LOST_GRACE_S": "1", "JOBS_HIGH_WATER": "10"}
    kit.start("worker")
    jobs = []

    for _ in range(6):
        jobs += enqueue_many(draft("test.echo", value=number) for number in range(50))
        first = Job.objects.filter(id=jobs[-50].id, run=1)
        relay = kit.start("relay")
        wait_until(first.exists, 20, "it relays")
        relay.kill()
    for _ in range(2):
        kit.start("relay")

    wait_until(lambda: has_succeeded(*jobs), 60, "all have run")
    assert_each_ran_once(jobs)
