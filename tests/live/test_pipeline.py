"""One job through real processes: enqueue, relay, broker, worker, and the ways it can end."""

import os
import signal
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import pytest
from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tasks.api import draft, enqueue, enqueue_many
from tasks.clock import database_now
from tasks.models import Job, Queue
from tasks.registry import broker_queue
from tasks.states import State
from tests.kit import Kit, wait_until
from tests.testjobs.models import Effect

WITH_POSTGRESQL = pytest.mark.rung("postgresql+filesystem")
WITH_REDIS = pytest.mark.rung("postgresql+redis")
# Once for each database and each broker; the rung between the two has nothing of its own here.
ON_THE_OUTER_RUNGS = pytest.mark.rung("sqlite+filesystem", "postgresql+redis")


def state(job: Job) -> str:
    """Return where the job stands now."""
    return Job.objects.values_list("state", flat=True).get(id=job.id)


def wait_for(job: Job, wanted: str, timeout: float = 30) -> Job:
    """Return the job once it has the wanted state."""
    wait_until(lambda: state(job) == wanted, timeout, f"job {job.id} is {wanted}, it is {state(job)}")
    return Job.objects.get(id=job.id)


def messages() -> list[list[int]]:
    """Take all messages out of the broker and return what they carry: [job id, run] each."""
    with current_app.connection_for_read() as reader:
        queues = [current_app.amqp.queues[broker_queue(name)](reader.default_channel) for name in settings.JOBS_QUEUES]
        found = [message for queue in queues for message in iter(partial(queue.get, no_ack=True), None)]
        return [message.decode()[0] for message in found]


def in_mail_queue() -> Job:
    """Enqueue a job on the other queue."""
    with transaction.atomic():
        job = enqueue("test.noop")
        Job.objects.filter(id=job.id).update(queue="mail")
    return job


def backends() -> list[int]:
    """Return the pids of the other sessions of this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return [pid for (pid,) in cursor.fetchall()]


def waiting_for_locks() -> int:
    """Return how many sessions of this database wait for another one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0]


@contextmanager
def frozen(kit, pids: list[int]):
    """Freeze PostgreSQL with the sessions that it has."""
    connection.close()
    kit.postgresql.pause()
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        kit.postgresql.resume()


def test_enqueued_jobs_run_in_a_worker(kit):
    """The whole way, with several jobs on both queues' workers."""
    kit.start("relay")
    kit.start("worker")

    jobs = enqueue_many(draft("test.echo", value=number) for number in range(5))

    for job in jobs:
        assert wait_for(job, State.SUCCEEDED).attempts == 1
    assert sorted(Effect.objects.values_list("value", flat=True)) == ["0", "1", "2", "3", "4"]


@ON_THE_OUTER_RUNGS
def test_failures_are_sorted(kit):
    """Temporary ones are tried again and die in the end; a permanent one dies at once; snoozes cost nothing."""
    kit.start("relay")
    kit.start("worker")

    temporary, permanent, snooze = enqueue("test.fail"), enqueue("test.permanent"), enqueue("test.snooze", seconds=0.2)

    temporary, permanent = wait_for(temporary, State.DEAD, 60), wait_for(permanent, State.DEAD)
    assert (temporary.attempts, permanent.attempts) == (5, 1)
    assert [entry["error"] for entry in temporary.history] == ["RuntimeError: on purpose"] * 5
    assert wait_for(snooze, State.SUCCEEDED).attempts == 1


@ON_THE_OUTER_RUNGS
def test_soft_time_limit_is_a_failure_that_says_so(kit):
    """The handler is interrupted, the attempt charged, the worker goes on."""
    kit.start("relay")
    kit.start("worker")

    job = wait_for(enqueue("test.soft_limit"), State.DEAD)

    assert [entry["error"] for entry in job.history] == ["The soft time limit of 1 s was exceeded."] * 2
    wait_for(enqueue("test.echo", value="after"), State.SUCCEEDED)


@ON_THE_OUTER_RUNGS
def test_atomic_job_that_fails_leaves_no_effect(kit):
    """Also with real processes, on every attempt."""
    kit.start("relay")
    kit.start("worker")

    wait_for(enqueue("test.atomic_fail", value="x"), State.DEAD, 60)
    wait_for(enqueue("test.atomic", value="y"), State.SUCCEEDED)

    assert list(Effect.objects.values_list("value", flat=True)) == ["y"]


@ON_THE_OUTER_RUNGS
def test_job_of_new_code_waits_for_a_new_worker(kit):
    """An old worker gives it back without charge, says why, and goes on."""
    kit.start("relay")
    old = kit.start("worker", env={"TESTJOBS_OLD_CODE": "1"})
    job = enqueue("test.new")
    old.wait_for_line("left to a worker with other code: No task is registered as 'test.new'")
    wait_for(enqueue("test.echo", value="old goes on"), State.SUCCEEDED)

    old.stop()
    kit.start("worker")

    assert wait_for(job, State.SUCCEEDED).attempts == 1


