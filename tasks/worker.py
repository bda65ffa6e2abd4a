"""What the kit adds to a Celery worker's main process. Harmless in every other process.

Which hook fires where was found by experiment: docs/decisions/0002
"""

import logging
import time

from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import TimeLimitExceeded
from celery import bootsteps, current_app
from celery.concurrency.prefork import TaskPool as PreforkPool
from celery.signals import task_unknown, worker_process_init, worker_ready, worker_shutting_down
from celery.worker.request import Request
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from tasks import claiming, endings, locks, shutdown
from tasks.children import HARD_LIMIT
from tasks.clock import database_now
from tasks.guardian import guardian
from tasks.heartbeat import Heartbeat
from tasks.memory import OomKills, events_file
from tasks.models import Job
from tasks.states import State

log = logging.getLogger(__name__)

MAINTAIN_POOL_S = 0.25
GIVE_BACK_S, GIVE_BACK_LOOK_S = 5.0, 0.05


class JobRequest(Request):
    """A message in the main process: it sees how the child that ran it has ended.

    A hook here must not raise: Celery would never give the message's place back.
    """

    def on_failure(self, exc_info, send_failed_event=True, return_ok=False):
        """Note why a child ended; a failure that the child itself reported is none of that."""
        if not return_ok:
            guardian.explain(self.worker_pid, reason_of(exc_info.exception))
        return super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def on_timeout(self, soft, timeout):
        """Note the hard time limit; the pool kills the child next."""
        if not soft:
            guardian.explain(self.worker_pid, f"{HARD_LIMIT} of {timeout:g} s was exceeded.")
        return super().on_timeout(soft, timeout)

    def acknowledge(self):
        """Let a failed ack end the worker, as any loss of its broker: Celery would log it and never free the place."""
        if not shutdown.has_begun():
            self._connection_errors = ()  # those that the ack only logs
        super().acknowledge()

    def cancel(self, pool, signal=None, emit_retry=True):
        """Tell the child that a cold shutdown ends it; it gives its job back itself."""
        shutdown.begin()
        return super().cancel(pool, signal, emit_retry=emit_retry)


def reason_of(error: BaseException) -> str:
    """Return in a sentence why a child ended."""
    error = error.exc if isinstance(error, ExceptionWithTraceback) else error
    if isinstance(error, TimeLimitExceeded):
        return f"{HARD_LIMIT} of {error.args[0]:g} s was exceeded."
    return f"Its process was lost: {error}"


class JobStep(bootsteps.StartStopStep):
    """Start the guardian before the first message, and note the end of the worker's life early."""

    requires = {"celery.worker.components:Pool"}

    def __init__(self, worker, **kwargs):
        """Refuse a pool that keeps no time limits and whose jobs cannot be told from the worker.

        Raises: SystemExit.
        """
        if not issubclass(worker.pool_cls, PreforkPool):
            raise SystemExit("This worker does not start: jobs need the prefork pool; leave out -P and --pool.")
        super().__init__(worker, **kwargs)

    def start(self, worker):
        """Hold the worker's lock; look after the pool more often than its own 5 s, where there is an event loop."""
        guardian.heartbeat = Heartbeat(claiming.WORKER, lambda: sorted(worker.app.amqp.queues.consume_from))
        guardian.children.kills = OomKills(events_file())
        guardian.start()
        if worker.use_eventloop:
            guardian.watch_main_loop()
            worker.timer.call_repeatedly(MAINTAIN_POOL_S, guardian.note_turn)
            worker.timer.call_repeatedly(MAINTAIN_POOL_S, worker.pool.maintain_pool)

    def stop(self, worker):
        """Do the same where no signal has come: then the broker was lost, or an error ends the worker."""
        if not shutdown.has_begun():
            shutdown.begin()
            guardian.drain(settings.JOBS_DRAIN_ON_BROKER_LOSS_S)

    def terminate(self, worker):
        """Give the children of a cold shutdown a moment to give back their jobs, before the pool ends them."""
        self.stop(worker)
        try:
            wait_until_given_back()
        except DatabaseError as error:
            log.warning("the database is away (%s); rescue brings the jobs back", type(error).__name__)


def wait_until_given_back() -> None:
    """Wait until none of this worker's jobs runs. Units: at most GIVE_BACK_S."""
    deadline = time.monotonic() + GIVE_BACK_S
    running = Job.objects.filter(worker=claiming.WORKER, state=State.RUNNING)
    while running.exists() and time.monotonic() < deadline:
        time.sleep(GIVE_BACK_LOOK_S)


def install(app) -> None:
    """Add the step to the app's workers."""
    app.steps["worker"].add(JobStep)


@worker_process_init.connect
def leave_lock_to_main(**kwargs) -> None:
    """Close a child's copy of the worker's lock: it must not outlive the main process."""
    guardian.forget_in_child()


@worker_shutting_down.connect
def tell_children(how=None, **kwargs) -> None:
    """Let no child take a further job, and bound the drain. Runs inside a signal handler."""
    shutdown.begin()
    if how == "Cold":
        guardian.give_time_for_cold_shutdown()
    else:
        guardian.drain(settings.JOBS_DRAIN_S)


@worker_ready.connect
def warn_without_relay(**kwargs) -> None:
    """Say in one line that jobs will wait, and how to help."""
    try:
        if not locks.is_held(locks.RELAY):
            log.warning("No relay is running: jobs wait in the table until you start one with `manage.py relay`.")
    except DatabaseError as error:
        log.warning("The database does not answer (%s); jobs run when it is back.", type(error).__name__)
    finally:
        connection.close()


@task_unknown.connect
def release_unknown(id=None, name=None, **kwargs) -> None:
    """Offer a job whose kind this code lacks to other workers; Celery has dropped its message.

    Transition: relayed -> running -> waiting; -> dead when no worker has known it for long.
    """
    job_id, _, run = (id or "").partition(".")
    if not (job_id.isdigit() and run.isdigit()):
        return  # a plain Celery task, without the promise
    try:
        if job := Job.objects.claim(int(job_id), int(run), **claiming.owner()):
            ending = endings.unknown(job, f"No task is registered as {name!r} in this worker.", database_now())
            ending.update()
            log.warning("job %s.%s %s", job_id, run, ending.words)
    except DatabaseError as error:
        log.warning("job %s: the database is away (%s); its row comes back by itself", job_id, type(error).__name__)
        connection.close()


install(current_app)
