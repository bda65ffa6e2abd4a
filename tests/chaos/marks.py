"""What handlers say of themselves: that a run has started, still works, has ended.

A file and not a table: a mark must outlive the database that is killed, must not roll back with an atomic job, and on
SQLite nobody else may write while such a job runs. All processes share one host, so one monotonic clock orders them.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from tasks.api import RetryLater

START, ALIVE, RETURN, RAISE, SNOOZE = "start", "alive", "return", "raise", "snooze"
ENDS = (RETURN, RAISE, SNOOZE)


@dataclass(frozen=True)
class Mark:
    """One line. Units: at in seconds of the host's monotonic clock; group is the worker's process group."""

    job: int
    run: int
    attempt: int
    pid: int
    group: int
    at: float
    what: str
    note: str = ""


def mark(running, what: str, note: str = "") -> None:
    """Add a line. One write in append mode: a kill leaves all of it or nothing."""
    found = Mark(running.id, running.run, running.attempt, os.getpid(), os.getpgrp(), time.monotonic(), what, note)
    file = os.open(settings.CHAOS_MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(asdict(found)).encode() + b"\n")
    finally:
        os.close(file)


@contextmanager
def marked(running) -> Iterator[None]:
    """Mark the start of a run, and its end however it ends short of a kill."""
    mark(running, START)
    try:
        yield
    except RetryLater:
        mark(running, SNOOZE)
        raise
    except BaseException as error:  # SystemExit too: that is how a cold shutdown ends a handler
        mark(running, RAISE, type(error).__name__)
        raise
    mark(running, RETURN)


def work(running, seconds: float) -> None:
    """Take so long, and say ten times a second that it goes on."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        time.sleep(min(0.1, left))
        mark(running, ALIVE)


def read_marks(path: Path) -> dict[int, list[Mark]]:
    """Return all marks by job, in the order of time."""
    found = defaultdict(list)
    if path.exists():
        for line in path.read_text().splitlines():
            one = Mark(**json.loads(line))
            found[one.job].append(one)
    return {job: sorted(marks, key=lambda one: one.at) for job, marks in found.items()}
