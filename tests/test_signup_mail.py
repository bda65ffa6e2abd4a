"""The mail of a signup: once per address, and the same when it is repeated."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from project.signup.emails import greeting
from project.signup.models import Signup, SignupRequest
from project.signup.services import sign_up
from project.signup.tasks import confirmation_email
from tasks.api import RetryLater
from tasks.models import Job
from tasks.registry import get
from tasks.states import FINISHED

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}


@pytest.fixture
def request_of_ann(db) -> SignupRequest:
    """Return a fresh request."""
    return sign_up(**ANN)


def make_mail_old(signup: Signup) -> None:
    """Let eleven minutes pass since the last mail."""
    long_ago = timezone.now() - timedelta(minutes=11)
    Signup.objects.filter(id=signup.id).update(mail_claimed_at=long_ago, mail_sent_at=long_ago)


def claim(request: SignupRequest) -> None:
    """Claim the mail for the job of a request, as it does before it sends."""
    assert Signup.objects.claim_mail(request.signup_id, request.job_id, timezone.now())


def test_mail_holds_a_link_that_confirms(client, request_of_ann, mailoutbox, settings):
    confirmation_email(request_id=request_of_ann.id)

    link = next(line for line in mailoutbox[0].body.splitlines() if "/confirm/" in line)
    assert link.startswith(settings.SITE_URL)
    assert client.get(link).status_code == 200
    assert Signup.objects.get().confirmed_at


def test_mail_goes_to_the_address_and_greets_by_name(request_of_ann, mailoutbox):
    confirmation_email(request_id=request_of_ann.id)

    assert mailoutbox[0].to == ["ann@example.com"]
    assert mailoutbox[0].body.startswith("Hello Ann,\n")


def test_sent_mail_is_marked_with_its_job(request_of_ann):
    confirmation_email(request_id=request_of_ann.id)

    signup = Signup.objects.get()
    assert signup.mail_job_id == request_of_ann.job_id
    assert signup.mail_claimed_at <= signup.mail_sent_at


def test_retry_after_the_mark_sends_nothing(request_of_ann, mailoutbox):
    confirmation_email(request_id=request_of_ann.id)
    make_mail_old(request_of_ann.signup)

    confirmation_email(request_id=request_of_ann.id)

    assert len(mailoutbox) == 1


def test_retry_before_the_mark_sends_under_the_same_message_id(request_of_ann, mailoutbox):
    confirmation_email(request_id=request_of_ann.id)
    Signup.objects.update(mail_sent_at=None)

    confirmation_email(request_id=request_of_ann.id)

    first, second = (mail.message()["Message-ID"] for mail in mailoutbox)
    assert first == second == f"<signup-{request_of_ann.id}@127.0.0.1>"


def test_second_request_soon_after_sends_nothing(request_of_ann, mailoutbox):
    second = sign_up(**ANN)
    confirmation_email(request_id=request_of_ann.id)

    confirmation_email(request_id=second.id)

    assert len(mailoutbox) == 1


def test_second_job_comes_back_while_the_first_is_about_to_send(request_of_ann, mailoutbox):
    second = sign_up(**ANN)
    claim(request_of_ann)

    with pytest.raises(RetryLater) as caught:
        confirmation_email(request_id=second.id)

    assert caught.value.seconds == 5
    assert not mailoutbox


def test_job_that_was_about_to_send_keeps_its_turn_for_as_long_as_it_takes(request_of_ann, mailoutbox):
    second = sign_up(**ANN)
    claim(request_of_ann)
    Signup.objects.update(mail_claimed_at=timezone.now() - timedelta(hours=1))

    with pytest.raises(RetryLater):
        confirmation_email(request_id=second.id)

    assert Signup.objects.get().mail_job_id == request_of_ann.job_id


@pytest.mark.parametrize("state", FINISHED)
def test_second_job_sends_when_the_first_ended_without(request_of_ann, mailoutbox, state):
    second = sign_up(**ANN)
    claim(request_of_ann)
    Job.objects.filter(id=request_of_ann.job_id).update(state=state, finished_at=timezone.now())

    confirmation_email(request_id=second.id)

    assert len(mailoutbox) == 1
    assert Signup.objects.get().mail_job_id == second.job_id


def test_second_job_sends_when_the_first_was_pruned(request_of_ann, mailoutbox):
    second = sign_up(**ANN)
    claim(request_of_ann)
    Job.objects.filter(id=request_of_ann.job_id).delete()

    confirmation_email(request_id=second.id)

    assert len(mailoutbox) == 1


def test_first_job_that_is_retried_after_the_second_sent_sends_nothing(request_of_ann, mailoutbox):
    second = sign_up(**ANN)
    claim(request_of_ann)
    Job.objects.filter(id=request_of_ann.job_id).update(state="dead", finished_at=timezone.now())
    confirmation_email(request_id=second.id)

    confirmation_email(request_id=request_of_ann.id)

    assert len(mailoutbox) == 1


def test_mail_names_who_was_typed_in_its_own_request_and_when(request_of_ann, mailoutbox):
    second = sign_up(**ANN | {"name": "Eve"})
    SignupRequest.objects.filter(id=second.id).update(created_at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC))

    confirmation_email(request_id=second.id)

    assert mailoutbox[0].body.startswith("Hello Eve,\n")
    assert "2 January 2026, 03:04 UTC" in mailoutbox[0].body


def test_request_ten_minutes_later_sends_again_under_another_message_id(request_of_ann, mailoutbox):
    confirmation_email(request_id=request_of_ann.id)
    make_mail_old(request_of_ann.signup)
    later = sign_up(**ANN)

    confirmation_email(request_id=later.id)

    first, second = (mail.message()["Message-ID"] for mail in mailoutbox)
    assert first != second


def test_confirmed_address_is_told_that_it_has_an_account(request_of_ann, mailoutbox):
    Signup.objects.update(confirmed_at=timezone.now())

    confirmation_email(request_id=request_of_ann.id)

    assert mailoutbox[0].subject == "You already have an account"
    assert "/confirm/" not in mailoutbox[0].body


def test_deleted_account_is_a_permanent_failure(request_of_ann, mailoutbox):
    request_of_ann.signup.user.delete()

    with pytest.raises(SignupRequest.DoesNotExist) as caught:
        confirmation_email(request_id=request_of_ann.id)

    assert get("signup.confirmation_email").is_permanent(caught.value)
    assert not mailoutbox


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Ann", "Hello Ann,"),
        ("J. R. Smith", "Hello J. R. Smith,"),
        ("", "Hello,"),
        ("Win at evil.example", "Hello,"),
        ("http://evil", "Hello,"),
        ("www evil", "Hello,"),
        ("<b>Ann</b>", "Hello,"),
        ("write to eve@evil", "Hello,"),
    ],
)
def test_name_that_could_become_a_link_is_left_out(name, expected):
    assert greeting(name) == expected
