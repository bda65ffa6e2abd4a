"""A paused queue or kind waits; everything else goes on."""

import pytest

from tasks.api import enqueue
from tasks.clock import database_now
from tasks.models import Job, Pause, Queue
from tasks.pauses import claimable, pause, resume
from tasks.relay import relay_batch
from tasks.states import State
from tests.rows import row

pytestmark = pytest.mark.django_db
OWNER = {"worker": "host:1:1", "child_pid": 2}


@pytest.fixture(autouse=True)
def queue():
    """Have the queues' rows, as a relay does."""
    for name in ("default", "mail"):
        Queue.objects.get_or_create(name=name)


def handed_over(queue: str = "default") -> list[int]:
    """Return the ids of what a relay hands over now."""
    return [job.id for job in relay_batch(queue, database_now())]


def test_paused_kind_is_not_handed_over_and_lets_others_pass():
    enqueue("test.noop", priority=9)
    other = enqueue("test.echo", value=1)

    pause(Pause.What.KIND, "test.noop", "user 1")

    assert handed_over() == [other.id]


def test_paused_queue_is_not_handed_over():
    enqueue("test.noop")
    mail = row(State.WAITING, kind="test.mail", queue="mail")

    pause(Pause.What.QUEUE, "default", "user 1")

    assert (handed_over(), handed_over("mail")) == ([], [mail.id])


@pytest.mark.parametrize("what", [(Pause.What.KIND, "test.noop"), (Pause.What.QUEUE, "default")])
def test_what_was_handed_over_already_waits_too(what):
    """Its message finds nothing to start."""
    job = row(State.RELAYED, kind="test.noop")

    pause(*what, "user 1")

    assert Job.objects.claim(job.id, 1, **OWNER) is None
    assert Job.objects.get(id=job.id).state == State.WAITING


@pytest.mark.parametrize("what", [(Pause.What.KIND, "test.noop"), (Pause.What.QUEUE, "default")])
def test_worker_that_is_at_it_takes_no_further_job(what):
    row(State.WAITING, kind="test.noop")

    pause(*what, "user 1")

    assert Job.objects.claim_next("test.noop", "default", **OWNER) is None


def test_running_job_of_a_paused_kind_goes_on():
    job = row(State.RUNNING, kind="test.noop")

    pause(Pause.What.KIND, "test.noop", "user 1")

    assert Job.objects.succeed(job) == 1


def test_resumed_jobs_are_handed_over():
    job = enqueue("test.noop")
    pause(Pause.What.KIND, "test.noop", "user 1")

    assert resume(Pause.What.KIND, "test.noop", "user 2")

    assert handed_over() == [job.id]


def test_paused_jobs_do_not_count_as_claimable():
    """So they do not age the number that is watched."""
    enqueue("test.noop")
    other = enqueue("test.echo", value=1)
    pause(Pause.What.KIND, "test.noop", "user 1")

    assert list(claimable(database_now()).values_list("id", flat=True)) == [other.id]


def test_pausing_twice_is_one_pause_and_keeps_who_was_first():
    pause(Pause.What.KIND, "test.noop", "user 1")

    assert pause(Pause.What.KIND, "test.noop", "user 2").by == "user 1"


def test_resuming_what_is_not_paused_says_so():
    assert resume(Pause.What.KIND, "test.noop", "user 1") is False
