"""What must be true at the end. Each check yields what is not, in words."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tasks.endings import FREE_INTERRUPTIONS
from tasks.history import FAILURES_KEPT
from tasks.models import Job
from tasks.states import LIVE, State
from tests.chaos import specs
from tests.chaos.marks import SNOOZE, START, Mark
from tests.chaos.stream import KEY, ROLLED_BACK_KEY
from tests.chaos.system import Freeze

# Why a run may fail through no fault of its kind: its process or its database was taken away. A stop is no reason.
PROCESS_GONE = (
    "Its process was lost: Worker exited prematurely",
    "Its process ended for an unknown reason.",
    "Its worker's process is gone.",
    "Its worker was stopped while it ran",
    "It ran past its hard time limit",
    "The hard time limit",
    "The end of the run could not be written",
)
DATABASE_GONE = ("OperationalError:", "InterfaceError:")
TOO_SLOW = ("The soft time limit",)
START_LATE_S = 0.1
BY_FAULTS = PROCESS_GONE + DATABASE_GONE + TOO_SLOW


class Complaint(NamedTuple):
    """What is wrong, and with which job if it is one job's."""

    sentence: str
    job: int | None = None


@dataclass
class Found:
    """All that is known at the end. Shape: effects counts rows by job id, as text."""

    jobs: list[Job] = field(default_factory=list)
    marks: dict[int, list[Mark]] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    enqueued: set[int] = field(default_factory=set)
    rolled_back: set[int] = field(default_factory=set)
    freezes: list[Freeze] = field(default_factory=list)
    complaints: list[Complaint] = field(default_factory=list)  # what the run itself has seen going wrong

    def runs(self, job_id: int) -> dict[int, list[Mark]]:
        """Return a job's marks by run."""
        by_run = defaultdict(list)
        for mark in self.marks.get(job_id, []):
            by_run[mark.run].append(mark)
        return dict(sorted(by_run.items()))

    def not_started(self, job: Job) -> list[int]:
        """Return the runs of a job whose handler never came to its first line."""
        started = self.runs(job.id)
        return [run for run in range(1, job.run + 1) if run not in started]


Check = Callable[[Found], Iterator[Complaint]]


def failures(job: Job) -> list[dict]:
    """Return the failed runs that the row remembers."""
    return [entry for entry in job.history if entry["what"] == "failed"]


def nothing_was_lost(found: Found) -> Iterator[Complaint]:
    """Each acknowledged job is one row, and a rolled back one is none."""
    rows = Counter(job.unique_key for job in found.jobs)
    for number in found.enqueued:
        if rows[f"{KEY}{number}"] != 1:
            yield Complaint(f"job number {number} was enqueued and has {rows[f'{KEY}{number}']} rows.")
    for number in found.rolled_back:
        if rows[f"{ROLLED_BACK_KEY}{number}"]:
            yield Complaint(f"job number {number} was rolled back and has a row.")


def every_job_has_its_own_end(found: Found) -> Iterator[Complaint]:
    """It succeeded, or is dead for the reason that its kind has, or for its few attempts' being taken by faults."""
    for job in found.jobs:
        spec = specs.SPECS[job.kind]
        if job.state in LIVE:
            yield Complaint(f"is {job.state} still, run {job.run}, relayed {job.relays} times.", job.id)
        elif job.state != spec.end:
            errors = [entry["error"] for entry in failures(job)]
            yield Complaint(f"is {job.state} and should be {spec.end}: {errors[-1:]}.", job.id)
        elif job.state == State.DEAD and not died_properly(job, spec):
            yield Complaint(f"is dead after {job.attempts} attempts for {failures(job)[-1:]}.", job.id)


def died_properly(job: Job, spec: specs.Spec) -> bool:
    """Tell whether a dead job's last error is its own, or a fault's at the last of its few attempts."""
    if not (errors := failures(job)):
        return False
    is_own = errors[-1]["error"].startswith(spec.reason)
    is_spent = job.attempts == job.max_attempts
    if job.kind == "chaos.permanent":
        return is_own
    return is_spent and (is_own or errors[-1]["error"].startswith(BY_FAULTS))


def every_failure_has_a_known_reason(found: Found) -> Iterator[Complaint]:
    """A kind's own error, or a fault's."""
    for job in found.jobs:
        known = BY_FAULTS + specs.SPECS[job.kind].own_errors
        for entry in failures(job):
            if not entry["error"].startswith(known):
                yield Complaint(f"failed in run {entry['run']} for an unexpected reason: {entry['error']}", job.id)


def effects_are_as_promised(found: Found) -> Iterator[Complaint]:
    """Exactly one of an atomic job that succeeded, none of a dead one, at least one of the others."""
    for job in found.jobs:
        effects = found.effects[str(job.id)]
        wanted = specs.SPECS[job.kind].effects
        is_right = {specs.ONCE: effects == 1, specs.SOME: effects >= 1, specs.NONE: effects == 0}[wanted]
        if job.state == State.SUCCEEDED and not is_right:
            yield Complaint(f"left {effects} effects instead of {wanted}.", job.id)
        if job.state == State.DEAD and effects:
            yield Complaint(f"is dead and left {effects} effects.", job.id)


