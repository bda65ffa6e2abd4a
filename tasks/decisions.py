"""What a person decides about many jobs at once, carried out in short transactions and told in words."""

from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import Max, QuerySet

from tasks import words
from tasks.clock import database_now
from tasks.errors import TransitionRefused
from tasks.models import Job
from tasks.states import State

BATCH = 50  # jobs a transaction: on SQLite nobody else writes meanwhile, a signup neither
REFUSALS_TOLD = 3


@dataclass(frozen=True, kw_only=True)
class Verb:
    """One thing that a person may decide.

    Shape: carry_out is the verb of JobQuerySet; effect is what the person reads before confirming.
    """

    name: str
    past: str
    states: tuple[State, ...]
    effect: str
    carry_out: Callable[..., int]
    has_confirmation: bool = True


VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            name="retry",
            past="retried",
            states=(State.DEAD,),
            effect="A dead job starts again at once, with a fresh set of attempts.",
            carry_out=Job.objects.retry_by_hand,
            has_confirmation=False,
        ),
        Verb(
            name="discard",
            past="discarded",
            states=(State.DEAD,),
            effect="A discarded job is given up for good. It stays in the list for a while, and is not tried again.",
            carry_out=Job.objects.discard,
        ),
        Verb(
            name="cancel",
            past="cancelled",
            states=(State.WAITING, State.RELAYED, State.RUNNING),
            effect=(
                "A job that has not started will not run. One that is running is not tried again "
                "when its run ends; what it has done by then stays done."
            ),
            carry_out=Job.objects.cancel,
        ),
    )
}


@dataclass
class Outcome:
    """What came of a decision. Units: numbers of jobs."""

    changed: int = 0
    running: int = 0
    others: int = 0
    refusals: list[str] = field(default_factory=list)
    is_complete: bool = True


Record = Callable[[list[Job]], object]


def decide_all(
    verb: Verb, jobs: QuerySet, *, by: str, record: Record, may_go_on: Callable[[], bool] = lambda: True
) -> Outcome:
    """Carry out a decision about every job of a queryset, batch after batch in the order of ids.

    Shape: record writes down which jobs were decided about, in the transaction of the batch;
    may_go_on is asked before each batch.
    Raises: nothing for a job that is refused or has moved on; the outcome tells.
    """
    outcome = Outcome(others=words.bounded_count(jobs.exclude(state__in=verb.states)))
    fitting = jobs.filter(state__in=verb.states).order_by("id").only("id", "kind", "state")
    # A job that dies again meanwhile keeps its id, and a new one has a higher one: neither is met twice.
    last_id = fitting.aggregate(last=Max("id"))["last"] or 0
    after_id = 0
    while after_id < last_id:
        if not may_go_on():
            outcome.is_complete = False
            break
        rows = fitting.filter(id__gt=after_id, id__lte=last_id)
        ids = list(rows.values_list("id", flat=True)[:BATCH])
        try:
            changed = decide_batch(verb, rows.filter(id__in=ids), by=by, record=record)
        except TransitionRefused:
            changed = decide_each(verb, rows, ids, by=by, record=record, refusals=outcome.refusals)
        outcome.changed += len(changed)
        outcome.running += sum(job.state == State.RUNNING for job in changed)
        after_id = ids[-1] if ids else last_id
    return outcome


def decide_batch(verb: Verb, rows: QuerySet, *, by: str, record: Record) -> list[Job]:
    """Carry out a decision about all rows or none, and return the jobs as they were.

    Locks: the rows, until their batch is committed.
    Raises: TransitionRefused when one of them is refused.
    """
    with transaction.atomic():
        jobs = list(rows.select_for_update())
        ids = [job.id for job in jobs]
        if ids:
            verb.carry_out(ids if len(ids) > 1 else ids[0], by, database_now())
            record(jobs)
    return jobs


def decide_each(
    verb: Verb, rows: QuerySet, ids: list[int], *, by: str, record: Record, refusals: list[str]
) -> list[Job]:
    """Decide about each job by itself, so that one refusal does not stop the others; return the changed ones."""
    changed = []
    for job_id in ids:
        try:
            changed += decide_batch(verb, rows.filter(id=job_id), by=by, record=record)
        except TransitionRefused as refused:
            refusals.append(str(refused))
    return changed


def told(verb: Verb, outcome: Outcome) -> tuple[str, str]:
    """Return what was done and what was not, each as sentences or empty."""
    done, left = [], []
    ended = outcome.changed - outcome.running
    if ended:
        done.append(f"{words.jobs(ended)} will run again." if verb.name == "retry" else _was(ended, verb.past))
    if outcome.running:
        was, are = ("was", "is") if outcome.running == 1 else ("were", "are")
        done.append(f"{words.jobs(outcome.running)} running now {was} asked to stop and {are} not tried again.")
    left += outcome.refusals[:REFUSALS_TOLD]
    if len(outcome.refusals) > REFUSALS_TOLD:
        left.append(f"{len(outcome.refusals) - REFUSALS_TOLD:,} more were refused in the same way.")
    if outcome.others:
        left.append(f"{_was(outcome.others, f'not {verb.past}')[:-1]}: only {_any(verb.states)} can be.")
    if not outcome.is_complete:
        left.append(f"It took too long to {verb.name} all of them at once. Do it again for those that are left.")
    return " ".join(done), " ".join(left)


def _was(number: int, what: str) -> str:
    return f"{words.jobs(number).capitalize()} {'was' if number == 1 else 'were'} {what}."


def _any(states: tuple[State, ...]) -> str:
    *first, last = [str(state) for state in states]
    return f"{', '.join(first)} or {last} ones" if first else f"{last} ones"
