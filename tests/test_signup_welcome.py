"""The welcome: one page and one mail for each confirmed person, whatever is cut short or repeated."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.exceptions import ObjectDoesNotExist
from django.utils import timezone

from project.accounts.models import User
from project.signup import welcome_files
from project.signup.models import Signup
from project.signup.services import confirm, sign_up
from project.signup.tasks import page_of, publish, welcome_email, welcome_pdf
from tasks.api import PermanentError, RetryLater
from tasks.models import Job
from tasks.registry import get
from tasks.states import State
from tests.rows import stored
from tests.welcome import files, running, text_of

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}
AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


@pytest.fixture(autouse=True)
def media(settings, tmp_path) -> Path:
    """Keep the files of a test to itself."""
    settings.MEDIA_ROOT = tmp_path / "media"
    return settings.MEDIA_ROOT


@pytest.fixture
def signup(transactional_db) -> Signup:
    """Return Ann's confirmed signup."""
    confirm(sign_up(**ANN).signed_link(), AT)
    return Signup.objects.select_related("user").get()


@pytest.mark.django_db
def test_confirming_twice_enqueues_one_page_by_id(client):
    link = f"/confirm/{sign_up(**ANN).signed_link()}/"

    client.get(link), client.get(link)

    job, user = Job.objects.get(kind="signup.welcome_pdf"), User.objects.get()
    assert (job.queue, job.arguments, job.unique_key) == ("pdf", {"user_id": user.id}, f"welcome:{user.id}")


def test_page_is_made_and_its_mail_enqueued(signup, media):
    run = running()

    welcome_pdf(run, user_id=signup.user_id)

    assert files(media) == [f"{signup.user_id}.pdf"]
    assert "Welcome, Ann" in text_of(welcome_files.read(signup.user_id))
    assert welcome_files.finished(signup.user_id).stat().st_mode & 0o777 == 0o600
    job = Job.objects.get(kind="signup.welcome_email")
    assert (job.arguments, job.unique_key) == ({"user_id": signup.user_id}, f"welcome:{signup.user_id}")
    assert (stored(run.id)["progress"], stored(run.id)["checkpoint"]["step"]) == (66, 2)


def test_two_runs_leave_one_right_file_and_one_mail_job(signup, media):
    welcome_pdf(running(), user_id=signup.user_id)
    first = welcome_files.read(signup.user_id)

    welcome_pdf(running(), user_id=signup.user_id)

    assert (files(media), welcome_files.read(signup.user_id)) == ([f"{signup.user_id}.pdf"], first)
    assert Job.objects.filter(kind="signup.welcome_email").count() == 1


def test_run_with_a_checkpoint_goes_on_with_the_work_that_is_kept(signup):
    made, kept = page_of(signup), welcome_files.part(signup.user_id, 2)
    welcome_files.keep(kept, b"the page that an earlier run has drawn")

    welcome_pdf(running({"page": made.mark, "step": 2}), user_id=signup.user_id)

    assert welcome_files.read(signup.user_id) == b"the page that an earlier run has drawn"


@pytest.mark.parametrize("checkpoint", [{"page": "of another name", "step": 2}, {"page": None, "step": 1}])
def test_work_for_another_name_is_not_used(signup, checkpoint):
    for step in (1, 2):
        welcome_files.keep(welcome_files.part(signup.user_id, step), b"old")

    welcome_pdf(running(checkpoint), user_id=signup.user_id)

    assert "Welcome, Ann" in text_of(welcome_files.read(signup.user_id))


@pytest.mark.parametrize("step", [1, 2])
def test_work_that_is_gone_is_done_again(signup, step):
    welcome_pdf(running({"page": page_of(signup).mark, "step": step}), user_id=signup.user_id)

    assert "Welcome, Ann" in text_of(welcome_files.read(signup.user_id))


def test_reader_sees_the_old_file_or_the_new_one_whole(media):
    path, versions, seen = welcome_files.finished(7), [bytes([n]) * 300_000 for n in range(2)], set()
    welcome_files.keep(path, versions[0])
    is_over = threading.Event()

    def read():
        while not is_over.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(60):
        welcome_files.keep(path, versions[number % 2])
    is_over.set()
    reader.join()

    assert seen <= set(versions)
    assert files(media) == ["7.pdf"]


