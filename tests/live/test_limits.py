"""Rate limits and caps over several workers: no window and no moment sees too many."""

import os
import signal
import time

import pytest
from django.db import connection

from tasks.api import draft, enqueue, enqueue_many
from tasks.models import Job
from tasks.pauses import pause, resume
from tasks.states import State
from tests.kit import wait_until
from tests.testjobs.models import Effect

pytestmark = pytest.mark.rung("sqlite+filesystem", "postgresql+redis")

RATE = 10  # a second, as the test kind declares it


def wait_for(job: Job) -> None:
    """Wait until a job has succeeded."""
    wait_until(lambda: Job.objects.get(id=job.id).state == State.SUCCEEDED, 20, f"{job.kind} succeeds")


def starts(note: str = "test.rated") -> list[float]:
    """Return when the handlers began. Units: seconds, in order."""
    return sorted(float(value) for value in Effect.objects.filter(note=note).values_list("value", flat=True))


def fullest_window(times: list[float], seconds: float = 1.0) -> int:
    """Return how many starts the fullest window saw."""
    return max((sum(first <= time < first + seconds for time in times) for first in times), default=0)


def count_relays() -> None:
    """Let the database note each time a job is relayed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE relayed (job_id bigint); "
            "CREATE FUNCTION note_relay() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN INSERT INTO relayed VALUES (NEW.id); RETURN NEW; END $$; "
            "CREATE TRIGGER note_relay AFTER UPDATE ON tasks_job FOR EACH ROW "
            "WHEN (OLD.state = 'waiting' AND NEW.state = 'relayed') EXECUTE FUNCTION note_relay()"
        )


def most_relays() -> int:
    """Return how often the job was relayed that was relayed most often, and stop noting."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(n) FROM (SELECT count(*) AS n FROM relayed GROUP BY job_id) AS counts")
        (most,) = cursor.fetchone()
        cursor.execute("DROP FUNCTION note_relay CASCADE; DROP TABLE relayed")
    return most


@pytest.mark.rung("postgresql+redis")
def test_rate_holds_in_every_window_over_four_workers(kit):
    """Never more than 10 starts in any second, no job handed over more than twice, and other kinds pass."""
    count_relays()
    kit.start("relay")
    for worker in [kit.start("worker", wait=False) for _ in range(4)]:
        worker.wait_for_line(" ready.")

    jobs = enqueue_many(draft("test.rated") for _ in range(200))
    others = 0
    while len(starts()) < len(jobs):
        wait_for(enqueue("test.noop"))
        others += 1

    assert fullest_window(starts()) <= RATE
    assert most_relays() <= 2
    assert others >= 5
    assert set(Job.objects.filter(kind="test.rated").values_list("attempts", flat=True)) == {1}


def test_there_is_no_burst_after_all_workers_were_down(kit):
    """The turns of that time are gone, and what was handed over meanwhile still waits for its own."""
    kit.start("relay")
    worker = kit.start("worker")
    enqueue_many(draft("test.rated") for _ in range(60))
    wait_until(lambda: Effect.objects.count() >= 10, 20)

    os.killpg(worker.pid, signal.SIGKILL)
    before = len(starts())
    went_down = time.monotonic()
    wait_until(lambda: time.monotonic() - went_down > 5, 10, "some fifty turns pass")
    kit.start("worker")
    wait_until(lambda: len(starts()) >= 60, 40)

    assert before < 60
    assert fullest_window(starts()) <= RATE


def test_cap_is_never_exceeded_also_across_a_kill(kit):
    """Two may run; a killed worker's jobs keep their places until they are given back, and no place is lost."""
    kit.start("relay")
    workers = [kit.start("worker"), kit.start("worker")]
    enqueue_many(draft("test.capped", seconds=1) for _ in range(10))
    wait_until(lambda: Job.objects.filter(kind="test.capped", state=State.RUNNING).count() == 2, 20)
    mine = Job.objects.filter(kind="test.capped", state=State.RUNNING).values_list("worker", flat=True)
    victim = next(worker for worker in workers if any(f":{worker.pid}:" in name for name in mine))

    os.killpg(victim.pid, signal.SIGKILL)
    most = 0
    while Job.objects.filter(kind="test.capped").exclude(state=State.SUCCEEDED).exists():
        most = max(most, Job.objects.filter(kind="test.capped", state=State.RUNNING).count())
        assert kit.processes[0].is_running

    spans = [tuple(map(float, value.split())) for value in Effect.objects.values_list("value", flat=True)]
    overlaps = max(sum(first <= start < end for first, end in spans) for start, _ in spans)
    assert (most, overlaps) == (2, 2)


def test_paused_kind_waits_and_goes_on_when_it_is_resumed(kit):
    """Other kinds pass it meanwhile."""
    kit.start("relay")
    kit.start("worker")
    pause("kind", "test.echo", "user 1")
    held = enqueue("test.echo", value="held")

    wait_for(enqueue("test.noop"))
    assert Job.objects.get(id=held.id).state == State.WAITING
    resume("kind", "test.echo", "user 1")

    wait_for(held)
