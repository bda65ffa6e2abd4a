"""A claim is carried out and its reply is lost: the job does not stay running where nobody runs it."""

import pytest

from tasks.api import draft, enqueue, enqueue_many
from tasks.models import Job
from tasks.states import State
from tests.kit import test_database_url, wait_until
from tests.lossy_proxy import LossyProxy
from tests.testjobs.models import Effect

pytestmark = pytest.mark.rung("postgresql+redis")


@pytest.fixture
def proxy():
    """Give a way to the database that can lose a reply."""
    made = LossyProxy(test_database_url())
    yield made
    made.close()


def test_job_whose_claim_lost_its_reply_runs_within_5_s(kit, proxy):
    """The same child is alive, so nobody else would miss it before its hard time limit."""
    kit.start("relay")
    kit.start("worker", concurrency=1, env={"DATABASE_URL": proxy.url})
    proxy.lose_reply_to(b"SET state = 'running'")

    job = enqueue("test.echo", value="once")
    assert proxy.lost.wait(10)
    wait_until(lambda: Job.objects.get(id=job.id).state == State.SUCCEEDED, 5)

    done = Job.objects.get(id=job.id)
    assert (done.run, done.attempts, Effect.objects.count()) == (2, 1, 1)


def test_further_job_whose_claim_lost_its_reply_runs_within_5_s(kit, proxy):
    """A message names one job; the child had gone on to another."""
    jobs = enqueue_many(draft("test.echo", value=number) for number in range(5))
    proxy.lose_reply_to(b"WITH level (priority)")

    kit.start("worker", concurrency=1, env={"DATABASE_URL": proxy.url})
    kit.start("relay", env={"JOBS_HIGH_WATER": "1"})
    assert proxy.lost.wait(20)
    wait_until(lambda: Job.objects.filter(state=State.SUCCEEDED).count() == 5, 5)

    assert {job.attempts for job in Job.objects.filter(id__in=[job.id for job in jobs])} == {1}
    assert sorted(Effect.objects.values_list("value", flat=True)) == ["0", "1", "2", "3", "4"]


def test_refusal_of_an_unknown_job_survives_a_lost_reply(kit, proxy):
    """There the worker's main process has claimed it."""
    kit.start("relay")
    old = kit.start("worker", concurrency=1, env={"DATABASE_URL": proxy.url, "TESTJOBS_OLD_CODE": "1"})
    proxy.lose_reply_to(b"SET state = 'running'")

    job = enqueue("test.new")
    assert proxy.lost.wait(10)
    old.wait_for_line("was claimed and not refused", 20)

    assert Job.objects.get(id=job.id).attempts == 0
