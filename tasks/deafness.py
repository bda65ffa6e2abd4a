"""Notice that a worker has gone deaf: it waits for messages, they lie in the broker, and it gets none.

Its connection may hang half open, or its consumers be gone; whatever the cause, starting anew cures it.
"""

from collections.abc import Callable
from datetime import timedelta
from time import monotonic

from tasks.broker import Broker
from tasks.clock import database_now
from tasks.models import Job
from tasks.states import State

DEAF_S = 30.0
LOOK_AGAIN_S = 5.0


class Hearing:
    """What a worker's main loop has heard.

    Told by the main loop through `listen` and `hear`; `is_deaf` is asked by the guardian, a thread of its own.
    """

    def __init__(self):
        self._broker = Broker()
        self.queues: tuple[str, ...] = ()  # those it listens to; none before the broker has answered
        self._is_busy: Callable[[], bool] = lambda: True  # nobody listens before the first message may come
        self._quiet_since = 0.0
        self._next_look = 0.0
        self._missed_since: float | None = None  # the quiet in which a message was missed already

    def listen(self, queues: tuple[str, ...], is_busy: Callable[[], bool]) -> None:
        """Note that the worker takes messages from now on, of which queues, and how to learn that it can take none."""
        self._quiet_since = monotonic()
        self.queues, self._is_busy = queues, is_busy

    def hear(self) -> None:
        """Note that a message has come."""
        self._quiet_since = monotonic()

    def is_deaf(self, now: float) -> bool:
        """Tell whether messages lay in the broker at two looks, with room for them here and no word of any between.

        Units: now in seconds of the monotonic clock; a look takes at most the broker's socket timeouts.
        Raises: DatabaseError.
        """
        if self._is_busy():
            self._quiet_since = now
        since = self._quiet_since
        if now - since < DEAF_S or now < self._next_look:
            return False
        self._next_look = now + LOOK_AGAIN_S
        is_second, self._missed_since = self._missed_since == since, None
        if not self._misses_messages() or since != self._quiet_since:
            return False
        self._missed_since = since
        return is_second

    def _misses_messages(self) -> bool:
        """Ask the table, which costs little, and then the broker, over a connection of its own.

        A row alone is no proof: the broker may have lost its message, or a frozen worker may hold it.
        """
        long_ago = database_now() - timedelta(seconds=DEAF_S)
        relayed = Job.objects.filter(queue__in=self.queues, state=State.RELAYED, relayed_at__lt=long_ago)
        queues = set(relayed.values_list("queue", flat=True))
        try:
            return bool(queues) and self._broker.is_up() and any(map(self._broker.depth, sorted(queues)))
        finally:
            self._broker.close()
