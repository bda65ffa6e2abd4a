"""Job rows in a wanted state, written directly: what the CHECKs ask of that state is filled in."""

from datetime import timedelta

from tasks.clock import database_now
from tasks.models import Job
from tasks.states import FINISHED, State


def consistent(state: str, **fields) -> dict:
    """Return the columns of a job in this state, with the given ones on top."""
    now = database_now()
    columns = {"kind": "test.echo", "queue": "default", "state": state}
    columns |= {"enqueued_at": now - timedelta(minutes=5), "run_at": now - timedelta(minutes=5)}
    if state == State.RELAYED:
        columns |= {"relayed_at": now}
    if state == State.RUNNING:
        columns |= {"started_at": now, "worker": "host:1:1", "child_pid": 2, "run": 1, "attempts": 1}
    if state in FINISHED:
        columns |= {"finished_at": now}
    return columns | fields


def row(state: str, **fields) -> Job:
    """Write one job in this state."""
    return Job.objects.create(**consistent(state, **fields))


def stored(job_id: int) -> dict:
    """Return every column as it stands in the database."""
    return Job.objects.filter(id=job_id).values().get()


def failed(attempt: int, error: str = "TimeoutError: timed out") -> dict:
    """Return the history entry of a failed run."""
    return {
        "at": f"2026-01-02T03:04:{attempt:02d}+00:00",
        "what": "failed",
        "run": attempt,
        "attempt": attempt,
        "error": error,
        "traceback": f'Traceback (most recent call last):\n  File "x.py", line {attempt}\n{error}',
        "worker": "host:1:1",
    }