@WITH_REDIS
def test_job_of_new_code_outlives_the_old_worker_s_patience_while_the_new_one_is_busy(kit):
    """The old one has refused it for too long, but sees a live worker that knows it."""
    kit.start("relay")
    kit.start("worker", concurrency=1)
    busy = enqueue("test.long_nap")
    wait_until(lambda: state(busy) == State.RUNNING)
    old = kit.start("worker", concurrency=1, env={"TESTJOBS_OLD_CODE": "1"})
    job = enqueue("test.new")
    rows = Job.objects.filter(id=job.id, state=State.WAITING)
    wait_until(lambda: rows.filter(run=1).exists(), message="the old worker has refused it")

    now = database_now()
    rows.update(unknown_since_at=now - timedelta(seconds=901), run_at=now)
    wait_until(lambda: rows.filter(run=2).exists(), message="the old worker has refused it again, and it waits")

    old.stop()
    Job.objects.cancel(busy.id, "user 1", database_now())
    rows.update(run_at=now)
    assert wait_for(job, State.SUCCEEDED).attempts == 1


@ON_THE_OUTER_RUNGS
def test_worker_without_relay_says_that_jobs_will_wait(kit):
    """Somebody who starts only a worker is told what is missing, and nobody else is."""
    alone = kit.start("worker")
    alone.wait_for_line("No relay is running: jobs wait in the table until you start one with `manage.py relay`.")
    kit.start("relay").wait_for_line("relay started")

    served = kit.start("worker")

    assert "No relay" not in served.output


@pytest.mark.rung("sqlite+filesystem")
@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_worker_with_a_pool_that_keeps_no_time_limit_does_not_start(kit, pool):
    """Celery takes it without a word, and then neither limits nor cancelling hold."""
    worker = kit.start("worker", "-P", pool, wait=False)

    code = worker.wait()

    assert code == 1
    assert worker.output.splitlines()[-1].startswith("This worker does not start: jobs need the prefork pool")


@ON_THE_OUTER_RUNGS
@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_relay_stops_between_steps(kit, signal_number):
    """It ends with 0, and leaves no job half handed over."""
    relay = kit.start("relay")
    relay.wait_for_line("relay started")
    enqueue_many(draft("test.noop") for _ in range(100))

    relay.popen.send_signal(signal_number)

    assert relay.wait(10) == 0
    assert "relay stopped" in relay.output
    relayed = Job.objects.filter(state=State.RELAYED).values_list("id", "run")
    assert sorted(messages()) == sorted([job_id, run + 1] for job_id, run in relayed)


@ON_THE_OUTER_RUNGS
def test_messages_of_cancelled_jobs_are_bounded_too(kit):
    """Without a worker nobody takes them out of the broker, however often jobs are relayed and cancelled."""
    kit.extra_env = {"JOBS_HIGH_WATER": "5"}
    relay = kit.start("relay")

    enqueue_many(draft("test.noop") for _ in range(20))

    wait_until(lambda: Job.objects.filter(state=State.RELAYED).count() == 5)
    for _ in range(3):
        relayed = Job.objects.filter(state=State.RELAYED).values_list("id", flat=True)
        Job.objects.cancel(list(relayed), "user 1", database_now())
        wait_for(in_mail_queue(), State.RELAYED)  # so the relay has looked at the other queue again
    relay.stop()

    assert len(messages()) == 5 + 3


@pytest.mark.rung("sqlite+filesystem")
def test_lost_messages_are_sent_again(kit):
    """FLUSHALL, or an emptied folder: the rows still know."""
    kit.extra_env = {"JOBS_LOST_GRACE_S": "1"}
    kit.start("relay")
    jobs = enqueue_many(draft("test.echo", value=number) for number in range(10))
    wait_until(lambda: Job.objects.filter(state=State.RELAYED).count() == 10)

    kit.empty_broker()
    kit.start("worker")

    for job in jobs:
        wait_for(job, State.SUCCEEDED)
    assert Effect.objects.count() == 10


@ON_THE_OUTER_RUNGS
def test_schedule_writes_jobs(kit):
    """beat fires, the row is written, relay and worker do the rest."""
    every_second, _ = IntervalSchedule.objects.get_or_create(every=1, period=IntervalSchedule.SECONDS)
    PeriodicTask.objects.create(name="each second", task="test.echo_default", interval=every_second)
    kit.start("relay")
    kit.start("worker")

    kit.start("beat")

    wait_until(lambda: Effect.objects.filter(note="test.echo_default").count() >= 2, 30)
    assert Job.objects.filter(kind="test.echo_default").count() >= 2


