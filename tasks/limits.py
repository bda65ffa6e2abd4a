"""Rate limits and caps: how many jobs of a kind may be handed over, and when a claimed one may start.

The relay hands over what can start soon; the claim is exact, under the lock of the limit's row.
Source: docs/decisions/0007-rate-limits-and-caps.md
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from time import monotonic, sleep

from django.db import transaction
from django.db.models import Count
from django.db.models.functions import Coalesce, Greatest

from tasks import registry
from tasks.clock import database_now
from tasks.models import Job, Limit
from tasks.registry import Kind
from tasks.states import State
from tasks.turns import LATE_S, RateLimit

AHEAD = timedelta(seconds=0.6)  # a job is handed over so long before its turn: the way to a worker takes some of it
LONGEST_HOLD = timedelta(seconds=1)  # a child waits so long for a turn; a job whose turn is further off goes back
MISSES = 5  # a child that misses so many turns in a row is too busy, and its job goes back
BACK_S = 1.0


class NotNow(Exception):
    """Undo a claim that a limit does not allow yet."""


def claim(kind: str, job_id: int, run: int, *, worker: str, child_pid: int) -> Job | None:
    """Take the job that a message names, wait for its turn, and return it when it may start now.

    Transition: relayed -> running; -> waiting when its turn is far off, or as many run as may.
    Locks: the rows of the kind's limits, until the claim is committed.
    Raises: as JobQuerySet.claim.
    """
    known = registry.find(kind)
    if known is None or not known.limits:
        return Job.objects.claim(job_id, run, worker=worker, child_pid=child_pid)
    try:
        with transaction.atomic():
            rows = locked(known)
            if (job := Job.objects.claim(job_id, run, worker=worker, child_pid=child_pid)) is None:
                return None
            if known.max_running is not None and running(known.name) > known.max_running:
                raise NotNow
            turn = Turn(known.rate_limit, rows) if known.rate_limit else None
    except NotNow:
        Job.objects.hand_back(job_id, run, wait_s=BACK_S)
        return None
    return job if turn is None or turn.is_met(known) else give_up(job)


def claim_next(kind: str, queue: str, *, worker: str, child_pid: int) -> Job | None:
    """Take a further due job of a kind without limits; one with limits needs a message for each of its jobs."""
    known = registry.find(kind)
    if known is None or known.limits:
        return None
    return Job.objects.claim_next(kind, queue, worker=worker, child_pid=child_pid)


class Turn:
    """The next turn of a rate limit, taken from its locked row.

    Raises: NotNow when it is too far off to wait for.
    """

    def __init__(self, limit: RateLimit, rows: dict[str, Limit]):
        # Read on both sides of the question: the database's answer is from some moment between the two.
        self._before = monotonic()
        now = database_now()
        self._after = monotonic()
        at = limit.turn(rows[limit.name].free_at, now)
        if at - now > LONGEST_HOLD:
            raise NotNow
        Limit.objects.filter(name=limit.name).update(free_at=at + limit.spacing)
        self._wait_s = (at - now).total_seconds()

    def comes(self) -> bool:
        """Wait for it, and tell whether it was not missed."""
        sleep(max(0.0, self._after + self._wait_s - monotonic()))
        return monotonic() - self._before - self._wait_s <= LATE_S

    def is_met(self, known: Kind) -> bool:
        """Wait for this turn, or for another one if it was missed; tell whether one was met in the end."""
        turn = self
        for _ in range(MISSES):
            if turn.comes():
                return True
            try:
                with transaction.atomic():
                    turn = Turn(known.rate_limit, locked(known))
            except NotNow:
                return False
        return False


def hold_rate_limit(name: str, seconds: float) -> None:
    """Let no job of a rate limit start for so long: its provider is down, or asks to be left alone.

    What is due waits in the table meanwhile: it takes no worker's time, and costs no attempt. A longer hold stays.
    Units: seconds from now.
    """
    until = database_now() + timedelta(seconds=seconds)
    Limit.objects.bulk_create([Limit(name=name)], ignore_conflicts=True)
    Limit.objects.filter(name=name).update(free_at=Greatest(Coalesce("free_at", until), until))


def give_up(job: Job) -> None:
    """Let a job come back that met no turn. Transition: running -> waiting, without charge."""
    now = database_now()
    Job.objects.snooze(job, now + timedelta(seconds=BACK_S), job.snoozed_since_at or now)


def locked(known: Kind) -> dict[str, Limit]:
    """Return the rows of a kind's limits by name. Locks: them, in one order."""
    rows = Limit.objects.select_for_update().filter(name__in=known.limits).order_by("name").in_bulk()
    if len(rows) == len(known.limits):
        return rows
    Limit.objects.bulk_create([Limit(name=name) for name in known.limits], ignore_conflicts=True)
    return locked(known)


def running(kind: str) -> int:
    """Return how many jobs of a kind run."""
    return Job.objects.filter(kind=kind, state=State.RUNNING).count()


# -- what the relay asks --------------------------------------------------------------------------


def limited_kinds(queue: str) -> list[str]:
    """Return the kinds of a queue whose jobs are limited."""
    return [kind.name for kind in registry.kinds() if kind.queue == queue and kind.limits]


def rooms(queue: str, now: datetime) -> dict[str, int]:
    """Return for each limited kind of a queue how many more of its jobs may be handed over now."""
    limited = [registry.get(name) for name in limited_kinds(queue)]
    turns = turns_ahead(limited, now)
    relayed, started = (counts(limited, state) for state in (State.RELAYED, State.RUNNING))
    found = {}
    for kind in limited:
        room = [turns[kind.rate_limit.name]] if kind.rate_limit else []
        if kind.max_running is not None:
            room.append(kind.max_running - started.get(kind.name, 0) - relayed.get(kind.name, 0))
        found[kind.name] = max(0, min(room))
    return found


def within_turns(jobs: list[Job], rooms: dict[str, int]) -> Iterator[Job]:
    """Yield the jobs, in their order, for which kinds that share a rate limit have turns together."""
    limited = {kind: limit.name for kind in rooms if (limit := registry.get(kind).rate_limit)}
    left: dict[str, int] = {}
    for kind, name in limited.items():
        left[name] = max(rooms[kind], left.get(name, 0))
    for job in jobs:
        if (name := limited.get(job.kind)) is not None:
            left[name] -= 1
        if name is None or left[name] >= 0:
            yield job


def turns_ahead(limited: list[Kind], now: datetime) -> dict[str, int]:
    """Return for each rate limit how many turns come soon that no job has been handed over for."""
    limits = {kind.rate_limit.name: kind.rate_limit for kind in limited if kind.rate_limit}
    free = dict(Limit.objects.filter(name__in=limits).values_list("name", "free_at"))
    sharing = [kind for kind in registry.kinds() if kind.rate_limit and kind.rate_limit.name in limits]
    relayed = counts(sharing, State.RELAYED)
    ahead = {name: limit.turns_until(now + AHEAD, free.get(name), now) for name, limit in limits.items()}
    for kind in sharing:
        ahead[kind.rate_limit.name] -= relayed.get(kind.name, 0)
    return ahead


def counts(kinds: list[Kind], state: State) -> dict[str, int]:
    """Return how many jobs of each kind are in a state."""
    rows = Job.objects.filter(state=state, kind__in=[kind.name for kind in kinds])
    return dict(rows.order_by().values_list("kind").annotate(count=Count("id")))
