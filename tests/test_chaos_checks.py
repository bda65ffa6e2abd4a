"""The questions of the random fault run see what they are for: each broken promise is told once, a kept one never."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tasks.models import Job
from tasks.states import State
from tests.chaos import specs
from tests.chaos.checks import Complaint, Found, complaints
from tests.chaos.marks import ALIVE, RAISE, RETURN, SNOOZE, START, Mark
from tests.chaos.recovery import recoveries
from tests.chaos.system import Freeze, Kill

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
KILLED = "Its process was lost: Worker exited prematurely: signal 9 (SIGKILL)."
OWN = "RuntimeError: on purpose, always"
QUICK, ATOMIC, HOPELESS, SNOOZED, CUT_OFF = range(1, 6)


def row(number: int, kind: str, errors: tuple = (), **fields) -> Job:
    """Return an unsaved job whose first runs failed for these reasons."""
    at = (NOON + timedelta(seconds=4)).isoformat()
    history = [{"what": "failed", "run": run, "at": at, "error": error} for run, error in enumerate(errors, start=1)]
    defaults = {"state": State.SUCCEEDED, "run": 1, "attempts": 1, "max_attempts": 25, "history": history}
    return Job(id=number, kind=kind, unique_key=f"chaos:{number}", **defaults | fields)


def marks(job: int, run: int, *told: tuple[float, str], group: int = 100) -> list[Mark]:
    """Return what one run has said; its process is a child of the group's worker."""
    return [Mark(job, run, run, group + job, group, at, what) for at, what in told]


@pytest.fixture
def found() -> Found:
    """Give a run in which everything went right: one job of each sort, two of them hit by a fault."""
    dead = {"state": State.DEAD, "run": 3, "attempts": 3, "max_attempts": 3}
    jobs = [
        row(QUICK, "chaos.quick"),
        row(ATOMIC, "chaos.atomic", (KILLED,), run=2, attempts=2),
        row(HOPELESS, "chaos.hopeless", (OWN, OWN, KILLED), **dead),
        row(SNOOZED, "chaos.snooze", run=2),
        row(CUT_OFF, "chaos.steps", run=2, interruptions=1),
    ]
    told = {
        QUICK: marks(QUICK, 1, (1, START), (1.1, RETURN)),
        ATOMIC: marks(ATOMIC, 1, (1, START), (2, ALIVE)) + marks(ATOMIC, 2, (8, START), (9, RETURN), group=200),
        HOPELESS: marks(HOPELESS, 1, (1, START), (1.1, RAISE)) + marks(HOPELESS, 2, (2, START), (2.1, RAISE)),
        SNOOZED: marks(SNOOZED, 1, (1, START), (1.1, SNOOZE)) + marks(SNOOZED, 2, (3, START), (3.1, RETURN)),
        CUT_OFF: marks(CUT_OFF, 2, (5, START), (6, RETURN)),
    }
    effects = Counter({str(number): 1 for number in (QUICK, ATOMIC, SNOOZED, CUT_OFF)})
    return Found(jobs=jobs, marks=told, effects=effects, enqueued=set(range(1, 6)), rolled_back={9})


def test_kept_promises_are_not_complained_of(found):
    """Neither are faults that took an attempt, a start or the last of few attempts."""
    assert complaints(found) == []


def lose_a_row(found):
    """Acknowledge a job that is not there."""
    found.enqueued.add(6)


def write_a_rolled_back_row(found):
    """Keep a row of a transaction that failed."""
    found.jobs.append(row(6, "chaos.permanent", ("PermanentError: on purpose",), state=State.DEAD))
    found.jobs[-1].unique_key = "chaos-rolled-back:9"
    found.marks[6] = marks(6, 1, (1, START), (1.1, RAISE))


def leave_a_job_running(found):
    """End before a job does."""
    found.jobs[QUICK - 1].state = State.RUNNING


def bury_what_should_succeed(found):
    """Let a fault bury a job that had attempts left."""
    found.jobs[QUICK - 1] = row(QUICK, "chaos.quick", (KILLED,), state=State.DEAD)
    del found.effects[str(QUICK)]


def bury_too_early(found):
    """Stop trying before the attempts are spent."""
    found.jobs[HOPELESS - 1].max_attempts = 4


def fail_for_a_strange_reason(found):
    """Fail with an error of our own code."""
    found.jobs[ATOMIC - 1].history[0]["error"] = "IntegrityError: duplicate key"
    found.marks[ATOMIC][1] = replace(found.marks[ATOMIC][1], what=RAISE)


def write_an_atomic_effect_twice(found):
    """Commit a run that somebody else has finished."""
    found.effects[str(ATOMIC)] = 2