def test_leftovers_of_a_killed_run_are_removed_and_nobody_elses(signup, media):
    user_id = signup.user_id
    for name in (f".{user_id}.page.pdf.x1y2", f".{user_id}1.page.pdf", f"{user_id}1.pdf"):
        welcome_files.keep(media / "welcome" / name, b"half")

    welcome_pdf(running(), user_id=user_id)

    assert files(media) == sorted([f".{user_id}1.page.pdf", f"{user_id}1.pdf", f"{user_id}.pdf"])


def test_name_that_could_become_a_link_is_not_on_the_page(signup):
    User.objects.update(name="Win at evil.example")

    welcome_pdf(running(), user_id=signup.user_id)

    assert "evil" not in text_of(welcome_files.read(signup.user_id))


def test_address_that_is_not_confirmed_gets_no_page(transactional_db, media):
    signup = sign_up(**ANN).signup

    with pytest.raises(PermanentError):
        welcome_pdf(running(), user_id=signup.user_id)

    assert files(media) == []


def test_mail_brings_the_page_and_says_why_it_came(signup, mailoutbox):
    welcome_pdf(running(), user_id=signup.user_id)

    welcome_email(running(), user_id=signup.user_id)

    (mail,) = mailoutbox
    assert mail.to == ["ann@example.com"]
    assert mail.message()["Message-ID"] == f"<welcome-{signup.user_id}@127.0.0.1>"
    assert "Hello Ann," in mail.body and "http://127.0.0.1:8000" in mail.body
    assert "because this address was confirmed" in mail.body and "2 January 2026, 03:04 UTC" in mail.body
    assert mail.attachments[0] == ("welcome.pdf", welcome_files.read(signup.user_id), "application/pdf")


def test_welcome_is_mailed_once_and_marked(signup, mailoutbox):
    welcome_pdf(running(), user_id=signup.user_id)
    run = running()

    for _ in range(2):
        welcome_email(run, user_id=signup.user_id)

    marked = Signup.objects.get()
    assert len(mailoutbox) == 1
    assert (marked.welcome_job_id, marked.welcome_claimed_at <= marked.welcome_sent_at) == (run.id, True)


def test_retry_before_the_mark_sends_the_same_mail(signup, mailoutbox):
    welcome_pdf(running(), user_id=signup.user_id)
    run = running()
    welcome_email(run, user_id=signup.user_id)
    Signup.objects.update(welcome_sent_at=None)

    welcome_email(run, user_id=signup.user_id)

    first, second = (mail.message()["Message-ID"] for mail in mailoutbox)
    assert first == second


def test_second_job_comes_back_while_the_first_is_about_to_send(signup, mailoutbox):
    welcome_pdf(running(), user_id=signup.user_id)
    assert Signup.objects.claim_welcome(signup.id, running().id, timezone.now())

    with pytest.raises(RetryLater):
        welcome_email(running(), user_id=signup.user_id)

    assert not mailoutbox


def test_second_job_sends_when_the_first_ended_without(signup, mailoutbox):
    welcome_pdf(running(), user_id=signup.user_id)
    first = running()
    assert Signup.objects.claim_welcome(signup.id, first.id, timezone.now())
    Job.objects.filter(id=first.id).update(state=State.DEAD, finished_at=timezone.now())

    welcome_email(running(), user_id=signup.user_id)

    assert len(mailoutbox) == 1


def test_missing_page_is_said_with_its_cure_and_claims_nothing(signup, mailoutbox):
    with pytest.raises(welcome_files.WelcomeMissing, match="Enqueue signup.welcome_pdf for user") as caught:
        welcome_email(running(), user_id=signup.user_id)

    assert not get("signup.welcome_email").is_permanent(caught.value)
    assert Signup.objects.get().welcome_job_id is None and not mailoutbox


def test_user_deleted_before_the_last_step_gets_no_file(signup, media):
    for step, content in ((1, b"font"), (2, b"page")):
        welcome_files.keep(welcome_files.part(signup.user_id, step), content)
    user_id = signup.user_id
    signup.user.delete()

    with pytest.raises(ObjectDoesNotExist) as caught:
        welcome_pdf(running(), user_id=user_id)

    assert get("signup.welcome_pdf").is_permanent(caught.value)
    assert files(media) == []


def test_user_deleted_while_the_page_is_published_leaves_no_file(signup, media):
    welcome_files.keep(welcome_files.part(signup.user_id, 2), b"page")
    user_id = signup.user_id
    signup.user.delete()

    with pytest.raises(User.DoesNotExist):
        publish(user_id)

    assert f"{user_id}.pdf" not in files(media)
