"""The smoke test: a job goes through the whole chain, from a committed row to a worker of the release."""

import time

from django.conf import settings

from project.ops.tasks import SMOKE
from tasks.api import enqueue
from tasks.decisions import VERBS, decide_all
from tasks.models import Job
from tasks.states import State

LOOK_S = 0.2


def smoke(limit_s: float) -> str:
    """Enqueue a job for a worker of this release and wait for its end; return what is wrong, empty if nothing is.

    Transition: -> waiting; -> cancelled when it has not ended in time.
    """
    job = enqueue(SMOKE, release=settings.RELEASE)
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        job.refresh_from_db()
        if job.state == State.SUCCEEDED:
            return ""
        if job.state == State.DEAD:
            break
        time.sleep(LOOK_S)
    decide_all(VERBS["cancel"], Job.objects.filter(id=job.id), by="the smoke test", record=lambda jobs: None)
    return f"job {job.id} of kind {SMOKE} is {job.state} after {limit_s:g} s{_last_word(job)}"


def _last_word(job: Job) -> str:
    last = job.history[-1] if job.history else {}
    return f" ({last.get('error') or last.get('what')})" if last else ""
