"""What a deploy asks of the site: health, and a job through the whole chain."""

import json
from io import StringIO

import pytest
from django.core.management import call_command

from project.ops import smoke
from project.ops import tasks as ops_tasks
from project.ops.tasks import SMOKE
from tasks.api import RetryLater, enqueue
from tasks.clock import database_now
from tasks.models import Job
from tasks.pauses import claimable, pause
from tasks.states import State


def test_healthz_answers_without_the_database_and_names_the_release(client, settings):
    """No database fixture here: a query would fail the test."""
    settings.RELEASE = "0123456789ab"

    answer = client.get("/healthz")

    assert (answer.status_code, answer.headers["X-Release"]) == (200, "0123456789ab")
    assert "no-store" in answer.headers["Cache-Control"]


def test_healthz_is_not_sent_elsewhere_for_speaking_http(client, settings):
    settings.SECURE_SSL_REDIRECT, settings.SECURE_REDIRECT_EXEMPT = True, [r"^healthz$"]

    assert client.get("/healthz").status_code == 200


def test_healthz_takes_no_other_verb(client):
    assert client.post("/healthz").status_code == 405


def test_smoke_job_does_nothing_in_its_own_release(settings):
    settings.RELEASE = "new"

    assert ops_tasks.smoke(release="new") is None


def test_smoke_job_leaves_a_worker_of_another_release(settings):
    settings.RELEASE = "old"

    with pytest.raises(RetryLater, match="this worker runs release old"):
        ops_tasks.smoke(release="new")


@pytest.mark.django_db(transaction=True)
def test_smoke_test_without_a_worker_says_what_is_wrong_and_leaves_no_job(settings):
    found = smoke.smoke(0.5)

    job = Job.objects.get(kind="ops.smoke")
    assert found == {"fault": f"job {job.id} of kind ops.smoke is waiting after 0.5 s", "busy": []}
    assert job.state == State.CANCELLED


@pytest.mark.django_db(transaction=True)
def test_smoke_test_that_waits_tells_which_workers_are_busy(settings):
    now = database_now()
    busy = {"state": State.RUNNING, "started_at": now, "child_pid": 8, "run": 1, "worker": "kit:7:abc"}
    Job.objects.create(kind="test.long", queue="default", enqueued_at=now, run_at=now, **busy)

    assert smoke.smoke(0.5)["busy"] == ["kit:7:abc"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("what", [("queue", "ops"), ("kind", "ops.smoke")])
def test_smoke_test_that_a_person_has_paused_is_left_out(what):
    pause(*what, by="user 1")

    assert smoke.smoke(0.5) == {"fault": "", "is_paused": True}
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_pause_and_backlog_of_other_queues_hold_up_no_smoke_test():
    pause("queue", "default", by="user 1")
    job = enqueue(SMOKE, release="new")

    assert claimable(database_now()).filter(id=job.id, queue="ops").exists()


@pytest.mark.django_db
def test_status_is_one_line_of_json():
    out = StringIO()

    call_command("deploy", "status", stdout=out)

    told = json.loads(out.getvalue())
    assert [queue["queue"] for queue in told["queues"]] == ["default", "mail", "ops", "pdf", "webhook"]
