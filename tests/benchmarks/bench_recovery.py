"""How long the job of a worker that was killed waits for its next run, also behind a backlog. Run by `make bench`."""

import os
import signal
import time
from datetime import timedelta
from statistics import median

import pytest

from tasks.api import draft, enqueue, enqueue_many
from tasks.clock import database_now
from tasks.models import Job
from tasks.states import State
from tests.kit import wait_until

KILLS = 4

pytestmark = pytest.mark.timeout(900)


def wait_for(job: Job, timeout: float = 120, **fields) -> Job:
    """Return the job once it has these values."""
    return wait_until(lambda: Job.objects.filter(id=job.id, **fields).first(), timeout, f"{fields}")


@pytest.mark.parametrize("backlog", [0, 5_000])
def test_recovery(kit, capsys, backlog):
    """Print the seconds from kill -9 to the second start; another worker is there, a fresh one is started at once."""
    kit.start("relay")
    workers = {worker.pid: worker for worker in (kit.start("worker"), kit.start("worker"))}
    waits = []
    for _ in range(KILLS):
        job = enqueue(
            "test.nap", seconds=30, run_at=database_now() - timedelta(hours=1)
        )  # first in line, as any that ran
        running = wait_for(job, state=State.RUNNING)
        short = Job.objects.filter(kind="test.sleep", state=State.WAITING).count()
        enqueue_many(draft("test.sleep", seconds=0.05) for _ in range(backlog - short))
        victim = workers.pop(int(running.worker.split(":")[1]))
        os.killpg(victim.pid, signal.SIGKILL)
        killed = time.monotonic()
        fresh = kit.start("worker", wait=False)
        workers[fresh.pid] = fresh
        again = wait_for(job, run=2)
        waits.append(time.monotonic() - killed)
        fresh.wait_for_line(" ready.")
        Job.objects.cancel(job.id, "the benchmark", again.started_at)
        wait_for(job, state=State.CANCELLED)

    with capsys.disabled():
        print(
            f"\nrecovery on {kit.rung}, {KILLS} kills, {backlog} jobs waiting: "
            f"median {median(waits):.1f} s, worst {max(waits):.1f} s"
        )
