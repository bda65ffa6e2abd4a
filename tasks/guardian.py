"""A thread in each worker's main process: it holds the worker's lock and looks after its children's jobs.

It runs in every phase, also while the main loop waits for a broker or drains, on a database connection of its own.
Source: docs/decisions/0002
"""

import logging
import os
import signal
import threading
from time import monotonic, sleep

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db import Error as DatabaseError

from tasks import locks, shutdown
from tasks.children import Children
from tasks.claiming import WORKER
from tasks.deafness import Hearing
from tasks.heartbeat import Heartbeat
from tasks.notify import ServiceManager

log = logging.getLogger(__name__)

LOOK_S = 0.5
STUCK_S = 40.0  # a main loop that has not turned for so long: above all that a broker may keep it waiting
LOCK = locks.of_worker(WORKER)
COLD_S = 15.0  # Celery ends by force at the third SIGQUIT: none comes before the first one's shutdown has had its time


class Guardian(threading.Thread):
    """Two looks a second: the lock, the children, the heartbeat, whether the worker still hears.

    Locks: `worker:<identity>`, held for the process's life. Connections: two, one for the lock, one for the looks.
    """

    def __init__(self):
        super().__init__(name="guardian", daemon=True)
        self.heartbeat = Heartbeat(WORKER, list)  # the worker sets its queues
        self.children = Children()
        self.hearing = Hearing()
        self._lock = self._session = None
        self._wake = threading.Event()
        self._is_away = False
        self._drain_ends: float | None = None
        self._is_cold = False
        self._manager = ServiceManager()
        self._turned_at: float | None = None  # None: this worker has no event loop to tell of its turns

    def explain(self, pid: int | None, reason: str) -> None:
        """Note why a child has ended, or is about to, and look at once."""
        self.children.explain(pid, reason)
        self._wake.set()

    def drain(self, seconds: float) -> None:
        """End the worker cold when its jobs have not ended by then; the shortest bound counts.

        Units: seconds. Called in a signal handler, so it takes no lock: the next look sees it.
        """
        if not self._is_cold:
            ends = monotonic() + seconds
            self._drain_ends = min(ends, self._drain_ends or ends)

    def give_time_for_cold_shutdown(self) -> None:
        """Send no SIGQUIT while a cold shutdown gives its jobs back; a later one helps where it hangs.

        Called in a signal handler.
        """
        self._is_cold = True
        self._drain_ends = monotonic() + COLD_S

    def watch_main_loop(self) -> None:
        """Be told of the main loop's turns from now on; without one of a while, no sign of life is given."""
        self._turned_at = monotonic()

    def note_turn(self) -> None:
        """Note that the main loop turns. Called by it at least once a second."""
        if self._turned_at is not None:
            self._turned_at = monotonic()

    def run(self) -> None:
        """Look until the process ends. Raises: nothing for a database that is away."""
        self._session = connections[DEFAULT_DB_ALIAS]  # this thread's own
        threading.Thread(target=self._watch_drain, name="drain", daemon=True).start()
        while True:
            try:
                self.look()
                self._is_away = False
                self.heartbeat.beat()
                if not shutdown.has_begun() and self.hearing.is_deaf(monotonic()):
                    self._end_deaf()
                self._tell_manager()
            except DatabaseError as error:
                self._database_away(error)
                self._tell_manager()
            except Exception:  # without the guardian nobody would look after the children
                log.exception("the guardian's look failed; it looks again")
            self._wake.wait(LOOK_S)
            self._wake.clear()

    def look(self) -> None:
        """Hold the lock, and look after the children."""
        if self._lock is None or not self._lock.is_ours():
            self._lock = locks.try_hold(LOCK)
        self.children.look()

    def forget_in_child(self) -> None:
        """Close what a forked child has inherited of both connections, so that they end with the main process alone.

        Shape: the sockets only; close() of a connection would tell the server to end the session.
        """
        if self._lock is not None:
            os.close(self._lock.fileno())
        if self._session is not None and self._session.vendor == "postgresql" and self._session.connection is not None:
            os.close(self._session.connection.fileno())

    def _database_away(self, error: Exception) -> None:
        if not self._is_away:
            log.warning(
                "the database is away (%s); the worker's lock is taken again when it is back", type(error).__name__
            )
        self._is_away = True
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        connection.close()

    def _tell_manager(self) -> None:
        """Feed the watchdog while the main loop turns too; at its end it only waits for jobs, bounded by the drain."""
        has_turned = self._turned_at is None or monotonic() - self._turned_at < STUCK_S
        if has_turned or shutdown.has_begun():
            self._manager.tell(self._standing(), is_ready=self._lock is not None)

    def _standing(self) -> str:
        if self._lock is None:
            return "waits for the database"
        if shutdown.has_begun():
            return "finishes what runs, and takes nothing new"
        return f"takes {', '.join(self.hearing.queues)}" if self.hearing.queues else "waits for the broker"

    def _watch_drain(self) -> None:
        """Keep the drain's bound also while the database does not answer the looks."""
        while True:
            self._end_drain()
            sleep(LOOK_S)

    def _end_drain(self) -> None:
        if self._drain_ends is not None and monotonic() > self._drain_ends:
            log.warning("the jobs have not ended in time: they are given back, and the worker ends")
            self._end_cold()

    def _end_deaf(self) -> None:
        """End the worker, so that its supervisor starts it anew."""
        log.error("messages wait in the broker and this worker hears none of them: it ends, to be started again")
        late = threading.Timer(COLD_S, os._exit, [1])  # the main loop may hang, and see no signal
        late.daemon = True
        late.start()
        self._end_cold()

    def _end_cold(self) -> None:
        """Begin a cold shutdown: what the worker runs is given back without charge."""
        shutdown.begin()
        self.give_time_for_cold_shutdown()
        os.kill(os.getpid(), signal.SIGQUIT)


guardian = Guardian()
