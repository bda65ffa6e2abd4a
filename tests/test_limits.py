"""What a rate limit or a cap lets through: at the relay, and exactly at the claim."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from tasks import limits
from tasks.api import RateLimit, draft, enqueue, enqueue_many, hold_rate_limit, job
from tasks.clock import database_now
from tasks.models import Job, Limit, Queue
from tasks.relay import relay_batch
from tasks.states import State
from tests.rows import row

pytestmark = pytest.mark.django_db
OWNER = {"worker": "host:1:1", "child_pid": 2}


@pytest.fixture(autouse=True)
def queue():
    """Have the queue's row, as a relay does."""
    return Queue.objects.get_or_create(name="default")[0]


def claim(found: Job) -> Job | None:
    """Do what a worker does with the job's message."""
    return limits.claim(found.kind, found.id, found.run + 1, **OWNER)


def relayed(kind: str, count: int) -> list[Job]:
    """Return jobs that somebody has handed over, as many as asked for."""
    return [row(State.RELAYED, kind=kind) for _ in range(count)]


def state_of(found: Job) -> str:
    """Return the state as it is now."""
    return Job.objects.get(id=found.id).state


def test_relay_hands_over_no_more_than_there_are_turns_soon():
    """The rest waits in the table, and other kinds pass it, however many there are."""
    enqueue_many(draft("test.rated") for _ in range(100))
    other = enqueue("test.noop", priority=0)

    jobs = relay_batch("default", database_now())

    assert jobs.pop().id == other.id
    assert 0 < len(jobs) <= 10 * limits.AHEAD.total_seconds() + 1


def test_relay_hands_over_no_more_than_may_run():
    """What runs and what is on its way counts."""
    row(State.RUNNING, kind="test.capped")
    enqueue_many(draft("test.capped") for _ in range(5))

    assert len(relay_batch("default", database_now())) == 1
    assert relay_batch("default", database_now()) == []


def test_kinds_that_share_a_limit_share_its_turns():
    """A turn taken for one is gone for the other."""
    first, second = relayed("test.rated", 1) + relayed("test.rated_too", 1)

    claim(first)
    free_at = Limit.objects.get(name="test").free_at
    claim(second)

    assert Limit.objects.get(name="test").free_at >= free_at + timedelta(seconds=0.1)


def test_kinds_that_share_a_limit_are_handed_over_for_its_turns_once():
    """Not each of them for all of them; in the order in which they were due."""
    jobs = enqueue_many(draft(kind) for _ in range(10) for kind in ("test.rated", "test.rated_too"))

    handed = relay_batch("default", database_now())

    assert 0 < len(handed) <= 10 * limits.AHEAD.total_seconds() + 1
    assert [found.id for found in handed] == [found.id for found in jobs[: len(handed)]]


def test_claim_waits_for_its_turn():
    """It comes a little later: the child keeps the job and starts it then."""
    Limit.objects.create(name="test", free_at=database_now() + timedelta(seconds=0.3))
    [found] = relayed("test.rated", 1)

    claimed = claim(found)

    assert database_now() - Limit.objects.get(name="test").free_at > timedelta(seconds=-0.12)
    assert claimed.id == found.id
    assert state_of(found) == State.RUNNING


def test_job_whose_turn_is_far_off_goes_back_without_charge():
    """It keeps no child, takes no turn, and is not handed over again at once."""
    free_at = database_now() + timedelta(seconds=30)
    Limit.objects.create(name="test", free_at=free_at)
    [found] = relayed("test.rated", 1)

    assert claim(found) is None

    back = Job.objects.get(id=found.id)
    assert (back.state, back.run, back.attempts) == (State.WAITING, 0, 0)
    assert back.run_at > database_now()
    assert Limit.objects.get(name="test").free_at == free_at


def test_message_that_names_no_relayed_job_takes_no_turn():
    """A duplicate costs nobody anything."""
    found = row(State.SUCCEEDED, kind="test.rated")

    assert claim(found) is None

    assert not Limit.objects.filter(free_at__isnull=False).exists()


def test_cap_holds_at_the_claim():
    """Whatever was handed over: two run, the third goes back without charge."""
    jobs = relayed("test.capped", 3)

    claimed = [claim(found) for found in jobs]

    assert [found is not None for found in claimed] == [True, True, False]
    back = Job.objects.get(id=jobs[2].id)
    assert (back.state, back.run, back.attempts) == (State.WAITING, 0, 0)


def test_ended_job_frees_its_slot():
    """There is no slot to leak: what runs is counted in the rows."""
    jobs = relayed("test.capped", 3)
    first = claim(jobs[0])
    claim(jobs[1])

    Job.objects.succeed(first)

    assert claim(jobs[2]) is not None


@pytest.mark.django_db(transaction=True)
def test_cap_holds_against_claims_at_the_same_moment():
    """Eight children at once, two may."""
    jobs = relayed("test.capped", 8)
    together = threading.Barrier(8)

    def claim_at_once(found: Job) -> Job | None:
        together.wait(10)
        try:
            return claim(found)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(claim_at_once, jobs))

    assert sum(found is not None for found in claimed) == 2
    assert Job.objects.filter(kind="test.capped", state=State.RUNNING).count() == 2


def test_kind_with_a_limit_starts_no_further_jobs_from_one_message():
    """Each start goes through the claim that counts it."""
    row(State.WAITING, kind="test.capped")

    assert limits.claim_next("test.capped", "default", **OWNER) is None


def test_kinds_that_share_a_limit_have_to_agree_on_it():
    with pytest.raises(ValueError, match=r"test\.rated_differently and test\.rated share the rate limit test"):

        @job("test.rated_differently", rate_limit=RateLimit("test", 99))
        def rated_differently():
            """Never registered."""


def test_held_limit_hands_over_nothing_and_other_kinds_pass():
    """A provider that is down is left alone, and nobody else waits for it."""
    enqueue_many(draft("test.rated") for _ in range(3))
    other = enqueue("test.noop", priority=0)

    hold_rate_limit("test", 60)

    assert [job.id for job in relay_batch("default", database_now())] == [other.id]


def test_job_that_was_handed_over_before_the_hold_goes_back_uncharged():
    """It had its message already."""
    found = relayed("test.rated", 1)[0]
    hold_rate_limit("test", 60)

    assert claim(found) is None

    found.refresh_from_db()
    assert (found.state, found.attempts) == (State.WAITING, 0)


def test_longer_hold_stays_when_a_shorter_one_comes():
    """Retry-After said an hour, then a call that was under way failed."""
    hold_rate_limit("test", 3600)

    hold_rate_limit("test", 10)

    assert Limit.objects.get(name="test").free_at > database_now() + timedelta(minutes=50)
