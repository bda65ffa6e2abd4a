"""enqueue: what is written in the caller's transaction, what is refused, and what a unique key does."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from django.db import connection, transaction

from tasks.api import EnqueueError, InvalidArguments, UnknownKind, draft, enqueue, enqueue_many
from tasks.models import Job
from tasks.states import State
from tests.kit import wait_until
from tests.testjobs.tasks import echo, sleep

pytestmark = pytest.mark.django_db

WEST = timezone(-timedelta(hours=5))
DEEP = json.loads("[" * 900 + r'"\u0000"' + "]" * 900)


def test_job_is_written_as_asked():
    """Each option ends in its column."""
    run_at = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)

    job = enqueue("test.echo", value="x", run_at=run_at, priority=9, unique_key="k")

    stored = Job.objects.get(id=job.id)
    assert (stored.kind, stored.queue, stored.state) == ("test.echo", "default", State.WAITING)
    assert (stored.arguments, stored.run_at, stored.priority, stored.unique_key) == ({"value": "x"}, run_at, 9, "k")
    assert (stored.run, stored.attempts, stored.max_attempts, stored.history) == (0, 0, 5, [])


@pytest.mark.django_db(transaction=True)
def test_rolled_back_transaction_leaves_no_job():
    """The row lives and dies with the business data."""
    with pytest.raises(RuntimeError), transaction.atomic():
        enqueue("test.echo", value="x")
        raise RuntimeError

    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("kind", "arguments", "error", "says"),
    [
        ("test.nobody", {}, UnknownKind, "test.echo"),
        ("test.echo", {}, InvalidArguments, "missing a required argument: 'value'"),
        ("test.echo", {"value": 1, "more": 2}, InvalidArguments, "unexpected keyword argument 'more'"),
        ("test.echo", {"value": object()}, InvalidArguments, "not JSON"),
        ("test.echo", {"value": float("nan")}, InvalidArguments, "not JSON"),
        ("test.echo", {"value": "\ud800"}, InvalidArguments, "not JSON"),
        ("test.echo", {"value": "a\0b"}, InvalidArguments, "NUL"),
        ("test.echo", {"value": [{"a\0b": 1}]}, InvalidArguments, "NUL"),
        ("test.echo", {"value": [[{"a": ["\0"]}]]}, InvalidArguments, "NUL"),
        ("test.echo", {"value": DEEP}, InvalidArguments, "NUL"),
        ("test.echo", {"value": "x" * 65_536}, InvalidArguments, "65536 is the limit"),
        ("test.echo", {"value": 1, "run_at": datetime(2030, 1, 1)}, EnqueueError, "no time zone"),
        ("test.echo", {"value": 1, "keep_until": datetime(2030, 1, 1)}, EnqueueError, "no time zone"),
        ("test.echo", {"value": 1, "run_at": "tomorrow"}, EnqueueError, "run_at must be an aware datetime, not str"),
        ("test.echo", {"value": 1, "run_at": date(2030, 1, 1)}, EnqueueError, "an aware datetime, not date"),
        ("test.echo", {"value": 1, "keep_until": 7}, EnqueueError, "keep_until must be an aware datetime, not int"),
        ("test.echo", {"value": 1, "run_at": datetime.max.replace(tzinfo=WEST)}, EnqueueError, "outside the years"),
        ("test.echo", {"value": 1, "priority": 10}, EnqueueError, "0 to 9"),
        ("test.echo", {"value": 1, "priority": "5"}, EnqueueError, "0 to 9 .*, not '5'"),
        ("test.echo", {"value": 1, "priority": True}, EnqueueError, "0 to 9 .*, not True"),
        ("test.echo", {"value": 1, "priority": 5.0}, EnqueueError, "0 to 9 .*, not 5.0"),
        ("test.echo", {"value": 1, "unique_key": 42}, EnqueueError, "unique_key must be a string, not int"),
        ("test.echo", {"value": 1, "unique_key": "a\0b"}, EnqueueError, "unique_key holds a NUL"),
        ("test.echo", {"value": 1, "unique_key": "a\ud800"}, EnqueueError, "unique_key holds a NUL"),
        ("test.echo", {"value": 1, "unique_key": ""}, EnqueueError, "1 to 200"),
        ("test.echo", {"value": 1, "unique_key": "k" * 201}, EnqueueError, "1 to 200"),
        ("test.echo", {"value": 1, "unique_scope": "month"}, EnqueueError, "row, live"),
    ],
)
def test_nonsense_is_refused_in_words_and_nothing_written(kind, arguments, error, says):
    """A bad call fails where it is made, not at night in a worker."""
    with pytest.raises(error, match=says):
        enqueue(kind, **arguments)

    assert not Job.objects.exists()


def test_text_that_only_looks_like_a_nul_is_stored():
    """A backslash and some letters are a text like any other."""
    job = enqueue("test.echo", value="\\u0000")

    assert Job.objects.get(id=job.id).arguments == {"value": "\\u0000"}


def test_one_bad_job_of_many_writes_none():
    """All are checked before the first is written."""
    with pytest.raises(InvalidArguments):
        enqueue_many(draft("test.echo", **arguments) for arguments in ({"value": 1}, {}))

    assert not Job.objects.exists()


def test_many_jobs_are_one_insert(django_assert_num_queries):
    """A thousand rows cost as many statements as one: the time, the insert and the wake-up."""
    drafts = [draft("test.echo", value=number) for number in range(1000)]
    statements = 5 if connection.vendor == "postgresql" else 3  # savepoint included

    with django_assert_num_queries(statements):
        jobs = enqueue_many(drafts)

    stored = dict(Job.objects.values_list("id", "arguments"))
    assert [stored[job.id] for job in jobs] == [{"value": number} for number in range(1000)]


def test_same_key_is_one_job():
    """The second caller is told of the job that is there."""
    first = enqueue("test.echo", value=1, unique_key="k")

    second = enqueue("test.echo", value=2, unique_key="k")

    assert (second.id, second.arguments) == (first.id, {"value": 1})
    assert (first.is_new, second.is_new) == (True, False)


def test_taken_key_among_many_is_told_apart():
    """A batch returns the jobs in the given order, new ones and one that was there."""
    taken = enqueue("test.echo", value="old", unique_key="taken")

    jobs = enqueue_many(
        [
            draft("test.echo", value=1),
            draft("test.echo", value=2, unique_key="taken"),
            draft("test.echo", value=3, unique_key="free"),
            draft("test.echo", value=4, unique_key="free"),
            draft("test.sleep", seconds=0),
        ]
    )

    assert [job.is_new for job in jobs] == [True, False, True, False, True]
    assert (jobs[1].id, jobs[3].id) == (taken.id, jobs[2].id)
    assert Job.objects.count() == 4


def test_key_belongs_to_its_kind():
    """Two kinds may use the same key."""
    first = enqueue("test.echo", value=1, unique_key="k")

    second = enqueue("test.sleep", seconds=0, unique_key="k")

    assert first.id != second.id


@pytest.mark.parametrize(("scope", "is_new"), [("row", False), ("live", True)])
def test_finished_job_frees_only_a_live_key(scope, is_new):
    """Scope row holds as long as the row; scope live only until the job has finished."""
    first = enqueue("test.echo", value=1, unique_key="k", unique_scope=scope)
    Job.objects.filter(id=first.id).update(state=State.SUCCEEDED, finished_at=first.enqueued_at)

    second = enqueue("test.echo", value=2, unique_key="k", unique_scope=scope)

    assert second.is_new is is_new


@pytest.mark.django_db(transaction=True)
def test_twenty_at_once_with_one_key_make_one_job():
    """The race is decided by the index, and nobody gets an error."""

    def enqueue_once(number: int) -> tuple[int, bool]:
        try:
            with transaction.atomic():
                job = enqueue("test.echo", value=number, unique_key="k")
            return job.id, job.is_new
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        told = list(pool.map(enqueue_once, range(20)))

    assert Job.objects.count() == 1
    assert len({job_id for job_id, _ in told}) == 1
    assert sum(is_new for _, is_new in told) == 1


def test_keys_in_any_order_come_back_in_the_given_order():
    """Whatever order they are written in."""
    keys = ["c", None, "a", "taken", None, "b", "a"]
    taken = enqueue("test.echo", value="old", unique_key="taken")

    jobs = enqueue_many(draft("test.echo", value=n, unique_key=key) for n, key in enumerate(keys))

    assert [job.unique_key for job in jobs] == keys
    assert [job.is_new for job in jobs] == [True, True, True, False, True, True, False]
    assert (jobs[3].id, jobs[6].id) == (taken.id, jobs[2].id)
    assert [Job.objects.get(id=job.id).arguments["value"] for job in jobs] == [0, 1, 2, "old", 4, 5, 2]


@pytest.mark.rung("postgresql+filesystem", "postgresql+redis")
@pytest.mark.django_db(transaction=True)
def test_two_callers_with_keys_in_different_order_do_not_deadlock():
    """A third one holds a key in the middle, so that both are caught half way."""

    def write(keys: str) -> int:
        try:
            return sum(job.is_new for job in enqueue_many(draft("test.echo", value=1, unique_key=key) for key in keys))
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        with transaction.atomic():
            enqueue("test.echo", value=1, unique_key="m")
            callers = [pool.submit(write, keys) for keys in ("amz", "zma")]
            wait_until(lambda: sessions_that_wait() == 2)
        written = [caller.result(timeout=30) for caller in callers]

    assert sum(written) == 2
    assert Job.objects.count() == 3


def sessions_that_wait() -> int:
    """Return how many sessions of this database wait for another one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # a transaction would see the first answer again and again
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0]


