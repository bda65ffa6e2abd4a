"""The job table and the verbs that move a row from state to state.

Each verb is one conditional UPDATE that names the state it expects and, from `running` on, the run.
It returns how many rows it changed, or the job; zero rows or None means somebody else was first.
"""

from datetime import datetime

from django.db import IntegrityError, connection, models, transaction
from django.db.models import F, Q, Value
from django.db.models.functions import Greatest, Now

from tasks.errors import TransitionRefused

FAILURES_KEPT = 10
DECISIONS_KEPT = 10


class State(models.TextChoices):
    """Where a job stands, who moves it on, and how long the row is kept."""

    WAITING = "waiting", "waiting"  # due at run_at; moved on by the relay
    RELAYED = "relayed", "relayed"  # handed to the broker; moved on by a worker, or back by the lost-message rule
    RUNNING = "running", "running"  # in a worker's hands; moved on by that worker
    SUCCEEDED = "succeeded", "succeeded"  # done; pruned after JOBS_KEEP_SUCCEEDED_S
    DEAD = "dead", "dead"  # a person decides; pruned after JOBS_KEEP_DEAD_S
    CANCELLED = "cancelled", "cancelled"  # a person or the code withdrew it; pruned after JOBS_KEEP_SUCCEEDED_S
    DISCARDED = "discarded", "discarded"  # a person gave it up; pruned after JOBS_KEEP_DEAD_S


LIVE = (State.WAITING, State.RELAYED, State.RUNNING)
FINISHED = (State.SUCCEEDED, State.DEAD, State.CANCELLED, State.DISCARDED)


class Scope(models.TextChoices):
    """How long a unique_key holds its place."""

    ROW = "row", "as long as the row exists"
    LIVE = "live", "until it has finished"


def with_entry(history: list, entry: dict) -> list:
    """Return the history with one entry more: the last ten failures and the last ten decisions are kept.

    Shape: an entry has `at` (ISO time) and `what`; a failed run adds run, attempt, error, traceback, worker;
    a person's decision adds `by`.
    """
    kept = history + [entry]
    for is_of_group, limit in ((lambda e: "by" not in e, FAILURES_KEPT), (lambda e: "by" in e, DECISIONS_KEPT)):
        surplus = sum(map(is_of_group, kept)) - limit
        if surplus > 0:
            oldest = next(i for i, e in enumerate(kept) if is_of_group(e))
            kept = kept[:oldest] + kept[oldest + 1 :]
    return kept


def decision(what: str, by: str, now: datetime) -> dict:
    """Return the history entry of what a person decided."""
    return {"at": now.isoformat(timespec="seconds"), "what": what, "by": by}


UNCHARGED = Greatest(F("attempts") - 1, Value(0))


