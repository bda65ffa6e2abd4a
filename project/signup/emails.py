"""The mails of a signup: confirm your address, you have an account already, welcome."""

import re
import smtplib
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.template.loader import render_to_string
from django.urls import reverse

from project.signup.models import Signup, SignupRequest
from tasks.api import PermanentError

LOOKS_LIKE_A_LINK = re.compile(r"[/@<>]|\w[.:]\w|www", re.IGNORECASE)


class MailRefused(Exception):
    """The mail server refused for now; trying again may help. Never holds an address."""


def send(mail: EmailMessage) -> None:
    """Send a mail.

    Raises: PermanentError when the server refuses this mail for good; MailRefused when it refuses for now, or for a
    reason that is ours (sign-in, greeting, sender); OSError when it cannot be reached.
    """
    try:
        with get_connection() as mail.connection:
            mail.send()
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
        raise refusal(code, text) from None
    except smtplib.SMTPDataError as error:
        raise refusal(error.smtp_code, error.smtp_error) from None
    except smtplib.SMTPSenderRefused as error:  # DEFAULT_FROM_EMAIL or the relay's quota: never the recipient's fault
        words = f"The mail server refuses our sender address: {reply(error.smtp_code, error.smtp_error)}."
        raise MailRefused(words) from None
    except smtplib.SMTPResponseException as error:
        raise MailRefused(f"The mail server does not talk to us: {reply(error.smtp_code, error.smtp_error)}.") from None


def refusal(code: int, text: bytes | str) -> Exception:
    """Return the error for a reply: 5xx is for good, 4xx for now."""
    if 500 <= code <= 599:
        return PermanentError(f"The mail server refuses this mail for good: {reply(code, text)}.")
    return MailRefused(f"The mail server refuses this mail for now: {reply(code, text)}.")


def reply(code: int, text: bytes | str) -> str:
    """Return a reply's numbers, e.g. 550 5.1.1; its words often repeat the address."""
    words = text.decode(errors="replace") if isinstance(text, bytes) else text
    enhanced = re.match(r"[245]\.\d{1,3}\.\d{1,3}\b", words)
    return f"{code} {enhanced[0]}" if enhanced else str(code)


def of_request(request: SignupRequest) -> EmailMessage:
    """Return the mail that fits: a confirmed address gets no second link."""
    user, is_confirmed = request.signup.user, request.signup.confirmed_at is not None
    return message(
        f"signup-{request.id}",
        subject="You already have an account" if is_confirmed else "Please confirm your address",
        to=user.email,
        template="account_exists" if is_confirmed else "confirmation",
        greeting=greeting(user.name if is_confirmed else request.name),
        link=confirm_url(request),
        request=request,
    )


def of_welcome(signup: Signup, pdf: bytes) -> EmailMessage:
    """Return the mail that brings a person's welcome page."""
    mail = message(
        f"welcome-{signup.user_id}",
        subject="Welcome",
        to=signup.user.email,
        template="welcome",
        greeting=greeting(signup.user.name),
        signup=signup,
    )
    mail.attach("welcome.pdf", pdf, "application/pdf")
    return mail


def message(what: str, *, subject: str, to: str, template: str, **context) -> EmailMessage:
    """Return a mail; a repeated one has the same Message-ID, made of what it is about."""
    return EmailMessage(
        subject=subject,
        body=render_to_string(f"signup/{template}.txt", context | {"site": settings.SITE_URL}),
        to=[to],
        headers={
            "Message-ID": f"<{what}@{urlsplit(settings.SITE_URL).hostname}>",
            "Auto-Submitted": "auto-generated",  # no holiday replies; source: RFC 3834
        },
    )


def greeting(name: str) -> str:
    """Return "Hello NAME,"; without the name if it is not harmless."""
    return f"Hello {name}," if harmless(name) else "Hello,"


def harmless(name: str) -> str:
    """Return a name, or nothing if a program could make a link of it: anybody may sign anybody up."""
    return "" if LOOKS_LIKE_A_LINK.search(name) else name


def confirm_url(request: SignupRequest) -> str:
    """Return the link that confirms an address, and the password that was chosen in this request."""
    return settings.SITE_URL + reverse("signup:confirm", args=[request.signed_link()])
