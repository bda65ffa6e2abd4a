"""Hold a named lock as long as this process lives. The system drops it at the moment the process dies.

PostgreSQL: a session advisory lock on a connection of its own. SQLite: an flock on a file beside the database.
Source: design record docs/decisions/0001.
"""

import fcntl
import hashlib
import os
from pathlib import Path
from time import monotonic, sleep

from django.db import connection

RELAY = "relay"  # held by every relay together
LOOK_PASSES_S = 0.25
TRY_AGAIN_S = 0.002


class PostgresLock:
    """An advisory lock and the session that holds it; the session may also be used to LISTEN."""

    def __init__(self, name: str, *, is_shared: bool):
        self.session = connection.copy()
        function = "pg_try_advisory_lock_shared" if is_shared else "pg_try_advisory_lock"
        with self.session.cursor() as cursor:
            cursor.execute(f"SELECT {function}(%s)", [_key(name)])
            self.is_held = cursor.fetchone()[0]

    def is_ours(self) -> bool:
        """Tell whether the session lives, and with it the lock. Raises: DatabaseError."""
        with self.session.cursor() as cursor:
            cursor.execute("SELECT 1")
        return True

    def fileno(self) -> int:
        """Return the session's socket, for a forked child to close."""
        return self.session.connection.fileno()

    def release(self) -> None:
        """Give the lock back by ending its session."""
        self.session.close()


class FileLock:
    """A lock on a file. Locks: the file, shared or exclusive, for as long as it is open.

    Units: tries for a quarter of a second, since whoever looks has the file for a moment.
    """

    def __init__(self, name: str, *, is_shared: bool):
        self._path, self._mode = _path(name), fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        self._path.parent.mkdir(parents=True, exist_ok=True)
        deadline = monotonic() + LOOK_PASSES_S
        while not (is_held := self._try()) and monotonic() < deadline:
            self.release()
            sleep(TRY_AGAIN_S)
        self.is_held = is_held

    def _try(self) -> bool:
        """Open the file and lock it, unless somebody has it, or has removed it in between."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return _flock(self._file, self._mode) and os.fstat(self._file).st_nlink > 0

    def is_ours(self) -> bool:
        """Tell whether the file is still locked: as long as it is open."""
        return self._file >= 0

    def fileno(self) -> int:
        """Return the open file, for a forked child to close."""
        return self._file

    def release(self) -> None:
        """Give the lock back by closing the file; twice is harmless."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def of_worker(worker: str) -> str:
    """Return the name of a worker's liveness lock."""
    return f"worker:{worker}"


def try_hold(name: str, *, is_shared: bool = False) -> PostgresLock | FileLock | None:
    """Take the lock and return it, or None when somebody else has it.

    Shape: shared holders go together; one exclusive holder goes alone.
    """
    kind = PostgresLock if connection.vendor == "postgresql" else FileLock
    lock = kind(name, is_shared=is_shared)
    if lock.is_held:
        return lock
    lock.release()
    return None


def is_held(name: str) -> bool:
    """Tell whether any process holds the lock."""
    return bool(held({name}))


def held(names: set[str]) -> set[str]:
    """Return those locks that some process holds, without taking any from an owner that is just reconnecting.

    Locks: none on PostgreSQL; on SQLite the file, for the moment of the look.
    """
    if connection.vendor != "postgresql":
        return {name for name in names if not _is_free(name)}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND objsubid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        keys = {key for (key,) in cursor.fetchall()}
    return {name for name in names if _key(name) in keys}


def forget(name: str) -> None:
    """Remove what a dead process left of its lock, so that files do not pile up; its name is never used again."""
    if connection.vendor != "postgresql":
        _path(name).unlink(missing_ok=True)


def _is_free(name: str) -> bool:
    try:
        file = os.open(_path(name), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        return _flock(file, fcntl.LOCK_EX)
    finally:
        os.close(file)


def _flock(file: int, mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _key(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)


def _path(name: str) -> Path:
    file = f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"
    return Path(f"{connection.settings_dict['NAME']}.locks") / file