def attempts_match(found: Found) -> Iterator[Complaint]:
    """Each run was charged, or was an interruption, a snooze, or taken back before its first line.

    Each charged failure stands in the history.
    """
    for job in found.jobs:
        snoozes = sum(mark.what == SNOOZE for mark in found.marks.get(job.id, []))
        most = job.interruptions + snoozes + len(found.not_started(job))
        if not job.interruptions <= uncharged(job) <= most:
            yield Complaint(
                f"has {job.run} runs, {job.attempts} attempts, {job.interruptions} interruptions, {snoozes} snoozes.",
                job.id,
            )
        if job.attempts > job.max_attempts or job.interruptions > FREE_INTERRUPTIONS:
            yield Complaint(f"has {job.attempts} attempts and {job.interruptions} interruptions: too many.", job.id)
        failed = job.attempts - (job.state == State.SUCCEEDED)
        if job.state not in LIVE and len(failures(job)) != min(failed, FAILURES_KEPT):
            yield Complaint(f"has {failed} failed attempts and {len(failures(job))} of them in its history.", job.id)


def uncharged(job: Job) -> int:
    """Return how many runs cost no attempt."""
    return job.run - job.attempts


def every_run_started_once(found: Found) -> Iterator[Complaint]:
    """Each run has one start; one without was not charged, or the row says what took it away before its first line."""
    for job in found.jobs:
        starts = Counter(mark.run for mark in found.marks.get(job.id, []) if mark.what == START)
        for run, times in starts.items():
            if times > 1 or not 1 <= run <= job.run:
                yield Complaint(f"started run {run} {times} times; the row has {job.run} runs.", job.id)
        gone = {entry["run"] for entry in failures(job) if entry["error"].startswith(PROCESS_GONE + DATABASE_GONE)}
        oldest_known = failures(job)[0]["run"] if len(failures(job)) == FAILURES_KEPT else 0
        unexplained = [run for run in found.not_started(job) if run >= oldest_known and run not in gone]
        if len(unexplained) > uncharged(job):
            yield Complaint(f"has no start of the runs {unexplained}; {uncharged(job)} were not charged.", job.id)
        if job.state == State.SUCCEEDED and job.run not in starts:
            yield Complaint(f"succeeded in run {job.run} without having started it.", job.id)


def no_run_overlapped_another(found: Found) -> Iterator[Complaint]:
    """A run that was still working when the next one started had a frozen process."""
    for job in found.jobs:
        runs = list(found.runs(job.id).values())
        for run, following in zip(runs, runs[1:], strict=False):
            late_s = max(mark.at for mark in run) - min(mark.at for mark in following)
            if late_s > 0 and not was_frozen(run, found.freezes):
                yield Complaint(f"run {run[0].run} went on for {late_s:.2f} s in run {following[0].run}.", job.id)


def was_frozen(run: list[Mark], freezes: list[Freeze]) -> bool:
    """Tell whether a run's worker was frozen between the run's first mark and its last."""
    first, last = run[0], run[-1]
    return any(freeze.group == first.group and first.at < freeze.until and freeze.since < last.at for freeze in freezes)


def no_rate_was_exceeded(found: Found) -> Iterator[Complaint]:
    """Of a kind limited to R a second, no second saw more than R starts.

    A start is seen a little after its turn, more so on a busy machine: START_LATE_S is allowed. One whose process was
    frozen between the two says nothing.
    """
    for kind, limit in specs.RATE_LIMITED.items():
        starts = [mark for mark in marks_of(found, kind) if mark.what == START]
        times = sorted(mark.at for mark in starts if not has_just_thawed(mark, found.freezes))
        for first, following in zip(times, times[limit:], strict=False):
            if following - first < 1.0 - START_LATE_S:
                yield Complaint(f"{kind}: {limit + 1} starts within {following - first:.3f} s; {limit} is the limit.")


def no_cap_was_exceeded(found: Found) -> Iterator[Complaint]:
    """Of a kind capped at N, no moment saw more than N runs."""
    for kind, limit in specs.CAPPED.items():
        runs = [run for job in found.jobs if job.kind == kind for run in found.runs(job.id).values()]
        for start in (run[0].at for run in runs):
            at_once = sum(run[0].at <= start < run[-1].at for run in runs)
            if at_once > limit:
                yield Complaint(f"{kind}: {at_once} runs at once; {limit} is the limit.")


def marks_of(found: Found, kind: str) -> list[Mark]:
    """Return all marks of a kind's jobs."""
    return [mark for job in found.jobs if job.kind == kind for mark in found.marks.get(job.id, [])]


def has_just_thawed(mark: Mark, freezes: list[Freeze]) -> bool:
    """Tell whether a mark's process went on only a moment ago."""
    return any(freeze.group == mark.group and -1 < mark.at - freeze.until < 1 for freeze in freezes)


def nothing_went_wrong_in_the_run(found: Found) -> Iterator[Complaint]:
    """What only the run itself could see: ends of processes, the broker, locks."""
    yield from found.complaints


CHECKS: list[Check] = [
    nothing_was_lost,
    every_job_has_its_own_end,
    every_failure_has_a_known_reason,
    effects_are_as_promised,
    attempts_match,
    every_run_started_once,
    no_run_overlapped_another,
    no_rate_was_exceeded,
    no_cap_was_exceeded,
    nothing_went_wrong_in_the_run,
]


def complaints(found: Found) -> list[Complaint]:
    """Return everything that is not as promised."""
    return [complaint for check in CHECKS for complaint in check(found)]
