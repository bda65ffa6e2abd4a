"""The database's settings, for SQLite and PostgreSQL."""

from pathlib import Path

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from project import env

SCHEMES = ("sqlite", "postgres", "postgresql")
SQLITE = {
    # Readers beside one writer; a transaction takes the write lock at its start and waits for it, since a
    # lock upgraded half way fails at once whatever the timeout (cases O-61).
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}
POSTGRESQL = {
    # A host that vanished is noticed within 15 s, not after the kernel's two hours. Seconds; the last one milliseconds.
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
# No process that is stuck inside a transaction keeps its rows. What is given with the connection goes before what
# ALTER ROLE sets, so a process's own limits are given here, too.
# Given with the connection, the time zone costs no statement: Django would set it before anybody knows of the session.
SESSION = "-c idle_in_transaction_session_timeout=60s -c TimeZone=UTC"


def from_url(url: str, *, default_file: Path, statement_timeout_s: int, lock_timeout_s: int) -> dict:
    """Return Django's settings for an address; what its query says goes before our own. Without one: an SQLite file.

    Units: a statement timeout of 0 means none; handlers may run long queries. Nobody waits for a lock for ever.
    Raises: ImproperlyConfigured.
    """
    database = _parsed(url) if url else _file(default_file)
    given = database.get("OPTIONS", {})
    if database["ENGINE"].endswith("sqlite3"):
        return database | {"OPTIONS": SQLITE | given}
    limits = f"-c lock_timeout={lock_timeout_s}s -c statement_timeout={statement_timeout_s}s"
    session = [limits, SESSION, given.get("options", "")]
    return database | {"OPTIONS": POSTGRESQL | given | {"options": " ".join(session).strip()}}


def _parsed(url: str) -> dict:
    try:
        return dj_database_url.parse(url, conn_max_age=600, conn_health_checks=True)
    except ValueError:
        raise ImproperlyConfigured(
            "DATABASE_URL cannot be read; write special characters of user and password as %XX, "
            "e.g. postgresql://user:p%40ss@host:5432/name."
        ) from None


def _file(path: Path) -> dict:
    """Return an SQLite file's settings; not by an address, where # and ? would end its name."""
    env.make_folder("DATA_DIR", path.parent)
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
    }
