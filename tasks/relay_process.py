"""The relay's process: step after step until it is told to stop, whatever becomes of the database and the broker."""

import logging
import os
import select
import signal
from datetime import datetime
from enum import Enum
from time import monotonic

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.backends.signals import connection_created

from tasks import locks
from tasks.backoff import outage_delays_s
from tasks.broker import Broker
from tasks.clock import database_now
from tasks.enqueue import CHANNEL
from tasks.models import Queue
from tasks.notify import ServiceManager
from tasks.pauses import claimable
from tasks.relay import publish_batch, relay_batch, return_lost
from tasks.relay_limits import AWAY, STEP_S, STOP_S, Cut, complaint
from tasks.rescue import Rescue

log = logging.getLogger(__name__)

FULL_WAIT_S = 0.02  # a full queue frees room whenever a worker claims
LIMITED_WAIT_S = 0.1  # the next turn of a rate limit is looked for some way ahead
POLL_WITHOUT_NOTIFY_S = 0.2
LOOK_S = 1.0  # between two looks for lost messages and dead workers


class Pace(Enum):
    """What a step found, and so how long to wait."""

    SENT = 0  # more may be due
    FULL = 1  # as many with the broker as may be
    LIMITED = 2  # what is due waits for its turn, or for one of its kind to end
    IDLE = 3  # nothing due


WAITS_S = {Pace.FULL: FULL_WAIT_S, Pace.LIMITED: LIMITED_WAIT_S}


class Relay:
    """The relay's process: one step after another until SIGTERM.

    Locks: `relay`, shared. Connections: two to the database (work; lock and LISTEN), one to the broker.
    Units: a stop takes at most 8 s more than the broker's own timeouts, whatever the database does.
    """

    def __init__(self):
        self.broker = Broker()
        self.rescue = Rescue()
        self._lock = None
        self._next_look = 0.0
        self._outage = None
        self._complaints: set[str] = set()  # each is logged once an outage
        self._is_stopping = False
        self._manager = ServiceManager()
        self._cut = Cut()
        connection_created.connect(self._cut.limit_session)
        connection.close()  # a session from before this line has no limits
        self._wake, wake_end = _pipe()
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def run(self) -> None:
        """Relay until told to stop. Raises: nothing for a broker that is away, nor for any error of the database."""
        log.info("relay started")
        while not self._is_stopping:
            try:
                self._cut.set(STEP_S)
                pace = self.step()
                self._cut.set(0)
                if self._outage:
                    log.info("the database is back")
                self._outage = None
                self._complaints.clear()
                self._manager.tell(f"relays; {self.broker.standing}", is_ready=self._lock is not None)
                self._wait(pace)
            except DatabaseError as error:
                self._manager.tell("waits for the database", is_ready=False)
                self._database_failed(error)
        self._let_go()
        log.info("relay stopped")

    def step(self) -> Pace:
        """Do one round over the queues and return how it went."""
        self._hold_lock()
        now = database_now()
        queues = settings.JOBS_QUEUES
        if monotonic() >= self._next_look:
            self._next_look = monotonic() + LOOK_S
            for queue in queues:
                return_lost(queue, self.broker, now)
            self.rescue.step(now, monotonic())
        paces = [self._relay(queue, now) for queue in queues if claimable(now).filter(queue=queue).exists()]
        return min(paces, key=lambda pace: pace.value, default=Pace.IDLE)

    def _relay(self, queue: str, now: datetime) -> Pace:
        """Hand over what is due in a queue. The depth is asked for before the transaction."""
        if not self.broker.is_up():
            return Pace.IDLE
        jobs = relay_batch(queue, now, depth=self.broker.depth(queue))
        if jobs is None:
            return Pace.FULL
        return Pace.SENT if publish_batch(self.broker, jobs, now) else Pace.LIMITED

    def _hold_lock(self) -> None:
        if self._lock is not None:
            return
        Queue.objects.bulk_create([Queue(name=name) for name in settings.JOBS_QUEUES], ignore_conflicts=True)
        self._lock = locks.try_hold(locks.RELAY, is_shared=True)
        if self._lock and connection.vendor == "postgresql":
            with self._lock.session.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")

    def _wait(self, pace: Pace) -> None:
        """Wait for due rows, a signal, or a moment. On PostgreSQL the enqueuing commit wakes us."""
        if pace is Pace.SENT:
            return
        is_listening = self._lock is not None and connection.vendor == "postgresql"
        idle_s = settings.JOBS_POLL_S if is_listening else POLL_WITHOUT_NOTIFY_S
        wait_s = WAITS_S.get(pace, idle_s)
        if not is_listening:
            return self._pause(wait_s)
        with self._lock.session.wrap_database_errors:
            self._pause(wait_s, self._lock.session.connection)
            for _ in self._lock.session.connection.notifies(timeout=0):
                continue

    def _pause(self, seconds: float, *watched) -> None:
        """Wait so long, or until a signal or one of the watched has something."""
        ready, _, _ = select.select([self._wake, *watched], [], [], seconds)
        if self._wake in ready:
            os.read(self._wake, 1_024)

    def _database_failed(self, error: DatabaseError) -> None:
        if not self._is_stopping:
            self._cut.set(0)
        what, reason = complaint(error)
        if what not in self._complaints:
            self._complaints.add(what)
            log.warning("%s (%s); trying again", what, reason)
        self._outage = self._outage or outage_delays_s()
        if what == AWAY:  # a lock timeout, e.g. behind a frozen relay, must not keep rescue from its second look
            self.rescue.forget()
        connection.close()
        self._let_go()
        self._pause(next(self._outage))

    def _let_go(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _stop(self, *_) -> None:
        self._is_stopping = True
        self._cut.set(STOP_S)


def _pipe() -> tuple[int, int]:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    return read_end, write_end
