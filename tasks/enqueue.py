"""Write job rows in the caller's transaction."""

import json
from collections.abc import Iterable
from datetime import datetime

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
        if value is not None and timezone.is_naive(value):
            raise EnqueueError(f"{kind}: {name} {value} has no time zone; give an aware datetime.")
    if unique_key is not None and not 0 < len(unique_key) <= 200:
        raise EnqueueError(f"{kind}: unique_key must have 1 to 200 characters, not {len(unique_key)}.")
    if unique_scope not in Scope.values:
        raise EnqueueError(f"{kind}: unique_scope must be one of {', '.join(Scope.values)}, not {unique_scope!r}.")
    priority = known.priority if priority is None else priority
    if priority not in range(10):
        raise EnqueueError(f"{kind}: priority must be 0 to 9 (9 is the most urgent), not {priority!r}.")
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


def checked_json(kind: str, arguments: dict) -> dict:
    """Return the arguments as JSON gives them back.

    Raises: InvalidArguments when they are not JSON (NaN and NUL are not, for PostgreSQL) or over 64 KiB.
    """
    try:
        text = json.dumps(arguments, allow_nan=False, ensure_ascii=False)
        size_bytes = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"{kind}: the arguments are not JSON: {error}. Pass ids and plain values.") from None
    if "\\u0000" in text:
        raise InvalidArguments(f"{kind}: the arguments hold a NUL character, which PostgreSQL does not store.")
    if size_bytes > MAX_ARGUMENTS_BYTES:
        raise InvalidArguments(
            f"{kind}: the arguments take {size_bytes} bytes of JSON; {MAX_ARGUMENTS_BYTES} is the limit. "
            "Store the data and pass its id."
        )
    return json.loads(text)


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
    """
    drafts = list(drafts)
    if not drafts:
        return []
    now = database_now()
    for job in drafts:
        job.enqueued_at = now
        job.run_at = job.run_at or now
    with transaction.atomic():
        for start in range(0, len(drafts), BATCH):
            _insert(drafts[start : start + BATCH])
        jobs = [job if job.is_new else _existing(job) for job in drafts]
        _wake_relay({job.queue for job in drafts if job.is_new and job.run_at <= now})
    return jobs


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


def _wake_relay(queues: set[str]) -> None:
    if queues and connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"NOTIFY {CHANNEL}")