@WITH_REDIS
def test_relay_outlives_the_broker(kit):
    """It says once that the broker is away, never ends, and relays when it is back."""
    relay = kit.start("relay")
    kit.start("worker")
    wait_for(enqueue("test.echo", value="before"), State.SUCCEEDED)

    kit.redis.stop()
    with transaction.atomic():
        jobs = enqueue_many(draft("test.echo", value=number) for number in range(20))
        Job.objects.filter(id__in=[job.id for job in jobs[::2]]).update(queue="mail")  # two queues meet the outage
    relay.wait_for_line("the broker is away")
    wait_until(lambda: not Job.objects.filter(state=State.RELAYED).exists(), 10, "unsent jobs wait in the table")
    kit.redis.start()
    relay.wait_for_line("the broker is back")
    kit.start("worker")  # the first may have ended with its broker; a supervisor starts it again

    for job in jobs:
        wait_for(job, State.SUCCEEDED)
    assert relay.output.count("the broker is away") == 1
    assert set(Job.objects.values_list("queue", flat=True)) == {"default", "mail"}


@WITH_POSTGRESQL
def test_relay_outlives_the_database(kit):
    """It waits, says so once, and goes on; LISTEN is set up again."""
    relay = kit.start("relay")
    relay.wait_for_line("relay started")
    connection.close()

    kit.postgresql.stop()
    relay.wait_for_line("the database is away")
    kit.postgresql.start()
    relay.wait_for_line("the database is back")
    kit.start("worker")

    wait_for(enqueue("test.echo", value="x"), State.SUCCEEDED)
    assert relay.output.count("the database is away") == 1


@WITH_POSTGRESQL
def test_lock_of_another_session_does_not_hold_the_relay(kit):
    """It gives up waiting, says so once, tries again, and stops when it is told to."""
    relay = kit.start("relay")
    relay.wait_for_line("relay started")
    wait_until(lambda: Queue.objects.filter(name="default").exists())
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN; SELECT * FROM tasks_queue WHERE name = 'default' FOR UPDATE")
        job = enqueue("test.echo", value="x")
        relay.wait_for_line("the database does not answer in time", 15)
        wait_until(lambda: waiting_for_locks() == 1, 10, "the relay tries again")

        relay.terminate()

        assert relay.wait(12) == 0
        assert relay.output.count("the database does not answer in time") == 1
        assert "relay stopped" in relay.output
        assert state(job) == State.WAITING
    finally:
        other.close()


@WITH_POSTGRESQL
def test_relay_recovers_from_a_frozen_database(kit):
    """The server cannot end a statement itself then; the relay cuts it, and connects again when that helps."""
    relay = kit.start("relay")
    relay.wait_for_line("relay started")
    wait_until(lambda: backends() != [])

    with frozen(kit, backends()):
        relay.wait_for_line("the database is away", 30)
    relay.wait_for_line("the database is back", 30)

    kit.start("worker")
    wait_for(enqueue("test.echo", value="x"), State.SUCCEEDED)
    assert relay.output.count("the database is away") == 1


@WITH_POSTGRESQL
def test_relay_stops_while_the_database_is_frozen(kit):
    """SIGTERM is answered in time whatever the server does."""
    relay = kit.start("relay")
    relay.wait_for_line("relay started")
    wait_until(lambda: backends() != [])

    with frozen(kit, backends()):
        relay.terminate()
        code = relay.wait(20)

    assert (code, "relay stopped" in relay.output) == (0, True)


@WITH_POSTGRESQL
def test_database_that_refuses_is_told_apart_from_one_that_is_away(kit):
    """A missing column, a right taken away: it is logged once with the server's words, and tried again."""
    relay = kit.start("relay")
    relay.wait_for_line("relay started")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE tasks_job RENAME COLUMN run_at TO gone_at")

    try:
        line = relay.wait_for_line("the database refuses what the relay asks of it")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE tasks_job RENAME COLUMN gone_at TO run_at")
    relay.wait_for_line("the database is back")

    assert "ProgrammingError: column tasks_job.run_at does not exist" in line
    assert relay.output.count("the database refuses") == 1
    assert "is away" not in relay.output
    enqueued = enqueue("test.echo", value="x")
    wait_for(enqueued, State.RELAYED)


@WITH_POSTGRESQL
def test_enqueuing_commit_wakes_the_relay(kit, tmp_path):
    """LISTEN and NOTIFY: with a poll far longer than the wait, only the wake-up can explain it."""
    kit.extra_env = {"JOBS_POLL_S": "60"}
    kit.start("relay").wait_for_line("relay started")
    kit.start("worker")
    wait_for(enqueue("test.echo", value="warm"), State.SUCCEEDED, 10)

    job = enqueue("test.echo", value="x")

    wait_for(job, State.SUCCEEDED, 10)


@ON_THE_OUTER_RUNGS
def test_two_relays_share_the_work(kit: Kit):
    """Each job is relayed once."""
    kit.start("relay").wait_for_line("relay started")
    kit.start("relay").wait_for_line("relay started")
    kit.start("worker")

    jobs = enqueue_many(draft("test.echo", value=number) for number in range(200))

    wait_until(lambda: not Job.objects.exclude(state=State.SUCCEEDED).exists(), 60)
    assert Effect.objects.count() == len(jobs)
    assert not Job.objects.exclude(run=1).exists()
