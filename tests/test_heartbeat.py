"""What a worker's heartbeat is for: people see who lives, and a job waits for the worker that can run it."""

from datetime import timedelta

import pytest

from tasks import endings, heartbeat, locks
from tasks.clock import database_now
from tasks.heartbeat import Heartbeat
from tasks.models import Job, WorkerHeartbeat
from tasks.states import State
from tests.rows import row

pytestmark = pytest.mark.django_db(transaction=True)  # SQLite's busy timeout cannot be looked at inside a transaction

OTHER = "host:2:b"
CODE = {"version": 1, "upgrades": False, "required": ["value"], "accepted": ["value"]}
NEWER = CODE | {"version": 2}


def worker(kinds: dict, *, who: str = OTHER, queues=("q.default",), seen_s: float = 0) -> WorkerHeartbeat:
    """Write a worker's heartbeat, as it was some seconds ago."""
    seen_at = database_now() - timedelta(seconds=seen_s)
    return WorkerHeartbeat.objects.create(
        who=who, started_at=seen_at, seen_at=seen_at, queues=list(queues), kinds=kinds
    )


def refused(**fields) -> Job:
    """Return a job that this worker has claimed and cannot run, known to nobody for longer than is waited."""
    since = database_now() - timedelta(seconds=901)
    fields = {"kind": "test.gone", "arguments": {"value": 1}, "unknown_since_at": since} | fields
    return row(State.RUNNING, worker="host:1:a", **fields)


def ended(job: Job) -> Job:
    """Let this worker refuse the job, and return the row."""
    endings.unknown(job, "It is not known here.", database_now()).update()
    return Job.objects.get(id=job.id)


def test_heartbeat_names_queues_and_kinds():
    """The row is written at the first beat and again when it is due."""
    beating = Heartbeat("host:1:a", lambda: ["q.default", "q.mail"])

    beating.beat()
    first = WorkerHeartbeat.objects.get()
    beating.beat()

    again = WorkerHeartbeat.objects.get()
    assert (again.who, again.queues, again.seen_at) == ("host:1:a", ["q.default", "q.mail"], first.seen_at)
    assert again.kinds["test.echo"] == CODE


def test_next_heartbeat_keeps_when_the_worker_started(monkeypatch):
    """Its age and its last sign of life are two things."""
    monkeypatch.setattr(heartbeat, "EVERY_S", 0)
    beating = Heartbeat("host:1:a", list)
    beating.beat()
    first = WorkerHeartbeat.objects.get()

    beating.beat()

    again = WorkerHeartbeat.objects.get()
    assert again.started_at == first.started_at
    assert again.seen_at > first.seen_at


def test_heartbeats_of_workers_long_gone_are_deleted():
    """One row for each start would pile up."""
    worker({}, who="host:3:c", seen_s=86_500)
    worker({}, who="host:4:d", seen_s=86_300)

    Heartbeat("host:1:a", list).beat()

    assert set(WorkerHeartbeat.objects.values_list("who", flat=True)) == {"host:1:a", "host:4:d"}


def test_unknown_job_waits_on_while_a_live_worker_knows_it():
    """That one may be busy for longer than others are asked."""
    worker({"test.gone": CODE})

    job = ended(refused())

    assert job.state == State.WAITING
    assert database_now() - job.unknown_since_at < timedelta(seconds=10)


def test_worker_not_seen_lately_lives_while_it_holds_its_lock():
    """Its guardian may be waiting for a frozen database."""
    worker({"test.gone": CODE}, seen_s=3600)
    lock = locks.try_hold(locks.of_worker(OTHER))

    job = ended(refused())
    lock.release()

    assert job.state == State.WAITING


@pytest.mark.parametrize(
    ("given", "job"),
    [
        ({"kinds": {"test.gone": CODE}, "seen_s": 31}, {}),  # it is gone
        ({"kinds": {"test.gone": CODE}, "queues": ["q.mail"]}, {}),
        ({"kinds": {"test.gone": CODE}, "who": "host:1:a"}, {}),  # it is this worker
        ({"kinds": {"test.other": CODE}}, {}),
        ({"kinds": {"test.gone": CODE}}, {"version": 2}),
        ({"kinds": {"test.gone": NEWER}}, {}),
        ({"kinds": {"test.gone": CODE}}, {"arguments": {"value": 1, "locale": "ru"}}),
        ({"kinds": {"test.gone": CODE}}, {"arguments": {}}),
        ({"kinds": {"test.echo": CODE}}, {"kind": "test.echo"}),  # the same code as this worker's
    ],
)
def test_worker_that_will_not_run_the_job_does_not_keep_it_waiting(given, job):
    """After 15 min it is a person's."""
    worker(**given)

    assert ended(refused(**job)).state == State.DEAD


@pytest.mark.parametrize(
    ("code", "job"),
    [
        (NEWER, {"version": 2}),
        (NEWER | {"upgrades": True}, {"version": 1}),
        (CODE | {"accepted": ["locale", "value"]}, {"arguments": {"value": 1, "locale": "ru"}}),
        (CODE | {"accepted": None}, {"arguments": {"value": 1, "locale": "ru"}}),
    ],
)
def test_other_code_of_the_same_kind_counts_where_the_job_fits_it(code, job):
    """A newer release takes what this one does not."""
    worker({"test.echo": code})

    assert ended(refused(kind="test.echo", **job)).state == State.WAITING


def test_job_that_others_know_is_offered_less_and_less_often():
    """A worker that must refuse it does not spin."""
    worker({"test.gone": CODE})

    job = ended(refused(unknown_since_at=database_now() - timedelta(seconds=20)))

    assert timedelta(seconds=39) < job.run_at - job.unknown_since_at < timedelta(seconds=41)
