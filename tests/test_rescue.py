"""rescue: whose jobs come back, when, and at what price; no clock that is set anew ends a job that runs."""

from datetime import timedelta

import pytest

from tasks import endings, locks
from tasks.clock import database_now
from tasks.models import Job
from tasks.rescue import LOOKS_APART_S, MARGIN_S, OVERDUE, WORKER_GONE, Rescue
from tasks.states import State
from tests.rows import row

pytestmark = pytest.mark.django_db

WORKER = "host:1:abc"
HOURS = [timedelta(hours=hours) for hours in (2, -2)]


def running(**fields) -> Job:
    """Return a job that runs in the worker."""
    return row(State.RUNNING, worker=WORKER, **fields)


@pytest.fixture
def lock():
    """Hold the worker's lock, as its main process does."""
    held = locks.try_hold(locks.of_worker(WORKER))
    yield held
    held.release()


def test_worker_whose_lock_is_free_at_two_looks_apart_is_gone():
    """Its job waits for its next attempt, and says why."""
    job, rescue, now = running(), Rescue(), database_now()

    early = [rescue.step(now, ticks_s) for ticks_s in (100, 100 + LOOKS_APART_S - 0.1)]
    late = rescue.step(now, 100 + LOOKS_APART_S)

    job.refresh_from_db()
    assert (early, late) == ([0, 0], 1)
    assert (job.state, job.attempts, job.history[-1]["error"]) == (State.WAITING, 1, WORKER_GONE)


def gone(**fields) -> Job:
    """Return a job whose worker was found gone."""
    job, rescue, now = running(**fields), Rescue(), database_now()
    for ticks_s in (100, 105):
        rescue.step(now, ticks_s)
    job.refresh_from_db()
    return job


def test_job_of_a_gone_worker_keeps_its_place_before_a_backlog():
    """At the end of a long queue it would not run again for minutes."""
    waited_since = database_now() - timedelta(minutes=5)

    job = gone(run_at=waited_since)

    assert (job.state, job.run_at) == (State.WAITING, waited_since)


def test_job_that_loses_its_worker_again_waits_longer():
    """What kills one process after another must not go first each time."""
    job = gone(run=2, attempts=2)

    assert job.run_at > database_now()


def test_job_that_a_shutdown_cut_off_keeps_its_place():
    """A deploy during a backlog does not send it to the end."""
    waited_since = database_now() - timedelta(minutes=5)
    job = running(run_at=waited_since)

    endings.interrupted(job, database_now()).update()

    job.refresh_from_db()
    assert (job.state, job.run_at, job.attempts, job.interruptions) == (State.WAITING, waited_since, 0, 1)


def test_worker_that_holds_its_lock_again_in_between_is_not_gone():
    """Its database was restarted; the next absence is counted anew."""
    running()
    rescue, now = Rescue(), database_now()
    rescue.step(now, 100)
    again = locks.try_hold(locks.of_worker(WORKER))
    rescue.step(now, 101)
    again.release()

    rescued = [rescue.step(now, ticks_s) for ticks_s in (102, 102 + LOOKS_APART_S - 0.1)]

    assert rescued == [0, 0]


def test_looks_on_both_sides_of_an_outage_do_not_count_together():
    """A database that goes away twice takes every lock twice, and a worker needs a moment to take its lock again."""
    running()
    rescue, now = Rescue(), database_now()
    rescue.step(now, 100)

    rescue.forget()

    assert rescue.step(now, 100 + LOOKS_APART_S) == 0


def test_job_past_its_hard_limit_goes_back_though_its_worker_holds_the_lock(lock):
    """A frozen process, a wedged main process."""
    job, rescue, now = running(kind="test.hog"), Rescue(), database_now()
    bound_s = endings.hard_limit_s("test.hog") + MARGIN_S

    rescued = [rescue.step(now, ticks_s) for ticks_s in (100, 100 + bound_s - 0.1, 100 + bound_s + 0.1)]

    job.refresh_from_db()
    assert rescued == [0, 0, 1]
    assert (job.state, job.history[-1]["error"]) == (State.WAITING, OVERDUE.format(2))
    assert job.run_at > now  # it held its place for long enough


@pytest.mark.parametrize("jump", HOURS)
def test_clock_that_is_set_anew_ends_no_running_job(lock, jump):
    """The time that a job runs is counted by a clock that nobody sets."""
    job, rescue, now = running(), Rescue(), database_now()
    rescue.step(now, 100)

    rescued = [rescue.step(now + jump, 101), Rescue().step(now + jump, 102)]

    job.refresh_from_db()
    assert (rescued, job.state) == ([0, 0], State.RUNNING)


def test_second_run_of_a_job_has_its_time_limit_to_itself(lock):
    """What an earlier run took does not count."""
    job, rescue, now = running(kind="test.hog"), Rescue(), database_now()
    rescue.step(now, 100)
    Job.objects.filter(id=job.id).update(run=2)

    rescued = [rescue.step(now, ticks_s) for ticks_s in (110, 100 + 2 + MARGIN_S + 1)]

    assert rescued == [0, 0]


def test_two_relays_charge_the_death_of_a_worker_once():
    """Both see it; the second changes nothing."""
    job, now = running(), database_now()
    relays = [Rescue(), Rescue()]
    for rescue in relays:
        rescue.step(now, 100)
    running_before = list(Job.objects.all())

    rescued = [relays[0].step(now, 105), sum(endings.crashed(seen, "again", now).update() for seen in running_before)]

    job.refresh_from_db()
    assert rescued == [1, 0]
    assert (job.attempts, len(job.history)) == (1, 1)


def test_job_that_loses_its_last_worker_is_dead():
    """A crash is an attempt, so what kills every worker comes to an end."""
    job, rescue, now = running(max_attempts=1), Rescue(), database_now()

    for ticks_s in (100, 105):
        rescue.step(now, ticks_s)

    job.refresh_from_db()
    assert (job.state, job.history[-1]["error"]) == (State.DEAD, WORKER_GONE)
