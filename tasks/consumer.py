"""A worker's main loop on the broker's side: how it waits for the broker, and that it is heard listening."""

from collections.abc import Callable
from functools import partial

from celery.worker import state
from celery.worker.consumer import Consumer

from tasks.guardian import guardian
from tasks.registry import queue_of

LONGEST_WAIT_S = 5


class JobConsumer(Consumer):
    """Celery's consumer, impatient at the start, and with a guardian who notices when it goes deaf.

    A queue whose consumer is cancelled by remote control counts as one that it should hear.
    """

    def ensure_connected(self, conn):
        """Wait for a broker that is away at the start. Celery's own waits grow to 30 s, and so late would work flow."""
        conn.ensure_connection = partial(wait_for_broker, conn.ensure_connection)
        return super().ensure_connected(conn)

    def on_ready(self):
        """Tell the guardian what this worker listens to from now on."""
        super().on_ready()
        queues = tuple(map(queue_of, self.app.amqp.queues.consume_from))
        guardian.hearing.listen(queues, is_busy=lambda: len(state.reserved_requests) >= self.pool.num_processes)

    def create_task_handler(self):
        """Tell the guardian of every message that comes."""
        take = super().create_task_handler()

        def hear_and_take(message):
            guardian.hearing.hear()
            return take(message)

        return hear_and_take


def wait_for_broker(ensure_connection: Callable, *args, callback: Callable, **options):
    """Connect, and note a turn of the main loop with each second of waiting."""

    def turn() -> None:
        guardian.note_turn()
        callback()

    return ensure_connection(*args, callback=turn, interval_max=LONGEST_WAIT_S, **options)
