"""The team is told of a confirmed signup, and a webhook that fails is left alone for a while."""

import logging

import pytest

from project.signup import notify
from project.signup.models import Signup, SignupRequest
from project.signup.services import confirm, sign_up
from project.signup.tasks import notify_team
from tasks.api import PermanentError, RetryLater, database_now
from tasks.models import Job, Limit
from tests.provider import Reply
from tests.webhook import Webhook

pytestmark = pytest.mark.django_db

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}


@pytest.fixture
def webhook(settings):
    """Give a real webhook, known to the settings."""
    with Webhook() as running:
        settings.TEAM_WEBHOOK_URL = running.env["TEAM_WEBHOOK_URL"]
        yield running


@pytest.fixture
def request_of_ann() -> SignupRequest:
    """Return a fresh request."""
    return sign_up(**ANN)


def held_s() -> float:
    """Return for how long the webhook is left alone. Units: seconds."""
    return (Limit.objects.get(name="team_webhook").free_at - database_now()).total_seconds()


def test_confirmed_signup_is_told_once(webhook, request_of_ann):
    for _ in range(2):
        confirm(request_of_ann.signed_link(), database_now())

    job = Job.objects.get(kind="signup.notify_team")
    assert job.arguments == {"signup_id": request_of_ann.signup_id}
    assert job.unique_key == f"notify:{request_of_ann.signup_id}"


def test_nothing_is_enqueued_without_a_webhook(request_of_ann, settings):
    settings.TEAM_WEBHOOK_URL = ""

    confirm(request_of_ann.signed_link(), database_now())

    assert not Job.objects.filter(kind="signup.notify_team").exists()


def test_message_holds_a_link_for_staff_and_no_personal_data(webhook, request_of_ann, settings):
    notify_team(request_of_ann.signup_id)

    signup_id = request_of_ann.signup_id
    page = f"{settings.SITE_URL}/admin/signup/signup/{signup_id}/change/"
    assert [message.body for message in webhook.taken] == [{"text": f"Signup {signup_id} is confirmed: {page}"}]


def test_repeated_message_has_the_same_idempotency_key(webhook, request_of_ann):
    for _ in range(2):
        notify_team(request_of_ann.signup_id)

    assert {message.key for message in webhook.taken} == {f"notify:{request_of_ann.signup_id}"}


def test_too_many_requests_hold_all_for_as_long_as_is_asked(webhook, request_of_ann):
    webhook.refuse_with = Reply(429, headers={"Retry-After": "42"})

    with pytest.raises(RetryLater) as later:
        notify_team(request_of_ann.signup_id)

    assert later.value.seconds == 42
    assert 40 < held_s() <= 42


@pytest.mark.parametrize("code", [500, 503, 408])
def test_failing_webhook_is_left_alone_for_a_while(webhook, request_of_ann, code):
    webhook.refuse_with = Reply(code)

    with pytest.raises(notify.WebhookDown, match=f"answers {code}"):
        notify_team(request_of_ann.signup_id)

    assert 8 < held_s() <= 10


def test_webhook_that_does_not_answer_is_left_alone_for_a_while(webhook, request_of_ann, monkeypatch):
    monkeypatch.setattr(notify, "TIMEOUT", 0.2)
    webhook.hang()

    with pytest.raises(notify.WebhookDown, match="ReadTimeout"):
        notify_team(request_of_ann.signup_id)

    assert 8 < held_s() <= 10


def test_webhook_that_cannot_be_reached_is_left_alone_for_a_while(request_of_ann, settings):
    settings.TEAM_WEBHOOK_URL = "http://127.0.0.1:9/hooks/wh-s3cr3t"

    with pytest.raises(notify.WebhookDown, match="ConnectError"):
        notify_team(request_of_ann.signup_id)

    assert 8 < held_s() <= 10


@pytest.mark.parametrize("code", [400, 403, 404, 410, 302])
def test_other_refusals_are_for_good_and_hold_nobody(webhook, request_of_ann, code):
    webhook.refuse_with = Reply(code)

    with pytest.raises(PermanentError, match=f"answers {code}: look at TEAM_WEBHOOK_URL"):
        notify_team(request_of_ann.signup_id)

    assert not Limit.objects.exists()


def test_shorter_hold_does_not_end_a_longer_one(webhook, request_of_ann):
    webhook.refuse_with = Reply(429, headers={"Retry-After": "42"})
    with pytest.raises(RetryLater):
        notify_team(request_of_ann.signup_id)
    webhook.refuse_with = Reply(500)

    with pytest.raises(notify.WebhookDown):
        notify_team(request_of_ann.signup_id)

    assert held_s() > 40


def test_address_of_the_webhook_reaches_no_log_and_no_error(webhook, request_of_ann, caplog):
    caplog.set_level(logging.INFO)
    notify_team(request_of_ann.signup_id)
    webhook.refuse_with = Reply(404)

    with pytest.raises(PermanentError) as refused:
        notify_team(request_of_ann.signup_id)

    assert "s3cr3t" not in caplog.text + str(refused.value)


def test_deleted_account_is_told_to_nobody(webhook, request_of_ann):
    signup_id = request_of_ann.signup_id
    Signup.objects.all().delete()

    with pytest.raises(Signup.DoesNotExist):
        notify_team(signup_id)

    assert webhook.attempts == []
