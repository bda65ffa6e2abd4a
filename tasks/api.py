"""The door for features: everything a feature imports from the job app."""

from tasks.clock import database_now
from tasks.decorator import job
from tasks.enqueue import draft, enqueue, enqueue_many
from tasks.errors import EnqueueError, InvalidArguments, PermanentError, RetryLater, UnknownKind
from tasks.limits import hold_rate_limit
from tasks.retry_after import retry_after_s
from tasks.turns import RateLimit

__all__ = [
    "EnqueueError",
    "InvalidArguments",
    "PermanentError",
    "RateLimit",
    "RetryLater",
    "UnknownKind",
    "database_now",
    "draft",
    "enqueue",
    "enqueue_many",
    "hold_rate_limit",
    "job",
    "retry_after_s",
]
