"""Signals to a worker's main process do what Celery documents, and cost no job anything.

SIGTERM: warm; a further SIGTERM changes nothing. SIGINT: warm, but with exit code 1; a second one: cold, with 0.
"""

import signal

import pytest
from django.db.models import Max

from tasks.api import draft, enqueue, enqueue_many
from tasks.clock import database_now
from tasks.models import Job
from tasks.states import State
from tests.kit import Process, wait_until

pytestmark = pytest.mark.rung("sqlite+filesystem", "postgresql+redis")


def running(kind: str, **arguments) -> Job:
    """Enqueue a job and return it once it runs."""
    rows = Job.objects.filter(id=enqueue(kind, **arguments).id, state=State.RUNNING)
    return wait_until(rows.first, 30, f"{kind} runs")


def send(worker: Process, first: int, *more: int) -> None:
    """Send signals, the further ones after the first was handled."""
    worker.popen.send_signal(first)
    worker.wait_for_line("shutdown (MainProcess)")
    for number in more:
        worker.popen.send_signal(number)


@pytest.mark.parametrize(
    ("numbers", "exit_code"), [([signal.SIGINT], 1), ([signal.SIGTERM, signal.SIGTERM], 0)], ids=["int", "term-term"]
)
def test_warm_signals_let_the_job_finish(kit, numbers, exit_code):
    """An impatient service manager that repeats SIGTERM cuts nothing off."""
    kit.start("relay")
    worker = kit.start("worker", concurrency=1)
    job = running("test.nap", seconds=3)

    send(worker, *numbers)

    assert worker.wait(20) == exit_code
    job.refresh_from_db()
    assert (job.state, job.run, job.attempts, job.interruptions) == (State.SUCCEEDED, 1, 1, 0)


def test_second_sigint_gives_the_job_back_without_charge(kit):
    """Ctrl-C twice."""
    kit.start("relay")
    worker = kit.start("worker", concurrency=1)
    job = running("test.long_nap")

    send(worker, signal.SIGINT, signal.SIGINT)

    assert worker.wait(20) == 0
    job.refresh_from_db()
    assert (job.state, job.attempts, job.interruptions) in [(State.WAITING, 0, 1), (State.RELAYED, 0, 1)]


def test_nothing_new_is_begun_1_s_after_sigterm(kit):
    """Neither from messages that the worker has, nor straight from the table."""
    kit.start("relay")
    worker = kit.start("worker")
    enqueue_many(draft("test.sleep", seconds=0.02) for _ in range(2_000))
    wait_until(lambda: Job.objects.filter(state=State.SUCCEEDED).count() > 20, 30)
    running("test.nap", seconds=4, priority=9)

    told_at = database_now()
    worker.terminate()

    assert worker.wait(30) == 0
    ran = Job.objects.aggregate(last=Max("started_at"))["last"]
    assert (ran - told_at).total_seconds() < 1
    assert Job.objects.filter(state=State.WAITING).exists()
    assert not Job.objects.filter(state=State.RUNNING).exists()