@pytest.mark.parametrize(
    "call", [lambda: echo.delay("x"), lambda: echo.apply_async(["x"]), lambda: echo.s("x").delay()]
)
def test_old_habits_write_a_row(call):
    """`.delay()`, `.apply_async()` and signatures never go to the broker by themselves."""
    job = call()

    assert Job.objects.get(id=job.id).arguments == {"value": "x"}


def test_countdown_and_eta_wait_in_the_table():
    """A delay is the row's run_at, never a message in a worker's memory."""
    eta = datetime(2030, 1, 1, tzinfo=UTC)

    by_eta = echo.apply_async(["x"], eta=eta)
    by_countdown = echo.apply_async(["x"], countdown=60)

    assert by_eta.run_at == eta
    assert by_countdown.run_at - by_countdown.enqueued_at <= timedelta(seconds=60)
    assert by_countdown.run_at > by_countdown.enqueued_at + timedelta(seconds=59)


@pytest.mark.parametrize("option", ["link", "link_error", "chain", "chord", "group_id", "expires", "task_id", "retry"])
def test_what_a_row_cannot_honour_is_refused_in_words(option):
    """The sentence names the option and says what to do instead."""
    with pytest.raises(TypeError, match=f"cannot honour {option}"):
        echo.apply_async(["x"], **{option: "something"})

    assert not Job.objects.exists()


def test_chain_of_jobs_is_refused():
    """Only the first link would become a row; the rest would be lost."""
    with pytest.raises(TypeError, match="cannot honour chain"):
        (echo.si("x") | sleep.si(0)).apply_async()

    assert not Job.objects.exists()


def test_call_of_the_task_calls_the_handler():
    """A handler stays an ordinary function for tests and shells."""
    echo("direct")

    assert echo.handler.__name__ == "echo"
    assert not Job.objects.exists()
