"""The database goes away for a while: everybody waits, nobody ends, nothing is lost."""

import urllib.error
import urllib.request

import pytest
from django.db import connection

from tasks.api import enqueue
from tasks.models import Job
from tasks.states import State
from tests.kit import wait_until
from tests.load import sign_up
from tests.services import HOST, free_port

pytestmark = pytest.mark.rung("postgresql+redis")


def get(url: str) -> tuple[int, str, str]:
    """Return status, Retry-After and text."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, "", answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Retry-After"], error.read().decode()


def test_site_says_503_and_everything_recovers_by_itself(kit, smtp):
    """Web answers with a sentence; relay and worker wait; a job that ends meanwhile is finished afterwards."""
    kit.extra_env |= smtp.env
    port = free_port()
    processes = [kit.start("web", port=port), kit.start("relay"), kit.start("worker")]
    job = enqueue("test.nap", seconds=6)
    wait_until(lambda: Job.objects.filter(id=job.id, state=State.RUNNING).exists(), 20)
    connection.close()

    kit.postgresql.stop()
    refused = sign_up(port, 1)
    page = get(f"http://{HOST}:{port}/signup/some-token/")
    processes[2].wait_for_line("the end of a run waits: the database is away", 30)
    kit.postgresql.start()

    assert refused.status == 503
    assert page[:2] == (503, "10") and "try again in a moment" in page[2]
    wait_until(lambda: Job.objects.filter(id=job.id, state=State.SUCCEEDED, attempts=1).exists(), 30)
    assert sign_up(port, 2).status == 202
    wait_until(lambda: not Job.objects.exclude(state=State.SUCCEEDED).exists(), 30)
    assert len(smtp.mails) == 1
    assert all(process.is_running for process in processes)