class JobQuerySet(models.QuerySet):
    """The verbs. Those that end a run take the job as `claim` returned it: its id and run are the fence."""

    # -- what the relay does ------------------------------------------------------------------

    def due(self, now: datetime) -> "JobQuerySet":
        """Return waiting jobs that may run, most urgent first, oldest first among equals."""
        return self.filter(state=State.WAITING, run_at__lte=now).order_by("-priority", "run_at", "id")

    def relay(self, ids: list[int], now: datetime) -> int:
        """Hand jobs to the broker. Transition: waiting -> relayed."""
        return self.filter(id__in=ids, state=State.WAITING).update(
            state=State.RELAYED, relayed_at=now, relays=F("relays") + 1
        )

    def unrelay(self, ids: list[int], relayed_at: datetime) -> int:
        """Take back what the broker did not get, or lost. Transition: relayed -> waiting."""
        return self.filter(id__in=ids, state=State.RELAYED, relayed_at=relayed_at).update(
            state=State.WAITING, relayed_at=None
        )

    # -- what a worker does -------------------------------------------------------------------

    def claim(self, job_id: int, run: int, *, worker: str, child_pid: int) -> "Job | None":
        """Take the job a message names and charge an attempt; None when it is not relayed for this run.

        Transition: relayed -> running.
        Shape: run is the number this execution will have, one above the row's.
        """
        return self._claim("", "id = %s AND state = 'relayed' AND run = %s", [worker, child_pid, job_id, run - 1])

    def claim_next(self, kind: str, queue: str, *, worker: str, child_pid: int) -> "Job | None":
        """Take the next due job of a kind straight from the table, unless a more urgent one waits in the queue.

        Transition: waiting -> running.
        Locks: the row, SKIP LOCKED.
        """
        # max() over the due rows would read them all; in the index's order the first one is the answer.
        due = "FROM {job} WHERE queue = %s AND state = 'waiting' AND run_at <= {now}"
        order = "ORDER BY priority DESC, run_at, id LIMIT 1"
        return self._claim(
            f"WITH candidate AS MATERIALIZED (SELECT id {due} AND kind = %s {order} {{skip_locked}})",
            "id = (SELECT id FROM candidate) AND state = 'waiting' "
            f"AND priority >= (SELECT priority {due} {order}) AND NOT EXISTS ("
            "SELECT 1 FROM {job} o WHERE o.queue = %s AND o.state = 'relayed' AND o.priority > {job}.priority)",
            [queue, kind, worker, child_pid, queue, queue],
        )

    def _claim(self, with_: str, where: str, params: list) -> "Job | None":
        """Claim one row in one statement: at hundreds of jobs a second, each round trip counts."""
        is_postgresql = connection.vendor == "postgresql"
        sql = (
            with_ + " UPDATE {job} SET state = 'running', run = run + 1, attempts = attempts + 1, started_at = {now}, "
            f"relays = 0, progress = NULL, worker = %s, child_pid = %s WHERE {where} RETURNING *"
        ).format(
            job=self.model._meta.db_table,
            now="statement_timestamp()" if is_postgresql else "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')",
            skip_locked="FOR UPDATE SKIP LOCKED" if is_postgresql else "",
        )
        return next(iter(self.raw(sql, params)), None)

    def succeed(self, job: "Job") -> int:
        """Finish. Transition: running -> succeeded."""
        return self._mine(job).update(state=State.SUCCEEDED, finished_at=Now(), unknown_since_at=None)

    def retry(self, job: "Job", run_at: datetime, entry: dict) -> int:
        """Try again later. Transition: running -> waiting; -> cancelled if that was asked for meanwhile."""
        return self._change(self._withdrawn(job), entry, state=State.CANCELLED, finished_at=Now()) or self._change(
            self._mine(job),
            entry,
            state=State.WAITING,
            run_at=run_at,
            relayed_at=None,
            unknown_since_at=None,
            snoozed_since_at=None,
        )

    def snooze(self, job: "Job", run_at: datetime, since: datetime) -> int:
        """Come back later without spending an attempt. Transition: running -> waiting (-> cancelled as in retry)."""
        return self._uncharged(job, run_at, unknown_since_at=None, snoozed_since_at=since)

    def release_unknown(self, job: "Job", run_at: datetime, since: datetime) -> int:
        """Give back a job whose kind, version or signature this code lacks. Transition: as snooze."""
        return self._uncharged(job, run_at, unknown_since_at=since)

    def bury(self, job: "Job", entry: dict) -> int:
        """Stop trying. Transition: running -> dead."""
        return self._change(self._mine(job), entry, state=State.DEAD, finished_at=Now())

    def report_progress(self, job: "Job", percent: int) -> int:
        """Show how far a running job is. Units: 0 to 100."""
        return self._mine(job).update(progress=percent)

    def _uncharged(self, job: "Job", run_at: datetime, **changes) -> int:
        return self._withdrawn(job).update(state=State.CANCELLED, finished_at=Now()) or self._mine(job).update(
            state=State.WAITING, run_at=run_at, relayed_at=None, attempts=UNCHARGED, **changes
        )

    def _mine(self, job: "Job") -> "JobQuerySet":
        return self.filter(id=job.id, state=State.RUNNING, run=job.run)

    def _withdrawn(self, job: "Job") -> "JobQuerySet":
        return self._mine(job).filter(cancel_requested_at__isnull=False)

    def _change(self, rows: "JobQuerySet", entry: dict, **changes) -> int:
        """Update the one row and add to its history, which a person may be adding to as well."""
        with transaction.atomic():
            row = rows.select_for_update().values("id", "history").first()
            return rows.update(history=with_entry(row["history"], entry), **changes) if row else 0

    # -- what a person decides, about one job or a list of ids ----------------------------------

    def retry_by_hand(self, job_id: int | list[int], by: str, now: datetime) -> int:
        """Give a dead letter a fresh set of attempts. Transition: dead -> waiting.

        Raises: TransitionRefused when a live job holds its unique key; then none of a list was changed.
        """
        try:
            return self._decide(
                job_id,
                [State.DEAD],
                decision("retried", by, now),
                state=State.WAITING,
                run_at=now,
                attempts=0,
                finished_at=None,
                relayed_at=None,
                unknown_since_at=None,
                snoozed_since_at=None,
                cancel_requested_at=None,
            )
        except IntegrityError:
            who = f"Job {job_id} was not" if isinstance(job_id, int) else "None of these jobs was"
            raise TransitionRefused(
                f"{who} retried: a newer job with the same unique key has not finished yet."
            ) from None

    def discard(self, job_id: int | list[int], by: str, now: datetime) -> int:
        """Give a dead letter up for good. Transition: dead -> discarded."""
        return self._decide(job_id, [State.DEAD], decision("discarded", by, now), state=State.DISCARDED)

    def cancel(self, job_id: int | list[int], by: str, now: datetime) -> int:
        """Withdraw a job that has not started; a running one is not tried again when its run ends.

        Transition: waiting or relayed -> cancelled; running keeps its state and gets cancel_requested_at.
        """
        return self._decide(
            job_id,
            [State.WAITING, State.RELAYED],
            decision("cancelled", by, now),
            state=State.CANCELLED,
            finished_at=now,
        ) + self._decide(job_id, [State.RUNNING], decision("cancel requested", by, now), cancel_requested_at=now)

    def _decide(self, job_id: int | list[int], states: list[State], entry: dict, **changes) -> int:
        if isinstance(job_id, int):
            return self._change(self.filter(id=job_id, state__in=states), entry, **changes)
        with transaction.atomic():
            rows = self.filter(id__in=job_id, state__in=states)
            jobs = list(rows.select_for_update().order_by("id").only("id", "history"))
            for job in jobs:
                job.history = with_entry(job.history, entry)
            self.bulk_update(jobs, ["history"])
            return rows.filter(id__in=[job.id for job in jobs]).update(**changes)  # those that were locked


