"""The relay's steps on the table: what is handed to the broker, in which order, how much, and what comes back."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from tasks.api import draft, enqueue, enqueue_many
from tasks.clock import database_now
from tasks.models import Job, Queue
from tasks.relay import publish_batch, relay_batch, return_lost
from tasks.states import State

pytestmark = pytest.mark.django_db

GRACE_S = 15


class BrokerStub:
    """The far edge: a broker whose depth and willingness are given."""

    def __init__(self, *, depth: int | None = 0, takes: int = 1_000_000):
        self._depth, self._takes = depth, takes
        self.sent: list[tuple[int, int]] = []

    def depth(self, queue: str) -> int | None:
        """Return the given depth."""
        return self._depth

    def publish(self, job: Job) -> bool:
        """Take as many as given."""
        if len(self.sent) >= self._takes:
            return False
        self.sent.append((job.id, job.run + 1))
        return True


@pytest.fixture(autouse=True)
def queue(settings):
    """Have the queue's row, and a small bound."""
    settings.JOBS_HIGH_WATER = 5
    settings.JOBS_LOST_GRACE_S = GRACE_S
    return Queue.objects.get_or_create(name="default")[0]


def relayed(seconds_ago: float, *, now=None, **fields) -> Job:
    """Return a job that was relayed some time ago."""
    job = enqueue("test.echo", value=1)
    at = (now or database_now()) - timedelta(seconds=seconds_ago)
    Job.objects.filter(id=job.id).update(**{"state": State.RELAYED, "relayed_at": at, "relays": 1} | fields)
    return Job.objects.get(id=job.id)


def started(seconds_ago: float, now, **fields) -> Job:
    """Return a job that was relayed some time ago and then started."""
    owner = {"state": State.RUNNING, "started_at": now, "run": 1, "worker": "w", "child_pid": 1}
    return relayed(seconds_ago, now=now, **(owner | fields))


def test_urgent_and_old_come_first():
    """Priority decides, then age."""
    order = [3, 9, 0, 9, 5]
    jobs = enqueue_many(draft("test.echo", value=1, priority=priority) for priority in order)

    batch = relay_batch("default", database_now())

    assert [job.id for job in batch] == [jobs[index].id for index in (1, 3, 4, 0, 2)]


def test_delayed_job_stays_in_the_table():
    """A job is relayed at its run_at, not before."""
    run_at = database_now() + timedelta(hours=24)
    job = enqueue("test.echo", value=1, run_at=run_at)

    early = relay_batch("default", run_at - timedelta(seconds=1))
    on_time = relay_batch("default", run_at)

    assert (early, [found.id for found in on_time]) == ([], [job.id])


def test_no_more_than_high_water_are_with_the_broker():
    """The bound counts what is relayed already, and each claim frees a place."""
    enqueue_many(draft("test.echo", value=1) for _ in range(20))
    first = relay_batch("default", database_now())

    full = relay_batch("default", database_now())
    Job.objects.claim(first[0].id, 1, worker="w", child_pid=1)
    after_claim = relay_batch("default", database_now())

    assert (len(first), len(full), len(after_claim)) == (5, 0, 1)


@pytest.mark.django_db(transaction=True)
def test_many_relays_keep_one_bound_and_share_no_job():
    """The queue's row is the lock under which they count."""
    Queue.objects.get_or_create(name="default")
    enqueue_many(draft("test.echo", value=1) for _ in range(50))

    def relay_once(_) -> list[int]:
        try:
            return [job.id for job in relay_batch("default", database_now())]
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(relay_once, range(8)))

    handed = [job_id for batch in batches for job_id in batch]
    assert len(handed) == len(set(handed)) == 5
    assert Job.objects.filter(state=State.RELAYED).count() == 5


def test_message_carries_the_job_and_its_run_only():
    """The run in the message is the one the execution will have."""
    job = enqueue("test.echo", value="personal")
    broker, now = BrokerStub(), database_now()

    publish_batch(broker, relay_batch("default", now), now)

    assert broker.sent == [(job.id, 1)]


def test_what_the_broker_did_not_take_waits_again():
    """A failed publish costs no job its turn."""
    jobs = enqueue_many(draft("test.echo", value=1) for _ in range(4))
    broker, now = BrokerStub(takes=1), database_now()

    sent = publish_batch(broker, relay_batch("default", now), now)

    states = list(Job.objects.order_by("id").values_list("state", flat=True))
    assert sent == 1
    assert states == [State.RELAYED] + [State.WAITING] * 3
    assert [job.id for job in relay_batch("default", database_now())] == [job.id for job in jobs[1:]]


@pytest.mark.parametrize(
    ("seconds_ago", "relays", "depth", "is_returned"),
    [
        (GRACE_S + 1, 1, 0, True),
        (GRACE_S - 1, 1, 0, False),  # within the grace
        (GRACE_S + 1, 1, 3, False),  # messages lie there: it waits its turn
        (GRACE_S + 1, 1, None, False),  # the depth is unknown
        (GRACE_S + 1, 2, 0, False),  # relayed twice: the grace has doubled
        (2 * GRACE_S + 1, 2, 0, True),
        (4 * GRACE_S - 1, 3, 0, False),
    ],
)
def test_lost_message_is_found_by_an_empty_queue(seconds_ago, relays, depth, is_returned):
    """Only an empty queue and a passed grace prove the loss."""
    job = relayed(seconds_ago, relays=relays)

    returned = return_lost("default", BrokerStub(depth=depth), database_now())

    job.refresh_from_db()
    assert returned == int(is_returned)
    assert job.state == (State.WAITING if is_returned else State.RELAYED)


@pytest.mark.parametrize(
    ("other", "is_returned"),
    [
        ({}, True),
        ({"state": State.SUCCEEDED, "finished": True}, True),
        ({"seconds_ago": 18}, False),  # relayed before, or hardly after
        ({"priority": 9}, False),  # another list in the broker
        ({"queue": "mail"}, False),
        ({"relayed_at": None}, False),  # taken straight from the table, so it overtook no message
    ],
)
def test_overtaken_message_is_lost_also_while_others_lie_there(other, is_returned):
    """A queue is first in, first out: a later one that has started proves the loss."""
    now = database_now()
    job = relayed(20, now=now)
    if other.pop("finished", False):
        other["finished_at"] = now
    started(other.pop("seconds_ago", 10), now, **other)

    return_lost("default", BrokerStub(depth=3), now)

    job.refresh_from_db()
    assert job.state == (State.WAITING if is_returned else State.RELAYED)
