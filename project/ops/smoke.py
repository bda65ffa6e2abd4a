"""The smoke test: a job goes through the whole chain, from a committed row to a worker of the release."""

import time

from django.conf import settings
from django.db.models import Q

from project.ops.tasks import QUEUE, SMOKE
from tasks.api import enqueue
from tasks.decisions import VERBS, decide_all
from tasks.models import Job, Pause
from tasks.states import State

LOOK_S = 0.2


def smoke(limit_s: float) -> dict:
    """Enqueue a job for a worker of this release and wait for its end; return what is wrong.

    Transition: -> waiting; -> cancelled when it has not ended in time.
    Shape: fault is empty if nothing is wrong. Besides, only where it holds: is_paused, nothing was sent since a person
    has paused it; busy, the workers that run jobs while this one waits: whose all children are busy can take no more.
    """
    if Pause.objects.filter(Q(what=Pause.What.QUEUE, name=QUEUE) | Q(what=Pause.What.KIND, name=SMOKE)).exists():
        return {"fault": "", "is_paused": True}
    job = enqueue(SMOKE, release=settings.RELEASE)
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        job.refresh_from_db()
        if job.state == State.SUCCEEDED:
            return {"fault": ""}
        if job.state == State.DEAD:
            break
        time.sleep(LOOK_S)
    is_waiting = job.state in (State.WAITING, State.RELAYED)
    running = Job.objects.filter(state=State.RUNNING).values_list("worker", flat=True)
    busy = sorted(set(running)) if is_waiting else []
    decide_all(VERBS["cancel"], Job.objects.filter(id=job.id), by="the smoke test", record=lambda jobs: None)
    return {"fault": f"job {job.id} of kind {SMOKE} is {job.state} after {limit_s:g} s{_last_word(job)}", "busy": busy}


def _last_word(job: Job) -> str:
    last = job.history[-1] if job.history else {}
    return f" ({last.get('error') or last.get('what')})" if last else ""
