"""Asking the child that runs a job to stop it, and no other."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from tasks import cancelling

STOPPED, NOT_STOPPED = 0, 1


def child(job_id: int, ready: int) -> int:
    """Fork a process that runs a job until it is asked to stop, and return its pid."""
    if pid := os.fork():
        return pid
    code = NOT_STOPPED
    try:
        cancelling.listen()
        with cancelling.possible(job_id):
            os.write(ready, b".")
            time.sleep(5)
    except cancelling.CancelRequested:
        code = STOPPED
    finally:
        os._exit(code)


@pytest.fixture
def children():
    """Give a function that starts children running jobs, and end them."""
    pids = []

    def start(*job_ids: int) -> list[int]:
        heard, ready = os.pipe()
        pids.extend(child(job_id, ready) for job_id in job_ids)
        for _ in job_ids:
            os.read(heard, 1)
        return pids

    yield start
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


def ended(pid: int) -> int:
    """Return the exit code of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_jobs_cancelled_at_the_same_moment_all_stop(children: Callable):
    """The second ask does not overwrite the first before it was read."""
    pids = children(7, 8, 9)

    for pid, job_id in zip(pids, (7, 8, 9), strict=True):
        cancelling.ask(pid, job_id)

    assert [ended(pid) for pid in pids] == [STOPPED] * 3


def test_ask_for_another_job_stops_nothing(children: Callable):
    """The child has gone on to the next one meanwhile."""
    [pid] = children(7)

    cancelling.ask(pid, 8)
    cancelling.ask(pid, 7 + cancelling.SLOTS)  # it shares the slot
    os.kill(pid, 0)
    cancelling.ask(pid, 7)

    assert ended(pid) == STOPPED
