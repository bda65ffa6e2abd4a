"""What a handler declared with bind=True is given: its job, seen from inside."""

from datetime import datetime, timedelta
from time import monotonic

from django.db import connection

from tasks import shutdown
from tasks.enqueue import checked_json
from tasks.models import Job


class RunningJob:
    """One run of one job.

    Shape: id, kind, run, attempt (counts from 1), max_attempts, enqueued_at, checkpoint (None at first).
    """

    def __init__(self, job: Job):
        self._job = job
        self._claimed = monotonic()
        self.id, self.kind, self.run = job.id, job.kind, job.run
        self.attempt, self.max_attempts = job.attempts, job.max_attempts
        self.enqueued_at, self.checkpoint = job.enqueued_at, job.checkpoint

    def now(self) -> datetime:
        """Return the database's time without asking it: the claim's time plus what has passed since."""
        return self._job.started_at + timedelta(seconds=self.elapsed_s())

    def elapsed_s(self) -> float:
        """Return how long this run has lasted. Units: seconds."""
        return monotonic() - self._claimed

    def report_progress(self, percent: int) -> None:
        """Show people how far the job is.

        Units: 0 to 100.
        Raises: TypeError in a job of an atomic kind: nobody could see it before the end.
        """
        self._refuse_inside_a_transaction("progress")
        Job.objects.report_progress(self._job, max(0, min(100, int(percent))))

    def should_stop(self) -> bool:
        """Tell whether the worker is shutting down: save a checkpoint and raise RetryLater(1) if there is much left."""
        return shutdown.has_begun()

    def save_checkpoint(self, checkpoint) -> None:
        """Keep small JSON for the next run of this job, which finds it as `checkpoint`.

        Raises: InvalidArguments when it is not JSON or too large; TypeError as report_progress.
        """
        self._refuse_inside_a_transaction("a checkpoint")
        checked = checked_json(f"{self.kind}: checkpoint", {"checkpoint": checkpoint})["checkpoint"]
        Job.objects.save_checkpoint(self._job, checked)
        self.checkpoint = checked

    def _refuse_inside_a_transaction(self, what: str) -> None:
        if connection.in_atomic_block:
            raise TypeError(f"{self.kind}: {what} cannot be written inside a transaction; nobody would see it.")
