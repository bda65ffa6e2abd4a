"""Which worker is deaf: one that has room, hears nothing, and whose messages lie in the broker."""

from datetime import timedelta
from time import monotonic

import pytest

from tasks.clock import database_now
from tasks.deafness import DEAF_S, LOOK_AGAIN_S, Hearing
from tasks.models import Job
from tasks.states import State
from tests.rows import row

pytestmark = pytest.mark.django_db


@pytest.fixture
def listening():
    """Give the hearing of a worker of queue default that has room."""
    made = Hearing()
    made.listen(("default",), is_busy=lambda: False)
    return made


def relayed(**fields) -> Job:
    """Write a job that was handed over more than long enough ago."""
    return row(State.RELAYED, relayed_at=database_now() - timedelta(seconds=DEAF_S + 1), **fields)


def is_deaf_at_last(hearing: Hearing, quiet_s: float = DEAF_S) -> bool:
    """Look twice, the first time after so many seconds of quiet."""
    first = monotonic() + quiet_s
    return [hearing.is_deaf(first), hearing.is_deaf(first + LOOK_AGAIN_S)][-1]


def test_worker_that_misses_its_messages_is_deaf_at_the_second_look(broker, listening):
    """At the first one the message may just be on its way."""
    assert broker.publish(relayed())

    first = monotonic() + DEAF_S
    looks = [listening.is_deaf(first + seconds) for seconds in (0, 1, LOOK_AGAIN_S)]

    assert looks == [False, False, True]


@pytest.mark.parametrize("relays", [1, 2, 5])
def test_how_often_the_job_was_relayed_does_not_matter(broker, listening, relays):
    """A message sent again may be the only one left to miss."""
    assert broker.publish(relayed(relays=relays))

    assert is_deaf_at_last(listening)


def test_row_without_a_message_is_no_proof(broker, listening):
    """The broker has lost it, or a frozen worker has it: neither is this worker's fault, nor cured by its end."""
    relayed()

    assert not is_deaf_at_last(listening)


def test_message_of_a_job_that_was_just_relayed_is_no_proof(broker, listening):
    job = row(State.RELAYED)
    assert broker.publish(job)

    assert not is_deaf_at_last(listening)


def test_messages_of_another_queue_are_not_missed(broker):
    hearing = Hearing()
    hearing.listen(("mail",), is_busy=lambda: False)
    assert broker.publish(relayed())

    assert not is_deaf_at_last(hearing)


def test_busy_worker_is_not_deaf(broker):
    """Nor when its child has become free a moment ago."""
    is_busy = [True]
    hearing = Hearing()
    hearing.listen(("default",), is_busy=lambda: is_busy[0])
    assert broker.publish(relayed())
    now = monotonic() + 10 * DEAF_S

    looks = [hearing.is_deaf(now), hearing.is_deaf(now + LOOK_AGAIN_S)]
    is_busy[0] = False
    looks += [hearing.is_deaf(now + 2 * LOOK_AGAIN_S), hearing.is_deaf(now + 3 * LOOK_AGAIN_S)]

    assert looks == [False] * 4


def test_worker_that_just_started_or_has_not_reached_its_broker_is_not_deaf(broker, listening):
    assert broker.publish(relayed())

    assert not is_deaf_at_last(listening, quiet_s=DEAF_S - 1 - LOOK_AGAIN_S)
    assert not is_deaf_at_last(Hearing())


def test_worker_that_hears_between_the_looks_is_not_deaf(broker, listening):
    """A frozen one that goes on finds old messages at its first look."""
    assert broker.publish(relayed())
    first = monotonic() + DEAF_S

    looks = [listening.is_deaf(first)]
    listening.hear()
    looks += [listening.is_deaf(first + LOOK_AGAIN_S)]

    assert looks == [False, False]
