"""What the kit adds to a Celery worker's main process. Imported where the app is ready, harmless elsewhere."""

import logging

from celery import bootsteps, current_app
from celery.signals import task_unknown, worker_ready, worker_shutting_down
from django.db import Error as DatabaseError
from django.db import connection

from tasks import executor, locks, shutdown
from tasks.models import Job
from tasks.running_job import RunningJob

log = logging.getLogger(__name__)

MAINTAIN_POOL_S = 0.25


class JobStep(bootsteps.StartStopStep):
    """Note the end of the worker's life early, and replace ended children without the pool's 5 s tick.

    Source: docs/decisions/0002.
    """

    requires = {"celery.worker.components:Pool"}

    def start(self, worker):
        """Look after the pool often; only the event loop of Redis and AMQP needs it."""
        if worker.use_eventloop:
            worker.timer.call_repeatedly(MAINTAIN_POOL_S, worker.pool.maintain_pool)

    def stop(self, worker):
        """Tell the children, also where no signal is sent: a lost broker, an unrecoverable error."""
        shutdown.begin()

    terminate = stop


def install(app) -> None:
    """Add the step to the app's workers."""
    app.steps["worker"].add(JobStep)


@worker_shutting_down.connect
def tell_children(**kwargs) -> None:
    """Let no child take a further job."""
    shutdown.begin()


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
        if job := Job.objects.claim(int(job_id), int(run), **executor.owner()):
            why = f"No task is registered as {name!r} in this worker."
            executor.release_unknown(RunningJob(job), job, why).update()
    except DatabaseError as error:
        log.warning("job %s: the database is away (%s); its row comes back by itself", job_id, type(error).__name__)
        connection.close()


install(current_app)
