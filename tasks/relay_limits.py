"""What keeps the relay from waiting for the database for ever, and how it names what went wrong."""

import contextlib
import os
import signal
import socket
from weakref import WeakSet

from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper

from tasks.scrub import scrub

STATEMENT_S = 10
LOCK_S = 5
STEP_S = 15.0  # above both: it acts only where the server cannot, being frozen
STOP_S = 8.0
AGAIN_S = 1.0

AWAY = "the database is away"
TIMED_OUT = ("57014", "55P03")  # PostgreSQL: query_canceled, lock_not_available


class Cut:
    """The bounds of this process's database sessions: the server's own, and a timer for a server that does not answer.

    The timer shuts the sessions' sockets down, so what waits gets an ordinary database error. Signals: SIGALRM.
    """

    def __init__(self):
        self._sessions: WeakSet[BaseDatabaseWrapper] = WeakSet()
        signal.signal(signal.SIGALRM, self._act)

    def limit_session(self, *, connection: BaseDatabaseWrapper, **kwargs) -> None:
        """Bound what a new session waits for. Receives connection_created."""
        self._sessions.add(connection)
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(
                    "SELECT set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false)",
                    [f"{STATEMENT_S}s", f"{LOCK_S}s"],
                )
            else:
                cursor.execute(f"PRAGMA busy_timeout = {LOCK_S * 1_000}")

    def set(self, seconds: float) -> None:
        """Act in so many seconds and each second from then on, instead of at an earlier set time; 0 means never.

        Again and again, since a session may be just being made at the first time.
        """
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)

    def _act(self, *_) -> None:
        for session in self._sessions:
            if session.vendor == "postgresql" and session.connection is not None and not session.connection.closed:
                shut_down(session.connection.fileno())


def shut_down(socket_number: int) -> None:
    """End a socket's connection without closing it: its owner reads the end of it."""
    with socket.socket(fileno=os.dup(socket_number)) as copy, contextlib.suppress(OSError):  # it may be gone already
        copy.shutdown(socket.SHUT_RDWR)


def complaint(error: DatabaseError) -> tuple[str, str]:
    """Return what went wrong and the server's own words for it, without personal data.

    Shape: the server's first line; those after it may quote a whole row.
    """
    reason = scrub(f"{type(error).__name__}: {error}".partition("\n")[0], limit=500, is_start_kept=True)
    if getattr(error.__cause__, "sqlstate", None) in TIMED_OUT or "database is locked" in reason:
        return "the database does not answer in time", reason
    if isinstance(error, OperationalError | InterfaceError):
        return AWAY, reason
    return f"the database refuses what the relay asks of it with {type(error).__name__}", reason
