"""Run jobs in a worker's child: claim the row, call the handler, finish the row."""

import logging
import time

from billiard.common import terminate_handler_fired
from django.db import connection, transaction

from tasks import cancelling, claiming, endings, handler_signals, registry, shutdown
from tasks.endings import Ending
from tasks.errors import RetryLater, Superseded, Unfit
from tasks.models import Job
from tasks.outage import DATABASE_AWAY, outlast
from tasks.running_job import RunningJob

log = logging.getLogger(__name__)

# A message is a wake-up: Celery's own cost per message is paid once for many small jobs.
JOBS_PER_MESSAGE = 20
SECONDS_PER_MESSAGE = 1.0
NEARLY = 0.9  # the pool counts a hard limit from the message, somewhat before the claim
LIMIT_SHARE = 60  # earlier jobs of a message use up at most this part of the last one's soft time limit


def execute(kind: str, job_id: int, run: int) -> None:
    """Run the job of a message, then further due jobs of its kind for a moment.

    Raises: nothing for a database that is away: after a long wait, the lost-message rule or rescue brings the row back.
    """
    with handler_signals.held():
        cancelling.listen()
        started = time.monotonic()
        try:
            if is_stopping():
                Job.objects.hand_back(job_id, run)
                return
            job, done = claiming.claim(kind, job_id, run), 0
            while job is not None:
                perform(job)
                done += 1
                if done == JOBS_PER_MESSAGE or time.monotonic() - started > wake_up_s(job.kind) or is_stopping():
                    return
                job = claiming.claim_next(kind, job.queue)
        except DATABASE_AWAY as error:
            log.warning("job %s: the database is away (%s); the relay brings it back", job_id, type(error).__name__)
            connection.close()


def is_stopping() -> bool:
    """Tell whether this child takes nothing new: its worker stops, or it alone is being ended."""
    return shutdown.has_begun() or handler_signals.is_ending()


def wake_up_s(kind: str) -> float:
    """Return for how long one message may start further jobs. Units: seconds."""
    return min(SECONDS_PER_MESSAGE, endings.soft_limit_s(kind) / LIMIT_SHARE)


def perform(job: Job) -> None:
    """Call the handler of a claimed job and write how it ended. Transition: running -> any but relayed."""
    running = RunningJob(job)
    log.info("job %s.%s %s started, attempt %s", job.id, job.run, job.kind, job.attempts)
    try:
        ending = call(running, job)
    except Unfit as unfit:
        ending = refused(running, job, str(unfit))
    except RetryLater as later:
        ending = endings.snoozed(job, later, running.now())
    except cancelling.CancelRequested:
        ending = endings.cancelled(job, running.now())
    except Superseded:
        ending = Ending("was taken over; its effects were rolled back", lambda: 1)
    except BaseException as error:  # foreign code: MemoryError and SystemExit must not reach the pool either
        if terminate_handler_fired() or isinstance(error, KeyboardInterrupt):
            interrupt(running, job)
            raise  # this process is being ended
        ending = endings.failed(job, error, running.now())
    finish(running, job, ending)


def refused(running: RunningJob, job: Job, why: str) -> Ending:
    """Return what becomes of a job that this code cannot run; the answer is asked of the database."""
    limit_s = endings.hard_limit_s(job.kind)
    return outlast(lambda: endings.unknown(job, why, running.now()), "a refused job", limit_s=limit_s)


def finish(running: RunningJob, job: Job, ending: Ending) -> None:
    """Write and log the end of a run; where that cannot be written, that it could not."""
    try:
        ended = write(job, ending)
    except DATABASE_AWAY:
        raise
    except Exception as error:  # whatever a handler left behind, the row must not stay running
        log.exception("job %s.%s: its end could not be written", job.id, job.run)
        sentence = f"The end of the run could not be written: {type(error).__name__}."
        ended = write(job, endings.crashed(job, sentence, running.now()))
    log.log(ending.level, "job %s.%s %s %s after %.3f s", job.id, job.run, job.kind, ended, running.elapsed_s())


def interrupt(running: RunningJob, job: Job) -> None:
    """Give back a job that a shutdown cuts off. At the hard time limit nothing is written: the guardian charges it.

    Transition: running -> waiting, without charge.
    """
    if shutdown.has_begun() and running.elapsed_s() < NEARLY * endings.hard_limit_s(job.kind):
        connection.close()  # the signal may have come in the middle of a statement
        finish(running, job, endings.interrupted(job, running.now()))


def call(running: RunningJob, job: Job) -> Ending:
    """Call the handler; for an atomic kind, finish the row in the same transaction.

    Raises: Unfit; whatever the handler raises; Superseded when an atomic job is no longer ours.
    """
    arguments = registry.fitted_arguments(job.kind, job.version, job.arguments)
    kind = registry.get(job.kind)
    given = [running] if kind.bind else []
    if not kind.atomic:
        with cancelling.possible(job.id), handler_signals.felt():
            kind.handler(*given, **arguments)
        return Ending("succeeded", lambda: Job.objects.succeed(job))
    with transaction.atomic():
        with cancelling.possible(job.id), handler_signals.felt():
            kind.handler(*given, **arguments)
        if not Job.objects.succeed(job):
            raise Superseded
    return Ending("succeeded", lambda: 1)


def write(job: Job, ending: Ending) -> str:
    """Write the end of a run, waiting for a database that is away; return what became of the job.

    Units: waits at most the kind's hard time limit; the pool kills the child then at the latest.
    """

    def update() -> str:
        if connection.errors_occurred:  # in the handler: it may be lost
            connection.close_if_unusable_or_obsolete()
        return ending.words if ending.update() else "was ended by somebody else; this run changes nothing"

    return outlast(update, "the end of a run", limit_s=endings.hard_limit_s(job.kind))
