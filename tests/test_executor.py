"""One run of a job: how each ending of a handler is written, and that nobody writes over a newer run."""

from datetime import timedelta

import pytest
from django.db import connection

from tasks import executor, registry
from tasks.api import PermanentError, RetryLater, draft, enqueue, enqueue_many
from tasks.clock import database_now
from tasks.models import Job
from tasks.states import State
from tests.testjobs.models import Effect

pytestmark = pytest.mark.django_db(transaction=True)  # a run ends on a connection that may be renewed


@pytest.fixture
def kind(monkeypatch):
    """Register kinds for one test: kind(handler, **options) returns the name."""
    made = dict(registry._kinds)
    monkeypatch.setattr(registry, "_kinds", made)

    def register(handler, name="here.kind", **options) -> str:
        made[name] = registry.Kind(name=name, handler=handler, **options)
        return name

    return register


def run(job: Job) -> Job:
    """Hand the job over as relay and broker do, execute it, and return the row."""
    Job.objects.filter(id=job.id).update(state=State.RELAYED, relayed_at=database_now())
    executor.execute(job.kind, job.id, job.run + 1)
    return Job.objects.get(id=job.id)


def raising(error: BaseException):
    """Return a handler that raises."""

    def handler():
        raise error

    return handler


def test_handler_gets_the_arguments_and_the_job_succeeds():
    """The plain case."""
    job = run(enqueue("test.echo", value="x"))

    assert Effect.objects.get().value == "x"
    assert (job.state, job.run, job.attempts, job.history) == (State.SUCCEEDED, 1, 1, [])
    assert job.enqueued_at <= job.started_at <= job.finished_at


def test_duplicate_message_does_nothing():
    """A message sent twice finds the row taken."""
    job = run(enqueue("test.echo", value="x"))

    executor.execute(job.kind, job.id, 1)
    executor.execute(job.kind, job.id, 2)

    assert Effect.objects.count() == 1


@pytest.mark.parametrize("state", [State.WAITING, State.CANCELLED, State.DEAD])
def test_message_of_a_job_that_is_not_relayed_does_nothing(state):
    """Cancelled meanwhile, put back meanwhile: the row decides."""
    job = enqueue("test.echo", value="x")
    finished_at = None if state == State.WAITING else database_now()
    Job.objects.filter(id=job.id).update(state=state, finished_at=finished_at)

    executor.execute(job.kind, job.id, 1)

    assert not Effect.objects.exists()


def test_temporary_error_waits_longer_each_time_and_dies_in_the_end(kind):
    """Exponential backoff, at most max_attempts, every error kept."""
    job = enqueue(kind(raising(ConnectionError("no route")), backoff_base_s=10, max_attempts=3))
    waits = []

    for _ in range(3):
        job = run(job)
        waits.append((job.run_at - job.started_at).total_seconds())

    assert (job.state, job.attempts, job.run) == (State.DEAD, 3, 3)
    assert 7.4 <= waits[0] <= 12.6 and 29 <= waits[1] <= 51
    assert [entry["error"] for entry in job.history] == ["ConnectionError: no route"] * 3
    assert [entry["attempt"] for entry in job.history] == [1, 2, 3]
    assert "raise error" in job.history[0]["traceback"]


@pytest.mark.parametrize("error", [PermanentError("bad"), Effect.DoesNotExist("gone"), KeyError("declared")])
def test_permanent_error_is_buried_at_once(kind, error):
    """Trying again cannot help."""
    job = run(enqueue(kind(raising(error), permanent=(KeyError,))))

    assert (job.state, job.attempts) == (State.DEAD, 1)


@pytest.mark.parametrize("error", [MemoryError(), SystemExit(3), RecursionError()])
def test_what_would_end_the_worker_is_a_failure_of_the_job(kind, error):
    """Celery would stop its main process on MemoryError; the executor does not let it through."""
    job = run(enqueue(kind(raising(error))))

    assert (job.state, job.attempts) == (State.WAITING, 1)
    assert job.history[0]["error"].startswith(type(error).__name__)


def test_snooze_costs_no_attempt(kind):
    """A provider's Retry-After is not the job's fault."""
    job = run(enqueue(kind(raising(RetryLater(90)))))

    assert (job.state, job.attempts, job.run) == (State.WAITING, 0, 1)
    assert 89 < (job.run_at - job.started_at).total_seconds() < 92


