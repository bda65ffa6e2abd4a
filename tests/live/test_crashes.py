"""Processes die and come back: no job is lost, none runs twice at once, and the row says what happened."""

import os
import signal
from pathlib import Path

import pytest
from django.db import connection

from tasks.api import draft, enqueue, enqueue_many
from tasks.clock import database_now
from tasks.models import Job
from tasks.states import State
from tests.kit import Process, wait_until
from tests.testjobs.models import Effect

# What these rungs share with the one between them is each time the database or the broker.
pytestmark = pytest.mark.rung("sqlite+filesystem", "postgresql+redis")


def job_of(job: Job) -> Job:
    """Return the row as it is now."""
    return Job.objects.get(id=job.id)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def sleeping() -> bool:
    """Tell whether a session of this database is at a long statement."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep')")
        return cursor.fetchone()[0]


def wait_for(job: Job, *states: str, run: int | None = None, timeout: float = 30) -> Job:
    """Return the job once it stands in one of the states, in the given run."""

    def found():
        now = job_of(job)
        return now if now.state in states and run in (None, now.run) else None

    return wait_until(found, timeout, f"job {job.id} is {states}, run {run}; it is {job_of(job).state}")


def two_workers(kit) -> list[Process]:
    """Start two, so that another is there as soon as one dies."""
    return [kit.start("worker") for _ in range(2)]


def running_in(job: Job, workers: list[Process]) -> Process:
    """Return the worker that runs a job."""
    pid = int(job.worker.split(":")[1])
    return next(worker for worker in workers if worker.pid == pid)


def test_job_of_a_killed_worker_runs_again_on_another_within_10_s(kit):
    """kill -9 of main and children in mid-job: the other worker runs it as attempt 2."""
    kit.start("relay")
    workers = two_workers(kit)
    job = wait_for(enqueue("test.nap", seconds=4), State.RUNNING)

    os.killpg(running_in(job, workers).pid, signal.SIGKILL)

    again = wait_for(job, State.RUNNING, run=2, timeout=10)
    assert (again.attempts, again.worker != job.worker) == (2, True)
    assert again.history[0]["error"] == "Its worker's process is gone."
    assert wait_for(job, State.SUCCEEDED).attempts == 2


def test_main_process_killed_alone_while_it_drains_is_a_dead_worker_too(kit):
    """Its children end with it, and what a handler left running does not hold its lock."""
    kit.start("relay")
    workers = two_workers(kit)
    job = wait_for(enqueue("test.leave_behind", seconds=4), State.RUNNING)
    first = running_in(job, workers)
    wait_until(lambda: Effect.objects.exists(), 10, "the handler has forked")

    first.terminate()
    first.wait_for_line("Warm shutdown")
    first.kill()

    wait_for(job, State.RUNNING, run=2, timeout=10)
    os.kill(int(Effect.objects.earliest("id").value), signal.SIGKILL)  # it has lived until now
    wait_for(job, State.SUCCEEDED)
    os.kill(int(Effect.objects.latest("id").value), signal.SIGKILL)


@pytest.mark.parametrize(
    ("how", "says"), [("sigkill", "signal 9 (SIGKILL)"), ("segfault", "signal 11 (SIGSEGV)"), ("exit", "exitcode 7")]
)
def test_dead_child_is_noticed_within_5_s_and_says_how_it_died(kit, how, says):
    """The worker goes on, and the row tells one death from the other."""
    kit.start("relay")
    kit.start("worker")
    job = enqueue("test.die", how=how)
    wait_until(lambda: Effect.objects.exists(), 15)

    back = wait_until(lambda: (now := job_of(job)).history and now, 5, "the death is in the row")

    assert says in back.history[0]["error"]
    assert back.attempts == 1
    wait_for(enqueue("test.echo", value="after"), State.SUCCEEDED)


def test_poison_job_ends_dead_and_costs_nobody_else(kit):
    """It kills its process every time; the others all succeed."""
    kit.start("relay")
    kit.start("worker")

    poison = enqueue("test.die", how="sigkill")
    Job.objects.filter(id=poison.id).update(max_attempts=3)
    others = enqueue_many(draft("test.echo", value=number) for number in range(20))

    dead = wait_for(poison, State.DEAD, timeout=60)
    assert (dead.attempts, len(dead.history)) == (3, 3)
    for job in others:
        assert wait_for(job, State.SUCCEEDED).attempts == 1


def test_hard_time_limit_ends_what_swallows_everything(kit):
    """The job is charged and says so; the worker goes on."""
    kit.start("relay")
    kit.start("worker")

    dead = wait_for(enqueue("test.hog"), State.DEAD, timeout=40)

    assert [entry["error"] for entry in dead.history] == ["The hard time limit of 2 s was exceeded."] * 2
    wait_for(enqueue("test.echo", value="after"), State.SUCCEEDED)


def test_frozen_worker_is_not_declared_dead(kit):
    """It holds its lock: nobody runs its job a second time."""
    kit.start("relay")
    worker = kit.start("worker")
    job = wait_for(enqueue("test.nap", seconds=3), State.RUNNING)

    os.killpg(worker.pid, signal.SIGSTOP)
    kit.start("worker")
    marker = enqueue("test.nap", seconds=9)
    wait_for(marker, State.SUCCEEDED, timeout=40)  # more than twice what a rescue would take
    assert (job_of(job).state, job_of(job).run) == (State.RUNNING, 1)
    os.killpg(worker.pid, signal.SIGCONT)

    assert wait_for(job, State.SUCCEEDED).run == 1


@pytest.mark.rung("postgresql+redis")
def test_worker_frozen_past_a_hard_limit_loses_its_job_and_its_message_to_another(kit):
    """From outside, 15 s after the limit; when it wakes up, it changes nothing."""
    kit.extra_env = {"JOBS_LOST_GRACE_S": "2"}
    kit.start("relay")
    workers = two_workers(kit)
    job = wait_for(enqueue("test.limited_nap", seconds=1.5), State.RUNNING)
    frozen = running_in(job, workers)

    os.killpg(frozen.pid, signal.SIGSTOP)
    others = enqueue_many(draft("test.echo", value=number) for number in range(10))
    for other in others:  # one message lies in the frozen worker's connection
        wait_for(other, State.SUCCEEDED, timeout=20)
    done = wait_for(job, State.SUCCEEDED, timeout=30)
    os.killpg(frozen.pid, signal.SIGCONT)
    wait_for(enqueue("test.echo", value="after"), State.SUCCEEDED)
    frozen.terminate()
    frozen.wait(20)

    assert (done.run, done.attempts) == (2, 2)
    assert "ran past its hard time limit of 2 s" in done.history[0]["error"]
    assert job_of(job).finished_at == done.finished_at
    assert Effect.objects.filter(note="test.echo").count() == 11


def test_warm_shutdown_finishes_what_runs(kit):
    """SIGTERM: nothing new is taken, the running job ends, the exit code is 0."""
    kit.start("relay")
    worker = kit.start("worker", concurrency=1)
    job = wait_for(enqueue("test.nap", seconds=3), State.RUNNING)
    later = enqueue("test.echo", value="later")

    worker.terminate()

    assert worker.wait(30) == 0
    assert (job_of(job).state, job_of(job).attempts) == (State.SUCCEEDED, 1)
    assert job_of(later).run == 0


def test_what_does_not_fit_into_the_drain_is_given_back_without_charge(kit):
    """The job runs again elsewhere; the interruption is counted, the attempt is not."""
    kit.extra_env = {"JOBS_DRAIN_S": "1"}
    kit.start("relay")
    worker = kit.start("worker")
    job = wait_for(enqueue("test.nap", seconds=6), State.RUNNING)

    worker.terminate()

    assert worker.wait(20) == 0
    given_back = job_of(job)
    assert (given_back.attempts, given_back.interruptions, given_back.history) == (0, 1, [])
    kit.extra_env = {}
    kit.start("worker")
    assert wait_for(job, State.SUCCEEDED).attempts == 1


@pytest.mark.parametrize("signals", [[signal.SIGQUIT], [signal.SIGTERM, signal.SIGQUIT]])
def test_cold_shutdown_gives_back_without_charge(kit, signals):
    """SIGQUIT, alone or after SIGTERM."""
    kit.start("relay")
    worker = kit.start("worker")
    job = wait_for(enqueue("test.nap", seconds=20), State.RUNNING)

    for number in signals:
        worker.popen.send_signal(number)

    assert worker.wait(20) == 0
    assert (job_of(job).attempts, job_of(job).interruptions) == (0, 1)


@pytest.mark.rung("postgresql+redis")
def test_cold_shutdown_reaches_a_child_that_the_pool_has_not_heard_of_yet(kit):
    """The job starts while the main process stands still: Celery cancels only what the child has told it of."""
    kit.start("relay")
    worker = kit.start("worker", concurrency=1)
    child = wait_until(lambda: children(worker.pid), 10)[0]
    os.kill(child, signal.SIGSTOP)
    job = wait_for(enqueue("test.nap", seconds=20), State.RELAYED)
    wait_until(lambda: kit.redis.client().hlen("unacked"), 10, "the message is in the worker's hands")
    os.kill(worker.pid, signal.SIGSTOP)
    os.kill(child, signal.SIGCONT)
    wait_for(job, State.RUNNING)

    os.kill(worker.pid, signal.SIGQUIT)
    os.kill(worker.pid, signal.SIGCONT)

    assert worker.wait(15) == 0
    assert (job_of(job).attempts, job_of(job).interruptions) == (0, 1)


def test_endless_interruptions_cost_attempts_in_the_end(kit):
    """After five free ones a job that is never let finish is charged."""
    kit.start("relay")
    worker = kit.start("worker")
    job = enqueue("test.nap", seconds=20)
    Job.objects.filter(id=job.id).update(interruptions=5)
    wait_for(job, State.RUNNING)

    worker.popen.send_signal(signal.SIGQUIT)
    worker.wait(20)

    charged = job_of(job)
    assert (charged.attempts, charged.run) == (1, 1)
    assert "for the 6th time" in charged.history[0]["error"]


@pytest.mark.rung("postgresql+redis")
def test_restarted_database_gets_nobody_rescued_that_still_runs(kit):
    """Workers take their locks again before the relay may call them dead."""
    kit.start("relay")
    kit.start("worker")
    job = wait_for(enqueue("test.nap", seconds=15), State.RUNNING)

    connection.close()
    kit.postgresql.stop()
    kit.postgresql.start()

    done = wait_for(job, State.SUCCEEDED, timeout=40)
    assert (done.run, done.attempts, done.history) == (1, 1, [])


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("test.long_nap", "It was cancelled while it ran."),
        ("test.stubborn", "It was cancelled while it ran, and did not stop by itself."),
    ],
)
def test_cancelled_running_job_stops_within_2_s(kit, kind, says):
    """Soft, then hard: the worker's process is only lost when the handler does not stop."""
    kit.start("relay")
    kit.start("worker")
    job = wait_for(enqueue(kind), State.RUNNING)

    Job.objects.cancel(job.id, "user 1", database_now())

    cancelled = wait_for(job, State.CANCELLED, timeout=4)
    assert [entry["what"] for entry in cancelled.history] == ["cancel requested", "failed"]
    assert cancelled.history[-1]["error"] == says
    wait_for(enqueue("test.echo", value="after"), State.SUCCEEDED)


