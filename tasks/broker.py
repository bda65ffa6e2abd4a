"""The relay's hand on the broker: publish, ask for the depth, and stay calm while it is away."""

import logging
from time import monotonic

from celery import current_app
from django.db.models import Q
from kombu.exceptions import OperationalError

from tasks.backoff import outage_delays_s
from tasks.models import Job
from tasks.registry import broker_queue
from tasks.scrub import scrub

log = logging.getLogger(__name__)

MAX_DELAY_S = 10.0
MOST_URGENT = 9


class Broker:
    """One connection to the broker. While it is away, tries are rare, and one line an outage is logged."""

    def __init__(self):
        self._connection = None
        self._producer = None
        self._delays = None
        self._next_try = 0.0

    @property
    def standing(self) -> str:
        """Return in words what is known of the broker, without asking it."""
        if self._producer is not None:
            return "the broker answers"
        return "nothing has been asked of the broker yet" if self._delays is None else "the broker is away"

    def is_up(self) -> bool:
        """Tell whether the broker answers now; connects if its turn to try has come.

        Units: a try takes at most the transport's socket timeouts; the wait between tries is capped at 10 s.
        """
        if self._producer is not None:
            return True
        if monotonic() < self._next_try:
            return False
        try:
            self._connection = current_app.connection_for_write()
            self._connection.ensure_connection(max_retries=1, interval_start=0)
            self._producer = current_app.amqp.Producer(self._connection)
        except self._errors() as error:
            self._lose(error)
            return False
        if self.depth("default") is None:  # a transport may only connect when it is used
            return False
        if self._delays is not None:
            log.info("the broker is back")
        self._delays = None
        return True

    def publish(self, job: Job) -> bool:
        """Send one wake-up; False when the broker did not take it.

        Shape: the message is [job id, the run it would be], nothing else; the task id is `<job>.<run>`.
        """
        if self._producer is None:
            return False
        run = job.run + 1
        try:
            current_app.send_task(
                job.kind,
                args=[job.id, run],
                task_id=f"{job.id}.{run}",
                argsrepr=f"(job {job.id}, run {run})",
                kwargsrepr="{}",
                queue=broker_queue(job.queue),
                priority=self._priority(urgency(job)),
                producer=self._producer,
                retry=False,
            )
        except self._errors() as error:
            self._lose(error)
            return False
        return True

    def depth(self, queue: str) -> int | None:
        """Return how many messages lie in a queue; None when that cannot be known now."""
        if self._producer is None:
            return None
        try:
            declared = current_app.amqp.queues[broker_queue(queue)](self._producer.channel).queue_declare()
        except self._errors() as error:
            self._lose(error)
            return None
        return declared.message_count

    def close(self) -> None:
        """Drop the connection."""
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            connection.release()

    def _priority(self, priority: int) -> int:
        """Return our 0 to 9 (9 is urgent) as the transport means it: Redis serves 0 first, AMQP 9."""
        return 9 - priority if self._connection.transport.driver_type == "redis" else priority

    def _errors(self) -> tuple:
        found = self._connection
        return (OperationalError, OSError) + (
            (*found.connection_errors, *found.channel_errors) if found is not None else ()
        )

    def _lose(self, error: Exception) -> None:
        if self._delays is None:
            self._delays = outage_delays_s(cap_s=MAX_DELAY_S)
            reason = scrub(f"{type(error).__name__}: {error}".partition("\n")[0], limit=300, is_start_kept=True)
            log.warning("the broker is away (%s); jobs wait in the table, trying again", reason)
        self._next_try = monotonic() + next(self._delays)
        try:
            self.close()
        except self._errors() as closing:
            log.debug("closing the lost connection: %s", type(closing).__name__)


def urgency(job: Job) -> int:
    """Return with which priority a job's message is served, 0 to 9: one that has run before goes before its like.

    It was due before those that wait now; behind them, a killed worker's job would come late.
    """
    return min(MOST_URGENT, job.priority + bool(job.run))


def served_as(urgency: int) -> Q:
    """Return which started jobs had a message of this urgency."""
    again = [urgency - 1, *([urgency] if urgency == MOST_URGENT else [])]
    return Q(run=1, priority=urgency) | Q(run__gt=1, priority__in=again)