def test_snoozing_for_ever_ends_dead(kind):
    """Bounded by age, and the dead letter says so."""
    job = run(enqueue(kind(raising(RetryLater(1)), max_age_s=3600)))
    Job.objects.filter(id=job.id).update(snoozed_since_at=database_now() - timedelta(seconds=3601))

    job = run(job)

    assert job.state == State.DEAD
    assert "3600 s is the limit" in job.history[-1]["error"]


@pytest.mark.parametrize(("asked_s", "waits_s"), [(0, 1), (90, 90), (10**6, 3600)])
def test_snooze_neither_spins_nor_outlives_its_bound(kind, asked_s, waits_s):
    """At least a second, at most what is left of max_age_s."""
    job = run(enqueue(kind(raising(RetryLater(asked_s)), max_age_s=3600)))

    assert waits_s - 1 < (job.run_at - job.started_at).total_seconds() < waits_s + 1


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -1, 1.7e12])
def test_nonsense_snooze_is_a_failure_in_words(kind, seconds):
    """A Retry-After that was taken for seconds must not leave the row running."""

    def handler():
        raise RetryLater(seconds)

    job = run(enqueue(kind(handler)))

    assert job.state == State.WAITING
    assert "RetryLater takes 0 to" in job.history[0]["error"]


class Unspeakable(Exception):
    """An error that cannot tell its text."""

    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("a\0b"), "ValueError: a?b"),
        (ValueError("\ud800"), "ValueError: ?"),
        (ValueError("x" * 100_000), "ValueError: xxx"),
        (Unspeakable(), "Unspeakable: its text could not be read"),
    ],
)
def test_error_that_no_database_stores_is_still_written(kind, error, says):
    """Whatever a handler raises, its row does not stay running."""
    job = run(enqueue(kind(raising(error))))

    assert (job.state, job.attempts) == (State.WAITING, 1)
    assert job.history[0]["error"].startswith(says)


def test_cancelled_while_it_ran_ends_as_cancelled_when_it_fails(kind):
    """The person was told that it is not tried again."""

    def handler():
        Job.objects.cancel(Job.objects.get(kind="here.kind").id, "user 1", database_now())
        raise ConnectionError

    job = run(enqueue(kind(handler)))

    assert (job.state, job.finished_at is None) == (State.CANCELLED, False)
    assert [entry["what"] for entry in job.history] == ["cancel requested", "failed"]


def test_progress_of_an_atomic_job_is_refused(kind):
    """Inside the transaction nobody would see it, and a person who cancels would wait for its end."""
    job = run(enqueue(kind(lambda running: running.report_progress(1), bind=True, atomic=True)))

    assert "progress cannot be written inside a transaction" in job.history[0]["error"]


def test_failed_atomic_job_leaves_no_effect():
    """Handler and finish are one transaction; the error is written outside it."""
    job = run(enqueue("test.atomic_fail", value="x"))

    assert not Effect.objects.exists()
    assert (job.state, len(job.history)) == (State.WAITING, 1)


def test_taken_over_atomic_job_rolls_everything_back(kind):
    """Zero rows at the finish: the effects must not stay."""

    def handler():
        Effect.objects.create(note="late")
        Job.objects.filter(kind="here.kind").update(run=7)

    job = run(enqueue(kind(handler, atomic=True)))

    assert not Effect.objects.exists()
    assert (job.state, job.run) == (State.RUNNING, 1)


def test_late_run_cannot_finish_a_newer_one(kind):
    """The run number is the fence."""

    def handler():
        Job.objects.filter(kind="here.kind").update(run=2, worker="another")

    job = run(enqueue(kind(handler)))

    assert (job.state, job.run, job.worker) == (State.RUNNING, 2, "another")


def test_errors_are_stored_without_addresses_and_secrets(kind):
    """Tracebacks carry personal data."""
    error = ConnectionError("450 <ann@example.com> try later; password=hunter2")

    entry = run(enqueue(kind(raising(error)))).history[0]

    assert "ann@" not in str(entry) and "hunter2" not in str(entry)
    assert entry["error"] == "ConnectionError: 450 <[address]> try later; password=[secret]"


