"""prune: which finished jobs are deleted when, in batches, and never one that lives again."""

from datetime import timedelta

import pytest
from django.db import connection

from tasks import prune as pruning
from tasks import tasks as own
from tasks.clock import database_now
from tasks.models import Job
from tasks.prune import prune_batch
from tasks.states import LIVE, State
from tests.rows import consistent, row

pytestmark = pytest.mark.django_db

KEEP_SUCCEEDED_S, KEEP_DEAD_S = 1_000, 5_000


@pytest.fixture(autouse=True)
def ages(settings):
    """Keep for known times."""
    settings.JOBS_KEEP_SUCCEEDED_S = KEEP_SUCCEEDED_S
    settings.JOBS_KEEP_DEAD_S = KEEP_DEAD_S


def ago(seconds: float):
    """Return a time in the past."""
    return database_now() - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("state", "kept_s"),
    [
        (State.SUCCEEDED, KEEP_SUCCEEDED_S),
        (State.CANCELLED, KEEP_SUCCEEDED_S),
        (State.DEAD, KEEP_DEAD_S),
        (State.DISCARDED, KEEP_DEAD_S),
    ],
)
def test_finished_job_is_deleted_at_the_age_of_its_state(state, kept_s):
    """Neither sooner nor never."""
    young, _ = row(state, finished_at=ago(kept_s - 60)), row(state, finished_at=ago(kept_s + 60))

    deleted = prune_batch(10, database_now())

    assert (deleted, list(Job.objects.values_list("id", flat=True))) == (1, [young.id])


@pytest.mark.parametrize("state", LIVE)
def test_job_that_has_not_finished_is_kept_however_old(state):
    """A backlog is no litter."""
    row(state, enqueued_at=ago(10**8), run_at=ago(10**8))

    assert prune_batch(10, database_now()) == 0


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.DEAD])
def test_job_is_kept_until_the_time_it_asked_for(state):
    """keep_until lengthens, and does not shorten."""
    kept = row(state, finished_at=ago(KEEP_DEAD_S + 60), keep_until=ago(-60))
    row(state, finished_at=ago(KEEP_DEAD_S + 60), keep_until=ago(60))
    young = row(state, finished_at=ago(60), keep_until=ago(30))

    prune_batch(10, database_now())

    assert set(Job.objects.values_list("id", flat=True)) == {kept.id, young.id}


def test_batch_deletes_no_more_than_its_limit():
    """So that no statement holds many rows for long."""
    for _ in range(5):
        row(State.SUCCEEDED, finished_at=ago(KEEP_SUCCEEDED_S + 60))

    deleted = [prune_batch(2, database_now()) for _ in range(4)]

    assert deleted == [2, 2, 1, 0]


def test_job_that_a_person_retries_meanwhile_is_kept():
    """Between the look and the delete it became alive again."""
    dead = row(State.DEAD, finished_at=ago(KEEP_DEAD_S + 60))
    row(State.DEAD, finished_at=ago(KEEP_DEAD_S + 60))
    retried = []

    def retry_before_delete(execute, sql, params, many, context):
        if sql.startswith("DELETE") and not retried:
            retried.append(dead.id)
            Job.objects.retry_by_hand(dead.id, "user 1", database_now())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(retry_before_delete):
        deleted = prune_batch(10, database_now())

    assert (deleted, Job.objects.get().id, Job.objects.get().state) == (1, dead.id, State.WAITING)


def test_one_firing_deletes_many_batches():
    """The handler goes on until a batch is not full."""
    old = {"finished_at": ago(KEEP_SUCCEEDED_S + 60)}
    count = 2 * pruning.BATCH + 1
    Job.objects.bulk_create([Job(**consistent(State.SUCCEEDED, **old)) for _ in range(count)], batch_size=1_000)
    kept = row(State.SUCCEEDED)

    own.prune()

    assert Job.objects.get().id == kept.id


def test_one_firing_ends_after_so_many_batches(monkeypatch):
    """What is left is left to the next one."""
    monkeypatch.setattr(own, "MAX_BATCHES", 2)
    monkeypatch.setattr(own, "BATCH", 1)
    for _ in range(3):
        row(State.SUCCEEDED, finished_at=ago(KEEP_SUCCEEDED_S + 60))

    own.prune()

    assert Job.objects.count() == 1
