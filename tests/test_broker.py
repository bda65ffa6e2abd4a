"""The relay's hand on this rung's real broker: what a message holds, the depth, and a broker that is not there."""

import logging
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from celery import current_app
from django.conf import settings

from tasks.api import draft, enqueue_many
from tasks.broker import Broker, urgency
from tasks.models import Job
from tasks.registry import broker_queue

pytestmark = pytest.mark.django_db
ON_FILES = pytest.mark.rung("sqlite+filesystem", "postgresql+filesystem")  # elsewhere tests/live stops the server


@pytest.fixture
def broken_broker(broker):
    """Give a connection whose broker has gone away after it was up."""
    folder = settings.BROKER_DIR / "messages"
    shutil.rmtree(folder)
    yield broker
    folder.mkdir(exist_ok=True)


def jobs(count: int, **options) -> list[Job]:
    """Enqueue some jobs."""
    return enqueue_many(draft("test.echo", value="personal", **options) for _ in range(count))


def received(queue: str = "default") -> list:
    """Take all messages from a queue, on a connection of their reader's own."""
    with current_app.connection_for_read() as connection:
        reader = current_app.amqp.queues[broker_queue(queue)](connection.default_channel)
        return list(iter(lambda: reader.get(no_ack=True), None))


def test_message_holds_the_job_and_its_run_only(broker):
    """No argument, and so no personal data, ever reaches the broker."""
    (job,) = jobs(1)

    assert broker.publish(job)

    (message,) = received()
    assert message.decode()[0] == [job.id, 1]
    assert (message.headers["id"], message.headers["task"]) == (f"{job.id}.1", "test.echo")
    assert "personal" not in f"{message.body}{message.headers}{message.properties}"


@ON_FILES
def test_reader_never_meets_a_message_that_is_only_half_written(broker):
    """A worker that did would end by it."""
    count = 500

    def take_all() -> int:
        with current_app.connection_for_read() as connection:
            reader = current_app.amqp.queues[broker_queue("default")](connection.default_channel)
            taken = 0
            while taken < count:
                taken += reader.get(no_ack=True) is not None
            return taken

    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(take_all)
        for number in range(count):
            if not taken.done():  # it fails at once when it meets one
                broker.publish(Job(id=number, kind="test.echo", queue="default"))

    assert taken.result() == count


def test_depth_is_the_number_of_messages_in_that_queue(broker):
    """Of all priorities together, and of no other queue."""
    for job in [*jobs(2), *jobs(1, priority=9)]:
        broker.publish(job)

    assert (broker.depth("default"), broker.depth("mail")) == (3, 0)


@pytest.mark.parametrize(
    ("priority", "run", "served_as"), [(5, 0, 5), (5, 1, 6), (5, 7, 6), (0, 1, 1), (9, 0, 9), (9, 1, 9)]
)
def test_job_that_has_run_before_goes_before_its_like(priority, run, served_as):
    """And not before what is more urgent than that."""
    assert urgency(Job(priority=priority, run=run)) == served_as


def test_depth_is_unknown_without_a_connection():
    """Nothing may be decided from that."""
    assert Broker().depth("default") is None


def test_nothing_is_published_without_a_connection():
    """It is a refusal like any other, no crash: the job waits again."""
    (job,) = jobs(1)

    assert Broker().publish(job) is False


@ON_FILES
def test_second_queue_after_the_broker_went_away_is_refused_as_well(broken_broker):
    """The first failure drops the connection that the second would have used."""
    first, second = jobs(2)
    Job.objects.filter(id=second.id).update(queue="mail")
    second.refresh_from_db()

    told = [broken_broker.publish(first), broken_broker.publish(second), broken_broker.depth("mail")]

    assert told == [False, False, None]


@ON_FILES
def test_broker_that_is_away_is_told_once_and_rarely_tried(broken_broker, caplog):
    """One line an outage, with the reason."""
    caplog.set_level(logging.INFO, "tasks.broker")

    for job in jobs(3):
        broken_broker.publish(job)
        assert not broken_broker.is_up()

    (line,) = [record.getMessage() for record in caplog.records if record.name == "tasks.broker"]
    assert line.startswith("the broker is away (FileNotFoundError: ")


@ON_FILES
def test_connection_that_cannot_be_used_is_not_up(broken_broker, caplog):
    """Some transports connect only when they are used; that must not be told as being back."""
    broken_broker.close()
    caplog.set_level(logging.INFO, "tasks.broker")

    assert not broken_broker.is_up()

    assert "the broker is back" not in caplog.text
