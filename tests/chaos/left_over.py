"""What may be left over when everything has ended: nothing."""

import fcntl
from pathlib import Path

from django.conf import settings
from django.db import connection

from tests.services import Redis


def messages_left(redis: Redis | None) -> int:
    """Return how many messages lie in the broker's queues.

    Those that a killed worker had taken are not among them: they come back after the visibility timeout, and are
    refused then, since their jobs have ended.
    """
    if redis is None:
        return len(list((settings.BROKER_DIR / "messages").glob("*.q.*.msg")))
    with redis.client() as client:
        return sum(client.llen(key) for key in client.scan_iter("q.*", count=1_000))


def locks_left() -> list[str]:
    """Return the locks that are still held: on PostgreSQL advisory ones, on SQLite files."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pid, objid FROM pg_locks WHERE locktype = 'advisory'")
            return [f"advisory, session {pid}, key {key}" for pid, key in cursor.fetchall()]
    folder = Path(f"{connection.settings_dict['NAME']}.locks")
    return [file.name for file in folder.glob("*.lock") if is_locked(file)]


def is_locked(path: Path) -> bool:
    """Tell whether some process has locked the file."""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
