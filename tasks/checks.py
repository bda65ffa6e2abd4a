"""Rules between settings, run by `manage.py check`."""

from collections.abc import Iterator

from django.conf import settings
from django.core.checks import Error, register
from django.db import connection

from tasks import endings, registry
from tasks.registry import Kind

LONGEST_ATOMIC_ON_SQLITE_S = 30


@register("jobs")
def check_kinds(app_configs, **kwargs) -> list[Error]:
    """Say which kind could never run as it is declared, or would keep everybody else from running."""
    rules = (check_queue, check_soft_limit, check_visibility_timeout, check_atomic)
    return [error for kind in registry.kinds() for rule in rules for error in rule(kind)]


def check_queue(kind: Kind) -> Iterator[Error]:
    """Some worker has to take its queue."""
    if kind.queue not in settings.JOBS_QUEUES:
        yield Error(
            f"{kind.name} goes to queue {kind.queue!r}, which no worker takes.",
            hint=f"Add it to JOBS_QUEUES or use one of: {', '.join(settings.JOBS_QUEUES)}.",
            id="jobs.E001",
        )


def check_soft_limit(kind: Kind) -> Iterator[Error]:
    """The soft time limit has to come first; one of the two may be the worker's own."""
    soft_s, hard_s = endings.soft_limit_s(kind.name), endings.hard_limit_s(kind.name)
    if soft_s >= hard_s:
        yield Error(
            f"{kind.name}: its soft time limit of {soft_s} s is not below the hard one of {hard_s} s.",
            hint="Give both limits to @job, so that the handler can clean up before it is killed.",
            id="jobs.E002",
        )


def check_visibility_timeout(kind: Kind) -> Iterator[Error]:
    """The broker must not hand a message out again while its job may still run."""
    visibility_s = getattr(settings, "CELERY_BROKER_TRANSPORT_OPTIONS", {}).get("visibility_timeout")
    hard_s = endings.hard_limit_s(kind.name)
    if visibility_s is not None and hard_s >= visibility_s:
        yield Error(
            f"{kind.name}: its hard time limit of {hard_s} s is not below the visibility timeout of {visibility_s} s.",
            hint="Shorten the limit, split the job, or raise visibility_timeout.",
            id="jobs.E003",
        )


def check_atomic(kind: Kind) -> Iterator[Error]:
    """SQLite has one writer: while an atomic job runs, nobody can sign up and no other job can end."""
    hard_s = endings.hard_limit_s(kind.name)
    if kind.atomic and connection.vendor == "sqlite" and hard_s > LONGEST_ATOMIC_ON_SQLITE_S:
        yield Error(
            f"{kind.name} is atomic and may run for {hard_s} s: for so long nobody else can write to SQLite.",
            hint=(
                f"Give @job a time_limit_s of at most {LONGEST_ATOMIC_ON_SQLITE_S} and a soft_time_limit_s below it, "
                "drop atomic=True, or use PostgreSQL."
            ),
            id="jobs.E004",
        )