class Queue(models.Model):
    """One row per queue: locked by the relay while it counts and marks, so that two relays keep one bound."""

    name = models.CharField(max_length=50, primary_key=True)

    def __str__(self):
        return self.name


class Job(models.Model):
    """One durable piece of work: a task with its arguments. The row is the truth, the broker only hands it over."""

    kind = models.CharField(max_length=100, help_text="Which task runs it, feature.what.")
    queue = models.CharField(max_length=50, help_text="Which workers take it; given by the kind.")
    priority = models.SmallIntegerField(default=5, help_text="0 to 9; 9 is the most urgent.")
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    arguments = models.JSONField(default=dict, help_text="By name, ids and small values only; at most 64 KiB.")
    version = models.PositiveSmallIntegerField(default=1, help_text="The arguments' format, as the kind declared it.")
    unique_key = models.CharField(max_length=200, null=True, blank=True, help_text="One job per key and kind.")
    unique_scope = models.CharField(max_length=4, choices=Scope, default=Scope.ROW)

    run = models.PositiveIntegerField(default=0, help_text="Raised by every claim, never reset: the fence.")
    attempts = models.PositiveSmallIntegerField(default=0, help_text="The runs that were charged.")
    max_attempts = models.PositiveSmallIntegerField(default=5, help_text="Charged runs before it is dead.")
    interruptions = models.PositiveSmallIntegerField(default=0, help_text="Runs cut off by a shutdown, not charged.")
    relays = models.PositiveSmallIntegerField(
        default=0, help_text="Times relayed since it last ran; doubles the grace."
    )

    enqueued_at = models.DateTimeField(help_text="Written in the caller's transaction.")
    run_at = models.DateTimeField(help_text="Not before this time.")
    relayed_at = models.DateTimeField(null=True, blank=True, help_text="Handed to the broker.")
    started_at = models.DateTimeField(null=True, blank=True, help_text="The last claim.")
    finished_at = models.DateTimeField(null=True, blank=True, help_text="Reached a final state.")
    cancel_requested_at = models.DateTimeField(null=True, blank=True, help_text="A person asked a running job to stop.")
    unknown_since_at = models.DateTimeField(null=True, blank=True, help_text="No worker has known how to run it since.")
    snoozed_since_at = models.DateTimeField(null=True, blank=True, help_text="It has only asked to come back since.")
    keep_until = models.DateTimeField(null=True, blank=True, help_text="Not pruned before this time.")

    worker = models.CharField(max_length=120, blank=True, default="", help_text="Who claimed it last: host:pid:start.")
    child_pid = models.PositiveIntegerField(null=True, blank=True, help_text="The worker's process that runs it.")
    progress = models.PositiveSmallIntegerField(null=True, blank=True, help_text="Percent, as the handler reports it.")
    checkpoint = models.JSONField(null=True, blank=True, help_text="What the handler saved for its next run.")
    history = models.JSONField(default=list, blank=True, help_text="The last failures and decisions, newest last.")

    objects = JobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(name="job_state_known", condition=Q(state__in=State.values)),
            models.CheckConstraint(name="job_scope_known", condition=Q(unique_scope__in=Scope.values)),
            models.CheckConstraint(name="job_priority_0_to_9", condition=Q(priority__range=(0, 9))),
            models.CheckConstraint(
                name="job_progress_percent", condition=Q(progress__isnull=True) | Q(progress__range=(0, 100))
            ),
            models.CheckConstraint(name="job_max_attempts_positive", condition=Q(max_attempts__gte=1)),
            models.CheckConstraint(name="job_attempts_within_runs", condition=Q(attempts__lte=F("run"))),
            models.CheckConstraint(
                name="job_finished_at_iff_finished",
                condition=Q(state__in=FINISHED, finished_at__isnull=False)
                | Q(state__in=LIVE, finished_at__isnull=True),
            ),
            models.CheckConstraint(
                name="job_relayed_has_time", condition=~Q(state=State.RELAYED) | Q(relayed_at__isnull=False)
            ),
            models.CheckConstraint(
                name="job_running_has_owner",
                condition=~Q(state=State.RUNNING)
                | (Q(started_at__isnull=False, child_pid__isnull=False, run__gte=1) & ~Q(worker="")),
            ),
            models.UniqueConstraint(
                name="job_unique_row", fields=["kind", "unique_key"], condition=Q(unique_scope=Scope.ROW)
            ),
            models.UniqueConstraint(
                name="job_unique_live",
                fields=["kind", "unique_key"],
                condition=Q(unique_scope=Scope.LIVE, state__in=LIVE),
            ),
        ]
        indexes = [
            # relay_batch, claim_next: the next due jobs of a queue
            models.Index(
                F("queue"),
                F("priority").desc(),
                F("run_at"),
                F("id"),
                name="job_due",
                condition=Q(state=State.WAITING),
            ),
            # relay_batch: how many are with the broker; return_lost: which have been there too long
            models.Index(fields=["queue", "relayed_at"], name="job_relayed", condition=Q(state=State.RELAYED)),
            # return_lost: was a later one started; admin: what runs now
            models.Index(fields=["queue", "started_at"], name="job_running", condition=Q(state=State.RUNNING)),
            # prune_batch, and admin's lists of finished jobs
            models.Index(fields=["state", "finished_at"], name="job_finished", condition=Q(finished_at__isnull=False)),
        ]

    def __str__(self):
        return f"{self.kind} {self.id}"

    @property
    def is_finished(self) -> bool:
        """Tell whether nothing will move it but a person."""
        return self.state in FINISHED

    @property
    def is_new(self) -> bool:
        """Tell whether this object was written by the enqueue call that returned it."""
        return getattr(self, "_is_new", False)
