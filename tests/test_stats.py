"""The number that is watched: how long the oldest job that could run has been due."""

from datetime import timedelta

import pytest

from tasks.clock import database_now
from tasks.models import Pause
from tasks.pauses import pause, resume
from tasks.states import State
from tasks.stats import queue_stats
from tests.rows import row
from tests.test_jobs_command import jobs

pytestmark = pytest.mark.django_db


def stats(queue: str = "default"):
    """Return one queue's numbers now."""
    return next(found for found in queue_stats(database_now()) if found.queue == queue)


def due(minutes: float, **fields):
    """Write a job that has been due for so long."""
    return row(State.WAITING, run_at=database_now() - timedelta(minutes=minutes), **fields)


def test_oldest_due_job_is_the_age():
    due(3)
    due(10)
    due(60, queue="mail")

    assert 600 <= stats().oldest_s < 630
    assert stats("mail").oldest_s >= 3600


def test_what_could_not_run_ages_nothing():
    """Delayed, paused, cancelled, running and dead jobs wait for something else than a worker."""
    due(-10)
    due(90, kind="test.noop")
    for state in (State.CANCELLED, State.RUNNING, State.DEAD, State.RELAYED):
        row(state)
    pause(Pause.What.KIND, "test.noop", "user 1")

    assert stats().oldest_s is None
    resume(Pause.What.KIND, "test.noop", "user 1")
    assert stats().oldest_s > 5000


def test_jobs_are_counted_by_where_they_stand():
    for state in (State.WAITING, State.RELAYED, State.RUNNING, State.RUNNING, State.DEAD, State.SUCCEEDED):
        row(state)
    due(-10)

    assert stats()[2:] == (1, 1, 1, 2, 1)


def test_command_prints_a_line_for_each_queue_and_each_pause():
    due(3)
    pause(Pause.What.QUEUE, "mail", "user 1")

    title, *queues, paused = jobs("stats").splitlines()
    default, mail = queues[:2]

    assert title.split() == ["oldest", "waiting", "delayed", "relayed", "running", "dead", "queue"]
    assert default.split() == ["3", "min", "1", "0", "0", "0", "0", "default"]
    assert mail.split() == ["-", "0", "0", "0", "0", "0", "mail"]
    assert paused.startswith("paused: queue mail, since ")
