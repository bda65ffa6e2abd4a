"""Speak to the payment provider: ask for a charge under a key, and ask what became of a key.

An error says what is known: after NOTHING_CHARGED nothing was; after OutcomeUnknown the provider may have charged.
"""

import json
import ssl
from functools import cache
from typing import NamedTuple

import httpx
from django.conf import settings

from project.billing.models import Order
from tasks.api import PermanentError, RetryLater, database_now, retry_after_s

TIMEOUT = httpx.Timeout(10.0, connect=3.0)  # s
STATUSES = ("paid", "refused", "pending")
ANSWER_BYTES = 65_536  # of an answer no more is read


class OutcomeUnknown(Exception):
    """The request was sent, and no answer came that tells whether it was carried out."""


class Unreachable(Exception):
    """There was no connection, so nothing was sent."""


NOTHING_CHARGED = (Unreachable, RetryLater, PermanentError)


class Charge(NamedTuple):
    """What the provider says of a charge. Shape: status is paid, refused or pending."""

    id: str
    status: str
    reason: str = ""


@cache
def tls() -> ssl.SSLContext:
    """Return what certificates are checked with, made once a process: reading all the roots takes tens of ms."""
    return httpx.create_ssl_context()


def charge(order: Order) -> Charge:
    """Ask for the charge of an order. Raises: as sent; OutcomeUnknown."""
    body = {"amount": order.amount_minor, "currency": order.currency, "source": order.card_token}
    return read(*sent("POST", "charges", json=body, headers={"Idempotency-Key": order.key}))


def find(key: str) -> Charge | None:
    """Return what became of a key, None when the provider has no charge under it. Raises: as charge."""
    code, content = sent("GET", "charges", params={"idempotency_key": key})
    return None if code == 404 else read(code, content)


def sent(method: str, path: str, *, headers: dict | None = None, **request) -> tuple[int, bytes]:
    """Send a request and return status and body of its answer: 2xx, a refused card (402), or a GET's 404.

    Raises: RetryLater (429), PermanentError (other refusals), Unreachable, OutcomeUnknown.
    """
    url = f"{settings.PAYMENT_URL.rstrip('/')}/{path}"
    headers = {"Authorization": f"Bearer {settings.PAYMENT_KEY}", **(headers or {})}
    try:
        with httpx.stream(method, url, headers=headers, timeout=TIMEOUT, verify=tls(), **request) as response:
            code, retry_after = response.status_code, response.headers.get("Retry-After")
            content = next(response.iter_bytes(ANSWER_BYTES), b"")
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise Unreachable(f"The payment provider cannot be reached ({type(error).__name__}).") from None
    except httpx.RequestError as error:
        raise OutcomeUnknown(f"The payment provider gave no answer ({type(error).__name__}).") from None
    if code < 300 or code == 402 or (method == "GET" and code == 404):
        return code, content
    if code == 429:
        raise RetryLater(retry_after_s(retry_after, database_now()), "the payment provider answers 429")
    if code in (408, 409) or code >= 500:  # 409: another request with this key is under way
        raise OutcomeUnknown(f"The payment provider answers {code}.")
    raise PermanentError(f"The payment provider answers {code}: look at PAYMENT_URL and PAYMENT_KEY, then retry this.")


def read(code: int, content: bytes) -> Charge:
    """Return the charge that an answer tells of. Raises: OutcomeUnknown when it tells of none."""
    try:
        told = json.loads(content)
        if told["status"] not in STATUSES:
            raise ValueError
        return Charge(str(told["id"])[:100], str(told["status"]), str(told.get("reason", ""))[:100])
    except (ValueError, TypeError, KeyError, AttributeError):
        raise OutcomeUnknown(f"The payment provider answers {code} with something else than a charge.") from None
