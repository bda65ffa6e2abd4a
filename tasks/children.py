"""A worker's children, seen from its main process: what became of the jobs they run, and stopping them."""

import logging
import os
import signal
from datetime import timedelta
from time import monotonic

from celery.worker import state as celery_state

from tasks import cancelling, endings, shutdown
from tasks.claiming import WORKER, owner
from tasks.clock import database_now
from tasks.memory import OomKills
from tasks.models import Job
from tasks.states import State

log = logging.getLogger(__name__)

CANCEL_GRACE_S = 1.0
REASON_WAIT_S = 2.0  # the pool notices a death later than we do
REASON_KEPT_S = 60.0
REFUSED_WITHIN = timedelta(seconds=10)
KILLED = "SIGKILL"
OUT_OF_MEMORY = "Its process was killed, probably for lack of memory."
HARD_LIMIT = "The hard time limit"
UNEXPLAINED = "Its process ended for an unknown reason."


class Children:
    """What is known of the children, and of the jobs that they run. The guardian looks; the pool explains."""

    def __init__(self):
        self.kills = OomKills(None)  # the worker gives it its control group
        self._reasons: dict[int, tuple[float, str]] = {}  # pid: since when, why
        self._cancels: dict[tuple[int, int], float] = {}  # job and run: asked since

    def explain(self, pid: int | None, reason: str) -> None:
        """Note why a child has ended, or is about to; the first reason counts."""
        _, known = self._reasons.get(pid, (0.0, UNEXPLAINED))
        if pid is not None and known == UNEXPLAINED:
            self._reasons[pid] = (monotonic(), reason)

    def look(self) -> None:
        """Give back the jobs of children that are gone, and stop those that are to stop."""
        self.kills.look()
        for job in Job.objects.without_content().filter(worker=WORKER, state=State.RUNNING):
            if job.child_pid == os.getpid():
                self._give_back_of_main(job)
            elif is_gone(job.child_pid):
                self._give_back(job)
            else:
                self._stop_if_asked(job)
        self._cancels = {run: since for run, since in self._cancels.items() if monotonic() - since < REASON_KEPT_S}
        self._reasons = {pid: noted for pid, noted in self._reasons.items() if monotonic() - noted[0] < REASON_KEPT_S}

    def _give_back_of_main(self, job: Job) -> None:
        """Give back what this process has claimed to refuse it, when the database went away before it could."""
        if database_now() - job.started_at > REFUSED_WITHIN and Job.objects.unclaim(**owner()):
            log.warning("job %s.%s %s was claimed and not refused: it waits again", job.id, job.run, job.kind)

    def _give_back(self, job: Job) -> None:
        """End the run of a dead child, with the reason if the pool tells one within a moment."""
        since, reason = self._reasons.setdefault(job.child_pid, (monotonic(), UNEXPLAINED))
        if reason == UNEXPLAINED and monotonic() - since < REASON_WAIT_S:
            return
        if KILLED in reason and self.kills.explain_one():
            reason = OUT_OF_MEMORY
        had_its_time = reason.startswith(HARD_LIMIT)
        ending = endings.crashed(job, reason, database_now(), had_its_time=had_its_time)
        if ending.update():
            log.warning("job %s.%s %s %s", job.id, job.run, job.kind, ending.words)  # the words hold the reason

    def _stop_if_asked(self, job: Job) -> None:
        if job.cancel_requested_at is not None:
            self._cancel(job)
        if celery_state.should_terminate:
            tell_of_cold_shutdown(job.child_pid)

    def _cancel(self, job: Job) -> None:
        """Stop a running job that somebody has cancelled: its handler first, its process when that did not help."""
        asked = self._cancels.setdefault((job.id, job.run), monotonic())
        if monotonic() - asked < CANCEL_GRACE_S:
            cancelling.ask(job.child_pid, job.id)
            return
        if Job.objects.filter(id=job.id, run=job.run, state=State.RUNNING).exists():  # the child may have gone on
            self.explain(job.child_pid, "It was cancelled while it ran, and did not stop by itself.")
            os.kill(job.child_pid, signal.SIGKILL)


def tell_of_cold_shutdown(pid: int) -> None:
    """End a child that runs a job: Celery tells only those of which it has heard that they started. Repeatable."""
    shutdown.begin()
    os.kill(pid, signal.SIGTERM)


def is_gone(pid: int) -> bool:
    """Tell whether a process is no longer a living child of this one."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