def unknown_kind() -> Job:
    """Return a job whose kind the code has lost."""
    job = enqueue("test.echo", value=1)
    Job.objects.filter(id=job.id).update(kind="test.gone")
    return job


def newer_version() -> Job:
    """Return a job that newer code has enqueued."""
    job = enqueue("test.echo", value=1)
    Job.objects.filter(id=job.id).update(version=2)
    return job


def other_signature() -> Job:
    """Return a job with arguments that this code's handler does not take."""
    job = enqueue("test.echo", value=1)
    Job.objects.filter(id=job.id).update(arguments={"value": 1, "locale": "ru"})
    return job


UNFIT = [
    (unknown_kind, "No task is registered as 'test.gone'"),
    (newer_version, "payload version 2; this code knows version 1"),
    (other_signature, "unexpected keyword argument 'locale'"),
]


@pytest.mark.parametrize(("make", "says"), UNFIT)
def test_job_that_this_code_cannot_run_is_left_to_others_without_charge(make, says, caplog):
    """Old and new code share the queue during a deploy."""
    job = run(make())

    assert (job.state, job.attempts, job.run) == (State.WAITING, 0, 1)
    assert timedelta(seconds=4) < job.run_at - job.started_at < timedelta(seconds=6)
    assert says in caplog.text


@pytest.mark.parametrize(("make", "says"), UNFIT)
def test_job_that_nobody_knows_for_long_is_dead_and_says_why(make, says):
    """A person decides what becomes of it."""
    job = run(make())
    Job.objects.filter(id=job.id).update(unknown_since_at=database_now() - timedelta(seconds=901))

    job = run(job)

    assert job.state == State.DEAD
    assert says in job.history[-1]["error"]


def test_older_payload_is_upgraded(kind):
    """A changed signature brings its own translation."""
    seen = []
    old = enqueue(kind(lambda user: seen.append(user), version=1), user=7)
    kind(lambda user_id: seen.append(user_id), version=2, upgrade=lambda arguments, _: {"user_id": arguments["user"]})

    job = run(old)

    assert (seen, job.state) == ([7], State.SUCCEEDED)


def test_one_message_runs_many_small_jobs_of_its_kind():
    """A message is a wake-up; Celery's cost is paid once for up to twenty."""
    jobs = enqueue_many(draft("test.echo", value=number) for number in range(30))

    run(jobs[0])

    assert Effect.objects.count() == executor.JOBS_PER_MESSAGE == 20
    assert list(Effect.objects.order_by("id").values_list("value", flat=True)) == [str(n) for n in range(20)]
    assert not Job.objects.filter(state=State.RUNNING).exists()


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "test.echo_default"},  # another kind has its own message
        {"run_at": "later"},
        {"queue": "mail"},
    ],
)
def test_message_takes_no_job_that_is_not_its_own_business(other):
    """Only due jobs of the same kind and queue."""
    first, second = enqueue_many([draft("test.echo", value=1), draft("test.echo", value=2)])
    if "run_at" in other:
        other = {"run_at": database_now() + timedelta(hours=1)}
    Job.objects.filter(id=second.id).update(**other)

    run(first)

    assert Job.objects.get(id=second.id).state == State.WAITING


def test_urgent_job_of_another_kind_goes_before_further_small_ones():
    """None is taken while a job of higher priority is due in the queue."""
    small = enqueue_many(draft("test.echo", value=n) for n in range(3))
    enqueue("test.echo_default", priority=9)

    run(small[0])

    assert Effect.objects.count() == 1


def test_bound_handler_reports_its_progress(kind):
    """What the page shows comes from the handler."""
    seen = []

    def handler(running, value):
        running.report_progress(40)
        seen.append((running.attempt, value, Job.objects.get(id=running.id).progress))

    run(enqueue(kind(handler, bind=True), value="x"))

    assert seen == [(1, "x", 40)]


@pytest.mark.rung("postgresql+filesystem", "postgresql+redis")
def test_connection_lost_inside_a_handler_costs_only_its_attempt(kind):
    """The row is finished on a fresh connection."""

    def handler():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    job = run(enqueue(kind(handler)))

    assert (job.state, job.attempts) == (State.WAITING, 1)
    assert job.history[0]["error"].startswith("OperationalError")