def lose_an_effect(found):
    """Finish a job without its effect."""
    del found.effects[str(QUICK)]


def leave_an_effect_of_a_dead_job(found):
    """Commit what should have been rolled back."""
    found.effects[str(HOPELESS)] = 1


def charge_no_attempt(found):
    """Run twice for one attempt."""
    found.jobs[QUICK - 1].run = 2
    found.marks[QUICK] += marks(QUICK, 2, (2, START), (2.1, RETURN))


def forget_a_failure(found):
    """Charge an attempt without a reason."""
    found.jobs[ATOMIC - 1].attempts = found.jobs[ATOMIC - 1].run = 3
    found.marks[ATOMIC] += marks(ATOMIC, 3, (10, START), (11, RETURN))


def start_a_run_twice(found):
    """Claim one run twice."""
    found.marks[QUICK] += marks(QUICK, 1, (1.2, START), (1.3, RETURN), group=200)


def start_nothing(found):
    """Have a run that nobody started and no fault explains."""
    del found.marks[HOPELESS][2:]


def overlap(found):
    """Go on working while the next run has started."""
    found.marks[ATOMIC][1] = replace(found.marks[ATOMIC][1], at=8.5)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lose_a_row, "number 6 was enqueued and has 0 rows"),
        (write_a_rolled_back_row, "was rolled back and has a row"),
        (leave_a_job_running, "is running still"),
        (bury_what_should_succeed, "is dead and should be succeeded"),
        (bury_too_early, "is dead after 3 attempts"),
        (fail_for_a_strange_reason, "unexpected reason: IntegrityError"),
        (write_an_atomic_effect_twice, "left 2 effects instead of exactly one"),
        (lose_an_effect, "left 0 effects"),
        (leave_an_effect_of_a_dead_job, "is dead and left 1 effects"),
        (charge_no_attempt, "has 2 runs, 1 attempts"),
        (forget_a_failure, "2 failed attempts and 1 of them in its history"),
        (start_a_run_twice, "started run 1 2 times"),
        (start_nothing, "has no start of the runs [2]"),
        (overlap, "run 1 went on for 0.50 s in run 2"),
    ],
)
def test_broken_promise_is_told_once(found, broken, says):
    """In words that say which."""
    broken(found)

    told = [complaint.sentence for complaint in complaints(found)]

    assert len(told) == 1 and says in told[0]


def test_frozen_run_may_overlap_the_next(found):
    """Its process could not know that it was given up."""
    overlap(found)

    found.freezes = [Freeze(group=100, since=1.5, until=8.4)]

    assert complaints(found) == []


def test_too_many_starts_in_a_second_are_told(found, monkeypatch):
    """Wherever that second begins."""
    monkeypatch.setitem(specs.RATE_LIMITED, "chaos.quick", 2)
    found.marks[QUICK] = [mark for at in (0.0, 0.9, 1.5) for mark in marks(QUICK, 1, (at, START))]

    assert not [complaint for complaint in complaints(found) if "starts within" in complaint.sentence]

    found.marks[QUICK] = [mark for at in (0.0, 0.8, 0.85) for mark in marks(QUICK, 1, (at, START))]

    assert [complaint.sentence for complaint in complaints(found) if "starts within" in complaint.sentence] == [
        "chaos.quick: 3 starts within 0.850 s; 2 is the limit."
    ]


def test_too_many_runs_at_once_are_told(found, monkeypatch):
    """Those that touch do not overlap."""
    monkeypatch.setitem(specs.CAPPED, "chaos.quick", 1)
    found.marks[QUICK] += marks(QUICK, 2, (1.1, START), (2, RETURN))

    assert not [complaint for complaint in complaints(found) if "at once" in complaint.sentence]

    found.marks[QUICK] += marks(QUICK, 3, (1.9, START), (3, RETURN))

    assert [complaint.sentence for complaint in complaints(found) if "at once" in complaint.sentence] == [
        "chaos.quick: 2 runs at once; 1 is the limit."
    ]


def test_what_the_run_saw_itself_is_told(found):
    """E.g. a lock that nobody may hold any more."""
    found.complaints = [Complaint("a lock is held.")]

    assert complaints(found) == found.complaints


def test_recovery_is_the_time_from_a_kill_to_the_next_start(found):
    """Of what the killed process was running, not of what it had finished."""
    killed, idle = (Kill(at=at, pid=pid, when=NOON) for at, pid in ((2.5, 100), (20, 200)))

    [back] = recoveries(found, [killed, idle])

    assert (back.job.id, back.given_back_s, back.started_s) == (ATOMIC, 4.0, 5.5)
