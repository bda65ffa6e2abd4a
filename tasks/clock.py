"""The one clock that jobs are timed by: the database's."""

from datetime import datetime

from django.db import connection
from django.utils import timezone


def database_now() -> datetime:
    """Return the database server's time; hosts' clocks may differ, and run_at must mean one thing.

    Shape: an aware datetime. SQLite runs in this process, so its clock is this host's.
    """
    if connection.vendor != "postgresql":
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        return cursor.fetchone()[0]
