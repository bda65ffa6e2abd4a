"""What a handler declared with bind=True is given: its job, seen from inside."""

from datetime import datetime, timedelta
from time import monotonic

from django.db import connection

from tasks.models import Job


class RunningJob:
    """One run of one job.

    Shape: id, kind, run, attempt (counts from 1), max_attempts, enqueued_at.
    """

    def __init__(self, job: Job):
        self._job = job
        self._claimed = monotonic()
        self.id, self.kind, self.run = job.id, job.kind, job.run
        self.attempt, self.max_attempts = job.attempts, job.max_attempts
        self.enqueued_at = job.enqueued_at

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
        if connection.in_atomic_block:
            raise TypeError(f"{self.kind}: progress cannot be reported inside a transaction; nobody would see it.")
        Job.objects.report_progress(self._job, max(0, min(100, int(percent))))
