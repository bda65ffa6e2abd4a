"""@job: make a function the handler of a kind, and a Celery task of the same name whose calls write job rows."""

from collections.abc import Callable
from datetime import timedelta

import celery
from celery import shared_task

from tasks import registry
from tasks.clock import database_now
from tasks.enqueue import enqueue
from tasks.models import Job

# What beat adds to each call; everything else that a row cannot honour is refused.
HEADERS_OF_BEAT = {"periodic_task_name", "celery_beat_task"}


class JobTask(celery.Task):
    """A Celery task whose messages are `[job id, run]` and whose public calls write a row."""

    abstract = True
    typing = False  # execute checks a job's arguments itself, against the row
    acks_late = True
    ignore_result = True
    Request = "tasks.worker:JobRequest"
    handler: Callable

    def run(self, job_id: int, run: int) -> None:
        """Execute a job in a worker; messages come from the relay only."""
        from tasks.executor import execute

        self.push_request(called_directly=True)  # inside, a call of this task is a handler's own and means the handler
        try:
            execute(self.name, job_id, run)
        finally:
            self.pop_request()

    def __call__(self, *args, **kwargs):
        """Call the handler when a person or a handler does; run the job when a worker does."""
        return self.handler(*args, **kwargs) if self.request.called_directly else self.run(*args, **kwargs)

    def apply_async(self, args=None, kwargs=None, **options) -> Job:
        """Write a job row, as enqueue does; `.delay()` and signatures come through here.

        Raises: TypeError for options that a row cannot honour; EnqueueError as enqueue does.
        """
        options = {name: value for name, value in options.items() if value not in (None, [], {})}
        options.pop("producer", None)
        if options.get("queue") == registry.get(self.name).queue:
            options.pop("queue")
        if set(options.get("headers", ())) <= HEADERS_OF_BEAT:
            options.pop("headers", None)
        run_at = options.pop("eta", None)
        if (countdown := options.pop("countdown", None)) is not None:
            run_at = database_now() + timedelta(seconds=countdown)
        priority = options.pop("priority", None)
        if options:
            raise TypeError(
                f"{self.name} is a job: its row cannot honour {', '.join(sorted(options))}. "
                "Let one handler enqueue the next in its own transaction; "
                "use enqueue(..., run_at=, priority=, unique_key=) for the rest."
            )
        return enqueue(self.name, *(args or ()), **(kwargs or {}), run_at=run_at, priority=priority)

    def apply(self, *args, **kwargs):
        """Refuse: running a job here would go round its row."""
        raise TypeError(f"{self.name} is a job: call {self.name.rpartition('.')[2]}(...) itself to run it here.")


def job(kind: str, /, **options) -> Callable[[Callable], celery.Task]:
    """Register a function as the handler of a kind.

    Shape: options are the fields of registry.Kind; with bind=True the handler's first parameter is a RunningJob.
    Units: limits in seconds, for one job.
    """

    def register(handler: Callable) -> celery.Task:
        known = registry.Kind(name=kind, handler=handler, **options)
        registry.register(known)
        task = type("JobTask", (JobTask,), {"abstract": True, "handler": staticmethod(handler)})
        return shared_task(
            base=task,
            name=kind,
            bind=True,
            soft_time_limit=known.soft_time_limit_s,
            time_limit=known.time_limit_s,
        )(JobTask.run)

    return register
