"""Bring back jobs whose worker is gone. The relay runs it about once a second."""

import logging
from datetime import datetime

from tasks import endings, locks
from tasks.models import Job
from tasks.states import State

log = logging.getLogger(__name__)

LOOKS_APART_S = 4.0  # a worker whose database was restarted takes its lock again within about a second
MARGIN_S = 15.0  # a worker ends a job at its hard limit itself; after this it has not
LIMIT = 1_000
WORKER_GONE = "Its worker's process is gone."
OVERDUE = "It ran past its hard time limit of {:g} s, and its worker did not end it."


class Rescue:
    """Remember since when a worker has been without its lock, and since when each job has been seen running."""

    def __init__(self):
        self._suspects: dict[str, float] = {}
        self._seen: dict[tuple[int, int], float] = {}

    def step(self, now: datetime, ticks_s: float) -> int:
        """Release the jobs of workers that are gone and jobs that are overdue; return how many.

        Transition: running -> waiting, or dead when the attempts are spent.
        Units: ticks_s is time.monotonic(). Whoever sets the database's clock must not end jobs that run; the price is
        that a relay that was restarted counts a job's hard limit anew.
        """
        running = list(Job.objects.without_content().filter(state=State.RUNNING).order_by("started_at")[:LIMIT])
        gone = self._gone({job.worker for job in running}, ticks_s)
        self._seen = {(job.id, job.run): self._seen.get((job.id, job.run), ticks_s) for job in running}
        rescued = 0
        for job in running:
            limit_s = endings.hard_limit_s(job.kind)
            if job.worker in gone:
                rescued += end(job, endings.crashed(job, WORKER_GONE, now))
            elif ticks_s - self._seen[job.id, job.run] > limit_s + MARGIN_S:
                rescued += end(job, endings.crashed(job, OVERDUE.format(limit_s), now, had_its_time=True))
        for worker in gone:
            locks.forget(locks.of_worker(worker))
        return rescued

    def forget(self) -> None:
        """Suspect nobody: while the database was away, nobody could hold a lock."""
        self._suspects.clear()

    def _gone(self, workers: set[str], ticks_s: float) -> set[str]:
        """Return the workers whose lock was free at two looks some seconds apart, the database there in between."""
        held = locks.held({locks.of_worker(worker) for worker in workers})
        free = {worker for worker in workers if locks.of_worker(worker) not in held}
        self._suspects = {worker: self._suspects.get(worker, ticks_s) for worker in free}
        return {worker for worker, since in self._suspects.items() if ticks_s - since >= LOOKS_APART_S}


def end(job: Job, ending: endings.Ending) -> int:
    """End a run from outside; 0 when it ended by itself meanwhile."""
    changed = ending.update()
    if changed:
        log.warning("job %s.%s %s %s", job.id, job.run, job.kind, ending.words)  # the words hold the reason
    return changed