@pytest.mark.rung("postgresql+redis")
@pytest.mark.parametrize("how", ["cancelled", "at its soft limit"])
def test_statement_of_a_stopped_handler_ends_in_the_database_too(kit, how):
    """Or it would hold its locks, and commit, while the job runs again."""
    kit.start("relay")
    kit.start("worker")
    job = wait_for(enqueue("test.query", seconds=60), State.RUNNING)
    wait_until(sleeping, 10, "the database is at it")

    if how == "cancelled":
        Job.objects.cancel(job.id, "user 1", database_now())

    ended = wait_for(job, State.CANCELLED, State.DEAD, timeout=15)
    wait_until(lambda: not sleeping(), 3, "the statement has ended")
    assert ended.history[-1]["error"] in ("It was cancelled while it ran.", "The soft time limit of 2 s was exceeded.")


def test_checkpoint_spares_the_next_run_what_is_done(kit):
    """The handler is told that the worker stops; another goes on where it was."""
    kit.start("relay")
    worker = kit.start("worker")
    job = enqueue("test.steps", count=6)
    wait_until(lambda: Effect.objects.count() >= 2, 20)

    worker.terminate()
    assert worker.wait(20) == 0
    between = Effect.objects.count()
    kit.start("worker")

    done = wait_for(job, State.SUCCEEDED)
    assert between < 6
    assert list(Effect.objects.order_by("id").values_list("value", flat=True)) == ["0", "1", "2", "3", "4", "5"]
    assert (done.attempts, done.progress) == (1, 100)
