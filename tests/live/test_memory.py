"""A job that asks for too much memory costs an attempt, not the worker."""

import pytest

from tasks.api import enqueue
from tasks.models import Job
from tasks.states import State
from tests.kit import wait_until

pytestmark = pytest.mark.rung("sqlite+filesystem", "postgresql+redis")


def ended(*jobs: Job) -> list[Job]:
    """Return the jobs once they have ended."""
    rows = Job.objects.filter(id__in=[job.id for job in jobs], finished_at__isnull=False).order_by("id")
    wait_until(lambda: rows.count() == len(jobs), 30, f"{len(jobs)} jobs end")
    return list(rows)


def test_memory_error_is_an_ordinary_failure_that_says_so(kit):
    """Celery alone would end its main process, and run the job again at the next start, for ever."""
    kit.start("relay")
    worker = kit.start("worker", concurrency=1)

    (greedy,) = ended(enqueue("test.eat"))

    assert (greedy.state, greedy.history[0]["error"]) == (State.DEAD, "MemoryError")
    (after,) = ended(enqueue("test.echo", value="after"))
    assert (after.state, after.child_pid) == (State.SUCCEEDED, greedy.child_pid)
    assert worker.is_running


@pytest.mark.rung("postgresql+redis")  # on filesystem:// children are not replaced
def test_child_above_its_memory_limit_is_replaced_between_jobs(kit):
    """--max-memory-per-child is looked at after a task: nothing is cut off, nothing is charged."""
    kit.start("relay")
    worker = kit.start("worker", "--max-memory-per-child=1000", concurrency=1)  # KiB; every child is above it

    first, second = ended(enqueue("test.echo", value=1))[0], ended(enqueue("test.echo", value=2))[0]

    assert first.child_pid != second.child_pid
    assert [(job.state, job.run, job.history) for job in (first, second)] == [(State.SUCCEEDED, 1, [])] * 2
    assert "ERROR" not in worker.output
