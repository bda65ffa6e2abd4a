"""The relay's steps on the table: what is handed to the broker, in which order, how much, and what comes back."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from tasks.api import draft, enqueue, enqueue_many
from tasks.broker import Broker
from tasks.clock import database_now
from tasks.models import Job, Queue
from tasks.relay import publish_batch, relay_batch, return_lost
from tasks.states import State
from tasks.transitions import RELAYS_COUNTED

pytestmark = pytest.mark.django_db

GRACE_S = 15


class FullBroker(Broker):
    """The far edge: a real broker that takes so many messages and no more, which none can be told to do."""

    def __init__(self, *, takes: int):
        super().__init__()
        self._takes = takes

    def publish(self, job: Job) -> bool:
        """Take as many as given."""
        self._takes -= 1
        return self._takes >= 0 and super().publish(job)


@pytest.fixture(autouse=True)
def queue(settings):
    """Have the queue's row, and a small bound."""
    settings.JOBS_HIGH_WATER = 5
    settings.JOBS_LOST_GRACE_S = GRACE_S
    return Queue.objects.get_or_create(name="default")[0]


def fill(broker: Broker, count: int) -> None:
    """Put messages into the queue that no job waits for."""
    for number in range(count):
        assert broker.publish(Job(id=10**9 + number, kind="test.echo", queue="default"))


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

    assert (len(first), full, len(after_claim)) == (5, None, 1)


@pytest.mark.django_db(transaction=True)
def test_many_relays_keep_one_bound_and_share_no_job():
    """The queue's row is the lock under which they count."""
    Queue.objects.get_or_create(name="default")
    enqueue_many(draft("test.echo", value=1) for _ in range(50))

    def relay_once(_) -> list[int]:
        try:
            return [job.id for job in relay_batch("default", database_now()) or []]
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(relay_once, range(8)))

    handed = [job_id for batch in batches for job_id in batch]
    assert len(handed) == len(set(handed)) == 5
    assert Job.objects.filter(state=State.RELAYED).count() == 5


def test_messages_that_nobody_takes_are_bounded_too(broker):
    """Cancelled again and again without a worker: their messages stay in the broker, and count."""
    for _ in range(4):
        enqueue_many(draft("test.echo", value=1) for _ in range(5))
        now = database_now()
        publish_batch(broker, relay_batch("default", now, depth=broker.depth("default")) or [], now)
        Job.objects.filter(state=State.RELAYED).update(state=State.CANCELLED, finished_at=now)

    assert broker.depth("default") == 5


@pytest.mark.parametrize(("depth", "handed"), [(None, 4), (0, 4), (1, 4), (3, 2), (5, None), (9, None)])
def test_room_is_what_the_larger_of_both_counts_leaves(depth, handed):
    """An unknown depth does not count: the table's bound holds alone."""
    relayed(1)
    enqueue_many(draft("test.echo", value=1) for _ in range(9))

    batch = relay_batch("default", database_now(), depth=depth)

    assert (batch if batch is None else len(batch)) == handed


def test_what_the_broker_did_not_take_waits_again():
    """A failed publish costs no job its turn, and does not count as relayed."""
    jobs = enqueue_many(draft("test.echo", value=1) for _ in range(4))
    broker, now = FullBroker(takes=1), database_now()
    assert broker.is_up()

    sent = publish_batch(broker, relay_batch("default", now), now)

    rows = list(Job.objects.order_by("id").values_list("state", "relays"))
    assert sent == 1
    assert rows == [(State.RELAYED, 1)] + [(State.WAITING, 0)] * 3
    assert [job.id for job in relay_batch("default", database_now())] == [job.id for job in jobs[1:]]


def test_broker_that_is_away_for_long_does_not_lengthen_the_grace():
    """However often it refuses; and what it lost counts, up to a bound."""
    away, job = Broker(), enqueue("test.echo", value=1)

    for _ in range(20):
        now = database_now()
        publish_batch(away, relay_batch("default", now), now)

    job.refresh_from_db()
    assert (job.state, job.relays) == (State.WAITING, 0)


def test_job_that_is_lost_again_and_again_does_not_overflow():
    """Its count ends far above what the grace can double."""
    job, now = enqueue("test.echo", value=1), database_now()
    Job.objects.filter(id=job.id).update(relays=32_767)

    Job.objects.relay([job.id], now)
    Job.objects.unrelay([job.id], now)

    assert Job.objects.get(id=job.id).relays == RELAYS_COUNTED


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
def test_lost_message_is_found_by_an_empty_queue(broker, seconds_ago, relays, depth, is_returned):
    """Only an empty queue and a passed grace prove the loss."""
    job = relayed(seconds_ago, relays=relays)
    fill(broker, depth or 0)

    returned = return_lost("default", Broker() if depth is None else broker, database_now())

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
        ({"priority": 4, "run": 2}, True),  # it had run before, so it went before its like: the same list
        ({"run": 2}, False),  # another list
        ({"relayed_at": None}, False),  # taken straight from the table, so it overtook no message
    ],
)
def test_overtaken_message_is_lost_also_while_others_lie_there(broker, other, is_returned):
    """A queue is first in, first out: a later one that has started proves the loss."""
    now = database_now()
    job = relayed(20, now=now)
    if other.pop("finished", False):
        other["finished_at"] = now
    started(other.pop("seconds_ago", 10), now, **other)
    fill(broker, 3)

    return_lost("default", broker, now)

    job.refresh_from_db()
    assert job.state == (State.WAITING if is_returned else State.RELAYED)
