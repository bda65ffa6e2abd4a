"""The verbs that move a job from state to state.

Each is one conditional UPDATE that names the state it expects and, from `running` on, the run.
It returns how many rows it changed, or the job; zero rows or None means somebody else was first.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import IntegrityError, connection, models, transaction
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Greatest, Least, Now

from tasks.errors import TransitionRefused
from tasks.history import decision, with_entry
from tasks.states import State

if TYPE_CHECKING:
    from tasks.models import Job

PEEK = 64  # rows of a queue among which claim_next finds its kind; above JOBS_PER_MESSAGE
RELAYS_COUNTED = 100  # far above what the grace can double
UNCHARGED = Greatest(F("attempts") - 1, Value(0))
# Where a run that did not succeed goes: back, or nowhere if somebody has asked for that meanwhile.
IS_WITHDRAWN = Q(cancel_requested_at__isnull=False)


def or_cancelled(state: State) -> Case:
    """Return the state, or cancelled for a job that was withdrawn while it ran."""
    return Case(When(IS_WITHDRAWN, then=Value(State.CANCELLED)), default=Value(state))


AGAIN = {
    "state": or_cancelled(State.WAITING),
    "finished_at": Case(When(IS_WITHDRAWN, then=Now()), default=Value(None), output_field=models.DateTimeField()),
    "relayed_at": None,
}


class JobQuerySet(models.QuerySet):
    """The verbs. Those that end a run take the job as `claim` returned it: its id and run are the fence."""

    def without_content(self) -> "JobQuerySet":
        """Leave the large columns in the database, for those who look at many rows often."""
        return self.defer("arguments", "checkpoint", "history")

    # -- what the relay does ------------------------------------------------------------------

    def due(self, now: datetime) -> "JobQuerySet":
        """Return waiting jobs that may run, most urgent first, oldest first among equals."""
        return self.filter(state=State.WAITING, run_at__lte=now).order_by("-priority", "run_at", "id")

    def relay(self, ids: list[int], now: datetime) -> int:
        """Hand jobs to the broker. Transition: waiting -> relayed."""
        return self.filter(id__in=ids, state=State.WAITING).update(
            state=State.RELAYED, relayed_at=now, relays=Least(F("relays") + 1, Value(RELAYS_COUNTED))
        )

    def unrelay(self, ids: list[int], relayed_at: datetime, *, was_sent: bool = True) -> int:
        """Take back what the broker lost, or did not get: that does not count as relayed.

        Transition: relayed -> waiting.
        """
        relays = F("relays") if was_sent else Greatest(F("relays") - 1, Value(0))
        return self.filter(id__in=ids, state=State.RELAYED, relayed_at=relayed_at).update(
            state=State.WAITING, relayed_at=None, relays=relays
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
        Shape: only the queue's next PEEK rows are looked at, however many of other kinds, or for later, wait there.
        Locks: the row and those of other kinds before it, SKIP LOCKED, for the moment of the statement.
        """
        # One look into the index for each priority: in its order, delayed urgent jobs would all come first.
        # Each look is ordered, or a planner that misjudges the priorities reads the whole table.
        due = "FROM {job} WHERE queue = %s AND state = 'waiting' AND run_at <= {now} AND priority ="
        order = "ORDER BY run_at, id LIMIT"
        return self._claim(
            f"WITH level (priority) AS (VALUES {', '.join(f'({number})' for number in range(10))}), "
            f"head AS MATERIALIZED (SELECT id, kind {due} (SELECT max(priority) FROM level "
            f"WHERE (SELECT id {due} level.priority {order} 1) IS NOT NULL) {order} {PEEK} {{skip_locked}})",
            # Rows of head are read, and so locked, only up to the first of the kind.
            "id = (SELECT id FROM head WHERE kind = %s LIMIT 1) AND state = 'waiting' AND NOT EXISTS ("
            "SELECT 1 FROM {job} o WHERE o.queue = %s AND o.state = 'relayed' AND o.priority > {job}.priority)"
            " AND NOT EXISTS (SELECT 1 FROM tasks_pause p WHERE (p.what, p.name) IN (('kind', %s), ('queue', %s)))",
            [queue, queue, worker, child_pid, kind, queue, kind, queue],
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

    def hand_back(self, job_id: int, run: int, *, wait_s: float = 0) -> int:
        """Refuse a message: this worker takes nothing new, or the kind's limit does not allow it yet.

        It has arrived, so none counts as lost.
        Transition: relayed -> waiting.
        """
        later = {"run_at": Now() + timedelta(seconds=wait_s)} if wait_s else {}
        return self.filter(id=job_id, state=State.RELAYED, run=run - 1).update(
            state=State.WAITING, relayed_at=None, relays=0, **later
        )

    def unclaim(self, *, worker: str, child_pid: int) -> int:
        """Undo a claim whose reply was lost, before anything of it has run. Transition: as snooze, without its mark."""
        lost = self.filter(state=State.RUNNING, worker=worker, child_pid=child_pid)
        return lost.update(attempts=UNCHARGED, **AGAIN)

    def succeed(self, job: "Job") -> int:
        """Finish. Transition: running -> succeeded."""
        return self._mine(job).update(state=State.SUCCEEDED, finished_at=Now(), unknown_since_at=None)

    def retry(self, job: "Job", run_at: datetime, entry: dict) -> int:
        """Try again later. Transition: running -> waiting; -> cancelled if that was asked for meanwhile."""
        return self._change(
            self._mine(job), entry, run_at=run_at, unknown_since_at=None, snoozed_since_at=None, **AGAIN
        )

    def snooze(self, job: "Job", run_at: datetime, since: datetime) -> int:
        """Come back later without spending an attempt. Transition: running -> waiting (-> cancelled as in retry)."""
        return self._uncharged(job, run_at, unknown_since_at=None, snoozed_since_at=since)

    def release_unknown(self, job: "Job", run_at: datetime, since: datetime) -> int:
        """Give back a job whose kind, version or signature this code lacks. Transition: as snooze."""
        return self._uncharged(job, run_at, unknown_since_at=since)

    def interrupt(self, job: "Job", run_at: datetime) -> int:
        """Give back a job that a shutdown cut off, without spending an attempt. Transition: as snooze."""
        return self._uncharged(job, run_at, interruptions=F("interruptions") + 1)

    def bury(self, job: "Job", entry: dict) -> int:
        """Stop trying. Transition: running -> dead; -> cancelled if that was asked for meanwhile."""
        return self._change(self._mine(job), entry, state=or_cancelled(State.DEAD), finished_at=Now())

    def report_progress(self, job: "Job", percent: int) -> int:
        """Show how far a running job is. Units: 0 to 100."""
        return self._mine(job).update(progress=percent)

    def save_checkpoint(self, job: "Job", checkpoint) -> int:
        """Keep what the handler wants to find at its next run."""
        return self._mine(job).update(checkpoint=checkpoint)

    def _uncharged(self, job: "Job", run_at: datetime, **changes) -> int:
        return self._mine(job).update(run_at=run_at, attempts=UNCHARGED, **AGAIN, **changes)

    def _mine(self, job: "Job") -> "JobQuerySet":
        return self.filter(id=job.id, state=State.RUNNING, run=job.run)

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
                interruptions=0,
                relays=0,
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
        return self._decide(
            job_id, [State.DEAD], decision("discarded", by, now), state=State.DISCARDED, finished_at=now
        )

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
