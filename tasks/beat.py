"""The scheduler of `celery beat`: of several processes one fires, the others stand by.

It keeps no plan in memory and needs no broker: each step reads the schedules and writes job rows.
Source: docs/decisions/0006-beat.md
"""

import logging
import os
import signal
import socket
from datetime import timedelta

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db import Error as DatabaseError
from django_celery_beat.schedulers import DatabaseScheduler

from tasks import locks
from tasks.clock import database_now
from tasks.firing import fire_due
from tasks.models import BeatHeartbeat
from tasks.notify import ServiceManager

log = logging.getLogger(__name__)

LOCK = "beat"
STEP_S = 1.0
SHORTEST_STEP_S = 0.01
WEDGED_AFTER_S = 30  # above all that a step may wait for: connecting, statements, SQLite's other writers
HEARTBEAT_EVERY = timedelta(seconds=5)
HEARTBEAT_KEPT = timedelta(days=1)
WHO = f"{socket.gethostname()}:{os.getpid()}"
# A session that hangs must neither hang beat nor keep the lock: of a host that is gone, PostgreSQL drops it soon.
SESSION = {
    "statement_timeout": "5s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "10s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


class Turn:
    """The right to fire. On PostgreSQL the session that holds the lock is the one that writes the firings."""

    def __init__(self):
        self._lock = None
        self._session = None  # psycopg's own: Django would quietly open another one, without the lock

    def is_ours(self) -> bool:
        """Tell whether this process fires; take the lock if nobody has it. Raises: DatabaseError."""
        if self._lock is not None:
            if self._session is None or self._session is connection.connection:
                return True
            self.give_up()
        if locks.is_held(LOCK):
            return False
        self._lock = locks.try_hold(LOCK)
        if isinstance(self._lock, locks.PostgresLock):
            self._write_on(self._lock.session)
        return self._lock is not None

    def _write_on(self, session) -> None:
        connection.close()
        connections[DEFAULT_DB_ALIAS] = session
        self._session = session.connection
        with session.cursor() as cursor:
            for name, value in SESSION.items():
                cursor.execute("SELECT set_config(%s, %s, false)", [name, value])

    def give_up(self) -> None:
        """Let another beat fire; twice is harmless."""
        if self._lock is not None:
            self._lock.release()
        self._lock = self._session = None
        connection.close()


class Scheduler(DatabaseScheduler):
    """What `celery beat` calls; of the base class only its name and its banner are used."""

    def __init__(self, *args, **kwargs):
        # Nothing that touches the database: Celery makes one for the banner, and one from within a signal handler.
        self._turn = Turn()
        self._is_firing: bool | None = None  # None: not known yet, or the database is away
        self._is_away = False
        self._seen_at = None
        self._manager = ServiceManager()
        super().__init__(*args, **kwargs)
        self.max_interval = STEP_S

    def setup_schedule(self):
        """Read nothing: beat starts while the database is down."""

    def sync(self):
        """Write nothing: each firing was written when it happened."""

    @property
    def schedule(self):
        """Return no entry: the rows are the plan."""
        return {}

    def tick(self, *args, **kwargs) -> float:
        """Fire what is due, or stand by.

        Units: seconds until the next call. A step that hangs ends the process, so that its supervisor starts it again.
        Raises: nothing for a database that is away: without it nothing fires, and no lock is believed in.
        """
        signal.alarm(WEDGED_AFTER_S)  # its default action needs no Python: it works in the midst of any call
        try:
            wait_s = self._step()
        except (DatabaseError, OSError) as error:
            self._database_away(error)
            self._manager.tell("waits for the database", is_ready=False)
            return STEP_S
        self._manager.tell("fires" if self._is_firing else "stands by: another beat fires")
        return wait_s

    def _step(self) -> float:
        is_firing = self._turn.is_ours()
        now = database_now()
        if is_firing is not self._is_firing:
            log.info("fires from now on" if is_firing else "stands by: another beat fires")
        following = fire_due(now) if is_firing else None
        self._beat(is_firing, now)
        self._is_away = False
        if following is None:
            return STEP_S
        return min(STEP_S, max(SHORTEST_STEP_S, (following - database_now()).total_seconds()))

    def _beat(self, is_firing: bool, now) -> None:
        """Write the heartbeat now and then, and when the part has changed."""
        if is_firing is self._is_firing and now < self._seen_at + HEARTBEAT_EVERY:
            return
        BeatHeartbeat.objects.update_or_create(who=WHO, defaults={"is_firing": is_firing, "seen_at": now})
        BeatHeartbeat.objects.filter(seen_at__lt=now - HEARTBEAT_KEPT).delete()
        self._is_firing, self._seen_at = is_firing, now

    def _database_away(self, error: Exception) -> None:
        if not self._is_away:
            log.warning("the database is away (%s): nothing fires until it is back", type(error).__name__)
        self._is_away, self._is_firing = True, None
        self._turn.give_up()

    def close(self) -> None:
        """Give the lock back at once, so that another beat need not wait; twice is harmless."""
        signal.alarm(0)
        super().close()
        self._turn.give_up()
