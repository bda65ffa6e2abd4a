"""A webhook is down while mails and notifications come: no mail waits, and later every notification arrives."""

import time
from collections import Counter

import pytest
from django.contrib.auth import get_user_model

from project.signup.models import Signup
from project.signup.services import sign_up
from tasks.api import draft, enqueue_many
from tasks.models import Job
from tests.kit import wait_until
from tests.webhook import Webhook

NOTIFICATIONS, SIGNUPS = 30, 15
RATE = 5  # notifications a second, as the kind declares it
DOWN_S = 12.0  # longer than a hold, so that it is tried again in vain


def notifications(count: int) -> list[Job]:
    """Enqueue notifications of signups, as many as asked for."""
    users = get_user_model().objects.bulk_create(
        [get_user_model()(email=f"new-{number}@example.com", password="!") for number in range(count)]
    )
    signups = Signup.objects.bulk_create([Signup(user=user) for user in users])
    return enqueue_many(
        draft("signup.notify_team", signup_id=signup.id, unique_key=f"notify:{signup.id}") for signup in signups
    )


def fullest(times: list[float], seconds: float) -> int:
    """Return how many of the times the fullest window holds."""
    return max(sum(first <= at < first + seconds for at in times) for first in times)


@pytest.mark.rung("postgresql+redis")
def test_mail_does_not_wait_for_a_webhook_that_is_down(kit, smtp):
    """It takes connections and never answers; later each notification arrives once, no faster than allowed."""
    with Webhook() as webhook:
        webhook.hang()
        kit.extra_env = smtp.env | webhook.env
        kit.start("relay")
        kit.start("worker")

        began = time.monotonic()
        jobs = notifications(NOTIFICATIONS)
        for number in range(SIGNUPS):
            sign_up(name="Ann", email=f"ann-{number}@example.com", password="seven blue kettles")
        wait_until(lambda: len(smtp.mails) == SIGNUPS, 20, f"all mails; there are {len(smtp.mails)}")
        tried_meanwhile = len(webhook.attempts)
        wait_until(lambda: time.monotonic() - began > DOWN_S, DOWN_S + 5)
        tried_in_vain = len(webhook.attempts)
        webhook.recover()
        wait_until(lambda: len(webhook.taken) >= NOTIFICATIONS, 10 + NOTIFICATIONS, "all notifications")
        wait_until(lambda: not Job.objects.exclude(state="succeeded").exists(), 10, "all jobs have ended")

        times = [message.at for message in webhook.taken]
        mails = Job.objects.filter(kind="signup.confirmation_email").values_list("enqueued_at", "finished_at")
        longest_s = max((finished_at - enqueued_at).total_seconds() for enqueued_at, finished_at in mails)
        print(f"longest way of a mail {longest_s:.1f} s; {NOTIFICATIONS} notifications in {times[-1] - times[0]:.1f} s")
        assert tried_meanwhile <= 2 and 1 <= tried_in_vain <= 3
        assert Counter(message.key for message in webhook.taken) == {job.unique_key: 1 for job in jobs}
        assert fullest(times, 0.8) <= RATE  # a rate of starts; the way to the webhook takes a varying time
