"""Write job rows in the caller's transaction."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from django.db import connection, transaction
from django.utils import timezone

from tasks import registry
from tasks.clock import database_now
from tasks.errors import EnqueueError, InvalidArguments
from tasks.models import Job
from tasks.states import LIVE, Scope

MAX_ARGUMENTS_BYTES = 64 * 1024
BATCH = 1_000  # rows in one statement; SQLite bounds its parameters
CHANNEL = "jobs"  # PostgreSQL NOTIFY channel the relay listens on


def draft(
    kind: str,
    /,
    *args,
    unique_key: str | None = None,
    unique_scope: str = Scope.ROW,
    run_at: datetime | None = None,
    priority: int | None = None,
    keep_until: datetime | None = None,
    **arguments,
) -> Job:
    """Check a job and return it unsaved, for enqueue_many.

    Units: priority 0 to 9, 9 is the most urgent; the kind's own when None.
    Raises: UnknownKind, InvalidArguments, EnqueueError.
    """
    known = registry.get(kind)
    named = known.named(args, arguments)
    for name, value in (("run_at", run_at), ("keep_until", keep_until)):
        if value is not None and (fault := _fault_of_time(value)):
            raise EnqueueError(f"{kind}: {name} {fault}.")
    if unique_key is not None and (fault := _fault_of_key(unique_key)):
        raise EnqueueError(f"{kind}: unique_key {fault}.")
    if unique_scope not in Scope.values:
        raise EnqueueError(f"{kind}: unique_scope must be one of {', '.join(Scope.values)}, not {unique_scope!r}.")
    priority = known.priority if priority is None else priority
    if type(priority) is not int or priority not in range(10):
        raise EnqueueError(f"{kind}: priority must be a number from 0 to 9 (9 is the most urgent), not {priority!r}.")
    return Job(
        kind=kind,
        queue=known.queue,
        priority=priority,
        arguments=checked_json(kind, named),
        version=known.version,
        unique_key=unique_key,
        unique_scope=unique_scope,
        max_attempts=known.max_attempts,
        run_at=run_at,
        keep_until=keep_until,
    )


def _fault_of_time(value: object) -> str | None:
    """Return what keeps a value from being a time in the table, None when it can be one."""
    if not isinstance(value, datetime):
        return f"must be an aware datetime, not {type(value).__name__}"
    if timezone.is_naive(value):
        return f"{value} has no time zone; give an aware datetime"
    try:
        value.astimezone(UTC)
    except OverflowError:
        return f"{value} is outside the years 1 to 9999 in UTC; give a nearer time"
    return None


def _fault_of_key(value: object) -> str | None:
    """Return what keeps a value from being a unique key, None when it can be one."""
    if not isinstance(value, str):
        return f"must be a string, not {type(value).__name__}; write it as text, e.g. 'welcome:42'"
    if not 0 < len(value) <= 200:
        return f"must have 1 to 200 characters, not {len(value)}"
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        return "holds a NUL character or half of a character, which PostgreSQL does not store"
    return None


def checked_json(kind: str, arguments: dict) -> dict:
    """Return the arguments as JSON gives them back.

    Raises: InvalidArguments when they are not JSON (NaN and NUL are not, for PostgreSQL) or over 64 KiB.
    """
    try:
        text = json.dumps(arguments, allow_nan=False, ensure_ascii=False)
        size_bytes = len(text.encode())
        plain = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"{kind}: the arguments are not JSON: {error}. Pass ids and plain values.") from None
    if _has_nul(plain):
        raise InvalidArguments(f"{kind}: the arguments hold a NUL character, which PostgreSQL does not store.")
    if size_bytes > MAX_ARGUMENTS_BYTES:
        raise InvalidArguments(
            f"{kind}: the arguments take {size_bytes} bytes of JSON; {MAX_ARGUMENTS_BYTES} is the limit. "
            "Store the data and pass its id."
        )
    return plain


def _has_nul(value: object) -> bool:
    """Tell whether any string in a JSON value, names included, holds a NUL character."""
    pending = [value]  # no recursion: JSON may be deeper than Python's stack
    while pending:
        found = pending.pop()
        if isinstance(found, dict):
            pending += [*found, *found.values()]
        elif isinstance(found, list):
            pending += found
        elif isinstance(found, str) and "\0" in found:
            return True
    return False


def enqueue(kind: str, /, *args, **arguments_and_options) -> Job:
    """Write one job in the caller's transaction and return it, or the one that already has its unique_key.

    Transition: -> waiting.
    Shape: options as in draft (unique_key, unique_scope, run_at, priority, keep_until); all else goes to the handler.
    Raises: UnknownKind, InvalidArguments, EnqueueError; then nothing was written.
    """
    return enqueue_many([draft(kind, *args, **arguments_and_options)])[0]


def enqueue_many(drafts: Iterable[Job]) -> list[Job]:
    """Write many jobs in the caller's transaction, a thousand in a statement; return them in the given order.

    Transition: -> waiting.
    Shape: where a unique_key is taken, the job that has it stands in the list; `is_new` tells them apart.
    Locks: each unique key until the transaction ends; those of one call in one order, so that two callers cannot
    deadlock. Several calls in one transaction should come in one order everywhere, e.g. sorted by their keys.
    """
    drafts = list(drafts)
    if not drafts:
        return []
    now = database_now()
    for job in drafts:
        job.enqueued_at = now
        job.run_at = job.run_at or now
    ordered = sorted(drafts, key=_lock_order)
    with transaction.atomic():
        for start in range(0, len(ordered), BATCH):
            _insert(ordered[start : start + BATCH])
        told = {id(job): job if job.is_new else _existing(job) for job in ordered}
        if any(job.is_new and job.run_at <= now for job in drafts):
            wake_relay()
    return [told[id(job)] for job in drafts]


def _lock_order(job: Job) -> tuple:
    """Return where a draft stands in the insert: those without a key first as given, the others by kind and key.

    An insert waits for another transaction's insert of the same key, so all must take keys in one order.
    """
    return (False,) if job.unique_key is None else (True, job.kind, job.unique_key)


_COLUMNS = [field for field in Job._meta.local_concrete_fields if not field.primary_key]


def _insert(jobs: list[Job]) -> None:
    """Insert the rows, mark those that are new and give them their ids.

    An error would poison the caller's transaction, hence DO NOTHING. Rows come back in the order of VALUES.
    """
    row = "(" + ", ".join(["%s"] * len(_COLUMNS)) + ")"
    quote = connection.ops.quote_name
    sql = (
        f"INSERT INTO {quote(Job._meta.db_table)} ({', '.join(quote(f.column) for f in _COLUMNS)}) "
        f"VALUES {', '.join([row] * len(jobs))} ON CONFLICT DO NOTHING RETURNING id, kind, unique_key"
    )
    values = [f.get_db_prep_save(getattr(job, f.attname), connection) for job in jobs for f in _COLUMNS]
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        inserted = iter(cursor.fetchall())
    pending = next(inserted, None)
    for job in jobs:
        if pending and pending[1:] == (job.kind, job.unique_key):
            job.id, job._is_new, job._state.adding = pending[0], True, False
            job._state.db = connection.alias
            pending = next(inserted, None)


def _existing(job: Job) -> Job:
    """Return the job that holds the key; write ours if it let go of it a moment ago."""
    holders = Job.objects.filter(kind=job.kind, unique_key=job.unique_key, unique_scope=job.unique_scope)
    if job.unique_scope == Scope.LIVE:
        holders = holders.filter(state__in=LIVE)
    for _ in range(5):
        if holder := holders.first():
            return holder
        _insert([job])
        if job.is_new:
            return job
    raise EnqueueError(f"{job.kind}: the unique key kept changing hands; try again.")


def wake_relay() -> None:
    """Let the relay look at once when this transaction commits; elsewhere than on PostgreSQL it polls."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")
