"""The further jobs of a message: found near the head of the queue, whatever else waits there."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks.clock import database_now
from tasks.models import Job
from tasks.states import State
from tasks.transitions import PEEK
from tests.rows import consistent, row

pytestmark = pytest.mark.django_db
OWNER = {"worker": "host:1:1", "child_pid": 2}


def claim_next() -> Job | None:
    """Take the next job of the kind test.echo."""
    return Job.objects.claim_next("test.echo", "default", **OWNER)


def backlog(count: int, **fields) -> None:
    """Write waiting jobs of another kind."""
    columns = consistent(State.WAITING, kind="test.noop") | fields
    Job.objects.bulk_create([Job(**columns) for _ in range(count)], batch_size=500)


def explain(sql: str) -> dict:
    """Run a statement and return its plan with the numbers of rows."""
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + sql)
        ((plans,),) = cursor.fetchall()
    return (json.loads(plans) if isinstance(plans, str) else plans)[0]["Plan"]


def rows_read(plan: dict) -> float:
    """Return how many rows the scans of a plan have looked at."""
    own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) if "Scan" in plan["Node Type"] else 0
    return own * plan["Actual Loops"] + sum(map(rows_read, plan.get("Plans", [])))


def test_job_is_found_between_jobs_of_other_kinds():
    """Kinds that alternate in a queue still run many to a message."""
    older = {"run_at": database_now() - timedelta(hours=1)}
    backlog(PEEK - 1, **older)
    mine = row(State.WAITING)

    assert claim_next().id == mine.id


def test_job_behind_many_of_other_kinds_waits_for_its_own_message():
    """It does not overtake them either."""
    backlog(PEEK, run_at=database_now() - timedelta(hours=1))
    row(State.WAITING)

    assert claim_next() is None


def test_most_urgent_due_job_of_the_kind_is_taken_first_then_the_oldest():
    """Delayed ones do not count, however urgent."""
    at = database_now()
    row(State.WAITING, priority=9, run_at=at + timedelta(hours=1))
    late = row(State.WAITING, priority=7, run_at=at - timedelta(minutes=1))
    early = row(State.WAITING, priority=7, run_at=at - timedelta(minutes=2))
    small = row(State.WAITING, priority=0, run_at=at - timedelta(hours=1))

    claimed = [claim_next().id for _ in range(3)]

    assert claimed == [early.id, late.id, small.id]
    assert claim_next() is None


@pytest.mark.django_db(transaction=True)
def test_claimers_of_two_kinds_take_everything_once():
    """They skip what the other one has in hand, and no job is taken twice or left."""
    at = database_now() - timedelta(minutes=1)
    Job.objects.bulk_create(
        [
            Job(**consistent(State.WAITING, kind=kind, run_at=at))
            for _ in range(40)
            for kind in ("test.echo", "test.nap")
        ]
    )

    def claim_all(kind: str) -> list[int]:
        taken = []
        try:
            while Job.objects.filter(state=State.WAITING, kind=kind).exists():
                if job := Job.objects.claim_next(kind, "default", **OWNER):
                    taken.append(job.id)
            return taken
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        taken = [job_id for batch in pool.map(claim_all, ["test.echo", "test.nap"] * 2) for job_id in batch]

    assert len(taken) == len(set(taken)) == 80


@pytest.mark.rung("postgresql+filesystem", "postgresql+redis")
@pytest.mark.parametrize("has_own", [True, False])
@pytest.mark.parametrize("is_later", [True, False])
def test_backlog_is_not_read(has_own, is_later):
    """One statement, and as few rows at thousands of other kinds, or of urgent ones for later, as at a hundred."""
    backlog(5_000, priority=9 if is_later else 5, run_at=database_now() + timedelta(hours=1 if is_later else -2))
    if has_own:
        row(State.WAITING, run_at=database_now() - timedelta(hours=3))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE tasks_job")

    with CaptureQueriesContext(connection) as captured:
        claimed = claim_next()

    (statement,) = captured.captured_queries
    Job.objects.filter(state=State.RUNNING).update(state=State.WAITING)
    assert (claimed is not None) == has_own
    assert rows_read(explain(statement["sql"])) < 3 * PEEK
