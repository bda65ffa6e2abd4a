"""manage.py jobs: what a person or cron types, and what is answered."""

import io

import pytest
from django.core.management import CommandError, call_command

from tasks.models import Job, Pause
from tasks.states import State
from tests.rows import failed, row

pytestmark = pytest.mark.django_db


def jobs(*words: str) -> str:
    """Return what the command prints."""
    output = io.StringIO()
    call_command("jobs", *words, stdout=output)
    return output.getvalue().strip()


def test_enqueue_writes_a_job_with_its_arguments():
    said = jobs("enqueue", "test.echo", '{"value": 7}', "--unique-key=k", "--run-at=2030-01-02T03:04:05+00:00")

    job = Job.objects.get()
    assert said == f"enqueued test.echo as job {job.id}"
    assert (job.arguments, job.unique_key, job.run_at.year) == ({"value": 7}, "k", 2030)


def test_enqueue_of_a_taken_key_names_the_job_that_is_there():
    jobs("enqueue", "test.noop", "--unique-key=k")

    assert jobs("enqueue", "test.noop", "--unique-key=k") == f"there is already test.noop as job {Job.objects.get().id}"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["test.nothing"], "No task is registered as 'test.nothing'"),
        (["test.echo"], "does not take these arguments"),
        (["test.echo", "[1]"], "JSON object"),
        (["test.echo", '{"value": 1, "run_at": 2}'], "JSON object"),
        (["test.echo", "{"], "Not understood"),
        (["test.noop", "--run-at=tomorrow"], "--run-at is 'tomorrow'"),
        (["test.noop", "--run-at=2026-02-30T00:00:00Z"], "Not understood"),
        (["test.noop", "--run-at=2026-12-01T09:00:00"], "no time zone"),
    ],
)
def test_enqueue_says_what_is_wrong_and_writes_nothing(words, says):
    with pytest.raises(CommandError, match=says.replace("[", r"\[")):
        jobs("enqueue", *words)

    assert not Job.objects.exists()


def test_list_shows_the_newest_first_and_can_be_narrowed():
    old, new = row(State.DEAD), row(State.WAITING, kind="test.noop")

    assert [line.split()[0] for line in jobs("list").splitlines()] == [str(new.id), str(old.id)]
    assert jobs("list", "--state=dead").split()[:3] == [str(old.id), "dead", "test.echo"]
    assert jobs("list", "--kind=test.noop", "--queue=default").startswith(str(new.id))


def test_show_tells_what_happened_but_no_arguments():
    job = row(State.DEAD, history=[failed(1)], arguments={"value": "anna"})

    said = jobs("show", str(job.id))

    assert "failed: TimeoutError: timed out" in said
    assert "anna" not in said


def test_show_of_no_job_says_so():
    with pytest.raises(CommandError, match="no job 77"):
        jobs("show", "77")


@pytest.mark.parametrize(
    ("verb", "before", "after", "says"),
    [
        ("retry", State.DEAD, State.WAITING, "1 job will run again."),
        ("discard", State.DEAD, State.DISCARDED, "1 job was discarded."),
        ("cancel", State.WAITING, State.CANCELLED, "1 job was cancelled."),
        ("cancel", State.RUNNING, State.RUNNING, "asked to stop"),
    ],
)
def test_decisions_are_carried_out_and_told(verb, before, after, says):
    job = row(before)

    assert says in jobs(verb, str(job.id))

    job.refresh_from_db()
    assert job.state == after
    assert job.history[-1]["by"] == "the command line"


def test_decision_about_no_job_says_so():
    assert jobs("cancel", "77") == "There is no such job."


def test_pause_and_resume_a_kind():
    assert "kind test.noop is paused since" in jobs("pause", "kind", "test.noop")
    assert Pause.objects.get().by == "the command line"

    assert jobs("resume", "kind", "test.noop") == "kind test.noop goes on."
    assert jobs("resume", "kind", "test.noop") == "kind test.noop was not paused."


def test_pause_of_what_does_not_exist_names_what_does():
    with pytest.raises(CommandError, match=r"no queue 'mial'. Known: default, mail"):
        jobs("pause", "queue", "mial")

    assert not Pause.objects.exists()
