"""What calling a task means: a person and a handler call the handler, a worker runs the job."""

import pytest
from celery.app.trace import build_tracer

from tasks.api import enqueue
from tasks.clock import database_now
from tasks.models import Job
from tasks.states import State
from tests.testjobs.models import Effect
from tests.testjobs.tasks import countdown, echo

pytestmark = pytest.mark.django_db(transaction=True)  # a run ends on a connection that may be renewed


def run_as_a_worker_does(job: Job) -> Job:
    """Hand the job over and run its message through Celery's own tracer."""
    Job.objects.filter(id=job.id).update(state=State.RELAYED, relayed_at=database_now())
    trace = build_tracer(job.kind, task := countdown.app.tasks[job.kind], app=task.app)

    outcome = trace(f"{job.id}.1", [job.id, 1], {}, {"id": f"{job.id}.1"})

    assert outcome.info is None
    return Job.objects.get(id=job.id)


def test_handler_that_calls_its_own_task_runs_the_handler_again():
    """Walking a tree, say; in the same run, without a row of its own."""
    job = run_as_a_worker_does(enqueue("test.countdown", number=3))

    assert job.state == State.SUCCEEDED
    assert sorted(Effect.objects.values_list("value", flat=True)) == ["1", "2", "3"]
    assert Job.objects.count() == 1


def test_worker_runs_the_next_message_after_such_a_handler():
    """What the first run has pushed is gone."""
    run_as_a_worker_does(enqueue("test.countdown", number=1))

    run_as_a_worker_does(enqueue("test.countdown", number=1))

    assert Job.objects.filter(state=State.SUCCEEDED).count() == 2


def test_called_task_is_its_handler():
    """In a shell or a test."""
    echo("here")

    assert Effect.objects.get().value == "here"
    assert not Job.objects.exists()
