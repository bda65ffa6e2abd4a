"""Tell the team of a signup through a webhook, such as a chat's: a provider that may be slow, full or away."""

import ssl
from functools import cache

import httpx
from django.conf import settings
from django.urls import reverse

from project.signup.models import Signup
from tasks.api import PermanentError, RateLimit, RetryLater, database_now, hold_rate_limit, retry_after_s

RATE = RateLimit("team_webhook", calls=5, per_s=1)
TIMEOUT = httpx.Timeout(3.0, connect=2.0)  # s
HOLD_S = 10.0  # a provider that is down is tried by one job in so many seconds, and the others wait in the table


class WebhookDown(Exception):
    """The webhook does not work now; trying again may help. Never holds its address, which is a secret."""


@cache
def tls() -> ssl.SSLContext:
    """Return what certificates are checked with, made once a process: reading all the roots takes tens of ms."""
    return httpx.create_ssl_context()


def post(signup: Signup) -> None:
    """Tell the team of a signup; a repeated message has the same Idempotency-Key.

    Raises: RetryLater when there were too many (429); WebhookDown for 5xx and no answer in time; PermanentError for
    any other refusal.
    """
    code, retry_after = answer(signup)
    if code == 429:
        wait_s = retry_after_s(retry_after, database_now())
        hold_rate_limit(RATE.name, wait_s)
        raise RetryLater(wait_s, "the team's webhook answers 429")
    if code == 408 or code >= 500:
        raise down(f"answers {code}")
    if code >= 300:
        raise PermanentError(f"The team's webhook answers {code}: look at TEAM_WEBHOOK_URL, then retry this job.")


def answer(signup: Signup) -> tuple[int, str | None]:
    """Send the message and return the status and what Retry-After says; the answer's body is not read."""
    if not settings.TEAM_WEBHOOK_URL:
        raise PermanentError("TEAM_WEBHOOK_URL is empty: set it and retry this job, or discard it.")
    headers = {"Idempotency-Key": f"notify:{signup.id}"}
    request = {"json": message(signup), "headers": headers, "timeout": TIMEOUT, "verify": tls()}
    try:
        with httpx.stream("POST", settings.TEAM_WEBHOOK_URL, **request) as response:
            return response.status_code, response.headers.get("Retry-After")
    except httpx.RequestError as error:
        raise down(f"does not answer ({type(error).__name__})") from None


def down(what: str) -> WebhookDown:
    """Keep all other jobs from the webhook for a while, and return the error for this one."""
    hold_rate_limit(RATE.name, HOLD_S)
    return WebhookDown(f"The team's webhook {what}.")


def message(signup: Signup) -> dict:
    """Return what is sent: a link that only staff can open. No name and no address leave the site.

    Shape: `text`, as Slack, Mattermost and Rocket.Chat take it.
    """
    page = settings.SITE_URL + reverse("admin:signup_signup_change", args=[signup.id])
    return {"text": f"Signup {signup.id} is confirmed: {page}"}
