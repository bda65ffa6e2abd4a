"""How long jobs needed to come back after a kill -9 of the process that ran them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from tasks.models import Job
from tests.chaos.checks import Found, failures
from tests.chaos.marks import ENDS, START, Mark
from tests.chaos.system import Kill


@dataclass(frozen=True)
class Recovery:
    """One job that lost its process.

    Units: seconds from the kill until the row was given back (by whole seconds of the row), and until the next start;
    the latter includes the backoff and what else waits in the queue. None where that did not happen.
    """

    job: Job
    given_back_s: float | None
    started_s: float | None


def recoveries(found: Found, kills: list[Kill]) -> list[Recovery]:
    """Return what became of each job whose process was killed by the run."""
    jobs = {job.id: job for job in found.jobs}
    return [
        Recovery(jobs[last.job], given_back_s(jobs[last.job], last.run, kill), started_s(found, last, kill))
        for kill in kills
        for last in running_at(found, kill)
    ]


def running_at(found: Found, kill: Kill) -> Iterator[Mark]:
    """Yield the last mark of each job that the killed process was running."""
    for marks in found.marks.values():
        before = [mark for mark in marks if mark.at <= kill.at]
        if before and kill.pid in (before[-1].pid, before[-1].group) and before[-1].what not in ENDS:
            yield before[-1]


def given_back_s(job: Job, run: int, kill: Kill) -> float | None:
    """Return when the row was given back, as its history says."""
    at = [datetime.fromisoformat(entry["at"]) for entry in failures(job) if entry["run"] == run]
    return max(0.0, (at[0] - kill.when).total_seconds()) if at else None


def started_s(found: Found, last: Mark, kill: Kill) -> float | None:
    """Return when the job was started again."""
    at = [mark.at for mark in found.marks[last.job] if mark.at > kill.at and mark.what == START]
    return at[0] - kill.at if at else None


def told(found: Found, kills: list[Kill]) -> list[str]:
    """Return the lines of the summary."""
    found_all = recoveries(found, kills)
    back = [one.given_back_s for one in found_all if one.given_back_s is not None]
    started = [one for one in found_all if one.started_s is not None]
    lines = [f"{len(found_all)} jobs lost their process to a kill -9 of the run"]
    if back:
        lines.append(f"  given back after: median {median(back):.1f} s, worst {max(back):.1f} s")
    if started:
        worst = max(started, key=lambda one: one.started_s)
        middle = median(one.started_s for one in started)
        lines.append(
            f"  started again after: median {middle:.1f} s, worst {worst.started_s:.1f} s "
            f"(job {worst.job.id}, priority {worst.job.priority}; backoff and backlog included)"
        )
    return lines
