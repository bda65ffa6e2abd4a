"""A thread in each worker's main process: it holds the worker's lock and looks after its children's jobs.

It runs in every phase, also while the main loop waits for a broker or drains, on a database connection of its own.
Source: docs/decisions/0002
"""

import logging
import os
import signal
import threading
from datetime import timedelta
from time import monotonic

from celery.worker import state as celery_state
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db import Error as DatabaseError

from tasks import cancelling, endings, locks, shutdown
from tasks.claiming import WORKER, owner
from tasks.clock import database_now
from tasks.deafness import Hearing
from tasks.heartbeat import Heartbeat
from tasks.memory import OomKills
from tasks.models import Job
from tasks.states import State

log = logging.getLogger(__name__)

LOOK_S = 0.5
CANCEL_GRACE_S = 1.0
LOCK = locks.of_worker(WORKER)
REASON_WAIT_S = 2.0  # the pool notices a death later than we do
REASON_KEPT_S = 60.0
REFUSED_WITHIN = timedelta(seconds=10)
KILLED = "SIGKILL"
OUT_OF_MEMORY = "Its process was killed, probably for lack of memory."
COLD_S = 15.0  # a second SIGQUIT cuts a cold shutdown short; this one has been given up
END_WITHIN_S = 15.0  # of a deaf worker's cold end; above what its children and its broker's timeouts take
UNEXPLAINED = "Its process ended for an unknown reason."


class Guardian(threading.Thread):
    """Two looks a second.

    It also writes the worker's heartbeat.
    Locks: `worker:<identity>`, held for the process's life. Connections: two, one for the lock, one for the looks.
    """

    def __init__(self):
        super().__init__(name="guardian", daemon=True)
        self.heartbeat = Heartbeat(WORKER, list)  # the worker sets its queues
        self.kills = OomKills(None)  # and its control group
        self.hearing = Hearing()
        self._lock = self._session = None
        self._wake = threading.Event()
        self._reasons: dict[int, tuple[float, str]] = {}  # pid: since when, why
        self._cancels: dict[tuple[int, int], float] = {}  # job and run: asked since
        self._is_away = False
        self._drain_ends: float | None = None

    def explain(self, pid: int | None, reason: str) -> None:
        """Note why a child has ended, or is about to; the first reason counts."""
        _, known = self._reasons.get(pid, (0.0, UNEXPLAINED))
        if pid is not None and known == UNEXPLAINED:
            self._reasons[pid] = (monotonic(), reason)
        self._wake.set()

    def drain(self, seconds: float) -> None:
        """End the worker cold when its jobs have not ended by then; the shortest bound counts.

        Units: seconds. Called in a signal handler, so it takes no lock: the next look sees it.
        """
        ends = monotonic() + seconds
        self._drain_ends = min(ends, self._drain_ends or ends)

    def run(self) -> None:
        """Look until the process ends. Raises: nothing for a database that is away."""
        self._session = connections[DEFAULT_DB_ALIAS]  # this thread's own
        while True:
            try:
                self.look()
                self._is_away = False
                self.heartbeat.beat()
                if not shutdown.has_begun() and self.hearing.is_deaf(monotonic()):
                    self._end_deaf()
            except DatabaseError as error:
                self._database_away(error)
            except Exception:  # without the guardian nobody would look after the children
                log.exception("the guardian's look failed; it looks again")
            self._end_drain()
            self._wake.wait(LOOK_S)
            self._wake.clear()

    def look(self) -> None:
        """Hold the lock, and give back the jobs of children that are gone."""
        self.kills.look()
        if self._lock is None or not self._lock.is_ours():
            self._lock = locks.try_hold(LOCK)
        for job in Job.objects.filter(worker=WORKER, state=State.RUNNING):
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
        ending = endings.crashed(job, reason, database_now())
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
        self.explain(job.child_pid, "It was cancelled while it ran, and did not stop by itself.")
        os.kill(job.child_pid, signal.SIGKILL)

    def forget_in_child(self) -> None:
        """Close what a forked child has inherited of both connections, so that they end with the main process alone.

        Shape: the sockets only; close() of a connection would tell the server to end the session.
        """
        if self._lock is not None:
            os.close(self._lock.fileno())
        if self._session is not None and self._session.vendor == "postgresql" and self._session.connection is not None:
            os.close(self._session.connection.fileno())

    def _database_away(self, error: Exception) -> None:
        if not self._is_away:
            log.warning(
                "the database is away (%s); the worker's lock is taken again when it is back", type(error).__name__
            )
        self._is_away = True
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        connection.close()

    def _end_drain(self) -> None:
        if self._drain_ends is not None and monotonic() > self._drain_ends:
            self._drain_ends = monotonic() + max(COLD_S, settings.JOBS_DRAIN_S)
            log.warning("the jobs have not ended in time: they are given back, and the worker ends")
            os.kill(os.getpid(), signal.SIGQUIT)

    def _end_deaf(self) -> None:
        """End the worker cold, so that its supervisor starts it anew; what it runs is given back without charge."""
        log.error("messages wait in the broker and this worker hears none of them: it ends, to be started again")
        shutdown.begin()
        late = threading.Timer(END_WITHIN_S, os._exit, [1])  # the main loop may hang, and see no signal
        late.daemon = True
        late.start()
        os.kill(os.getpid(), signal.SIGQUIT)


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


guardian = Guardian()
