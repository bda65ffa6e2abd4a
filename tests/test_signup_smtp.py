"""A real mail server refuses: for good or for now, and no address gets into an error."""

import socket
from contextlib import contextmanager
from email import message_from_bytes
from smtplib import SMTPServerDisconnected

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from project.signup.emails import MailRefused
from project.signup.models import Signup, SignupRequest
from project.signup.services import sign_up
from project.signup.tasks import confirmation_email
from tasks.api import PermanentError, RetryLater
from tasks.registry import get
from tests.services import free_port

ANN = {"name": "Ann", "email": "ann@example.com", "password": "seven blue kettles"}


class MailServer:
    """A real SMTP server with prepared replies; without one it takes the mail."""

    def __init__(self, **replies: str):
        self.replies = replies
        self.taken = []

    async def handle_MAIL(self, server, session, envelope, address, options):
        """Answer MAIL FROM."""
        envelope.mail_from = address
        return self.replies.get("mail", "250 OK")

    async def handle_RCPT(self, server, session, envelope, address, options):
        """Answer RCPT TO."""
        envelope.rcpt_tos.append(address)
        return self.replies.get("rcpt", "250 OK").format(address=address)

    async def handle_DATA(self, server, session, envelope):
        """Answer the mail itself."""
        self.taken.append(envelope)
        if self.replies.get("data") == "cut":
            server.transport.abort()
        return self.replies.get("data", "250 OK")


@pytest.fixture
def request_of_ann(db) -> SignupRequest:
    """Return a fresh request."""
    return sign_up(**ANN)


@pytest.fixture
def smtp(settings):
    """Return a function that starts a mail server with these replies and makes it the site's."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    settings.EMAIL_PORT = free_port()
    nobody = {"authenticator": lambda *_: AuthResult(success=False, handled=False), "auth_require_tls": False}

    @contextmanager
    def running(**replies: str):
        handler = MailServer(**replies)
        controller = Controller(handler, hostname="127.0.0.1", port=settings.EMAIL_PORT, **nobody)
        controller.start()
        try:
            yield handler
        finally:
            controller.stop()

    return running


def test_second_request_sends_nothing_while_the_first_is_between_attempts(request_of_ann, smtp):
    second = sign_up(**ANN)
    with smtp(rcpt="451 4.3.0 later"), pytest.raises(MailRefused):
        confirmation_email(request_id=request_of_ann.id)

    with smtp() as server:
        with pytest.raises(RetryLater):
            confirmation_email(request_id=second.id)
        confirmation_email(request_id=request_of_ann.id)
        confirmation_email(request_id=second.id)

    assert len(server.taken) == 1
    assert Signup.objects.get().mail_job_id == request_of_ann.job_id


@pytest.mark.parametrize("stage", ["rcpt", "data"])
def test_refusal_for_good_is_permanent_and_names_no_address(request_of_ann, smtp, stage):
    with smtp(**{stage: "550 5.1.1 <ann@example.com>: no such user"}), pytest.raises(PermanentError) as caught:
        confirmation_email(request_id=request_of_ann.id)

    assert "550 5.1.1" in str(caught.value)
    assert "@" not in str(caught.value) and caught.value.__suppress_context__
    assert Signup.objects.get().mail_sent_at is None


@pytest.mark.parametrize("stage", ["mail", "rcpt", "data"])
def test_refusal_for_now_is_temporary_and_names_no_address(request_of_ann, smtp, stage):
    with smtp(**{stage: "451 4.7.1 <ann@example.com>: greylisted"}), pytest.raises(MailRefused) as caught:
        confirmation_email(request_id=request_of_ann.id)

    assert "451 4.7.1" in str(caught.value) and "@" not in str(caught.value)
    assert not get("signup.confirmation_email").is_permanent(caught.value)


def test_refused_sender_is_temporary_because_it_is_ours_to_mend(request_of_ann, smtp):
    with smtp(mail="550 5.7.1 <kit@example.com>: not your domain"), pytest.raises(MailRefused) as caught:
        confirmation_email(request_id=request_of_ann.id)

    assert "550 5.7.1" in str(caught.value) and "@" not in str(caught.value)
    assert not get("signup.confirmation_email").is_permanent(caught.value)


def test_refused_sign_in_is_temporary_because_it_is_ours_to_mend(request_of_ann, smtp, settings):
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "kit", "wrong"

    with smtp(), pytest.raises(MailRefused) as caught:
        confirmation_email(request_id=request_of_ann.id)

    assert not get("signup.confirmation_email").is_permanent(caught.value)
    assert "535" in str(caught.value) and "wrong" not in str(caught.value)


def test_mail_server_that_is_away_is_temporary(request_of_ann, smtp):
    with pytest.raises(ConnectionRefusedError) as caught:
        confirmation_email(request_id=request_of_ann.id)

    assert not get("signup.confirmation_email").is_permanent(caught.value)


def test_mail_in_other_scripts_passes_a_real_server(db, smtp):
    request = sign_up(**ANN | {"name": "Анна 🦊", "email": "anna+x@müller.example"})

    with smtp() as server:
        confirmation_email(request_id=request.id)

    envelope = server.taken[0]
    assert envelope.rcpt_tos == ["anna+x@xn--mller-kva.example"]
    assert "Hello Анна 🦊," in envelope.content.decode()


def test_mail_server_that_says_nothing_holds_an_attempt_for_ten_seconds_at_most(request_of_ann, settings):
    """It takes the connection and is silent; without a timeout the attempt would last for ever."""
    assert settings.EMAIL_TIMEOUT == 10
    settings.EMAIL_BACKEND, settings.EMAIL_HOST = "django.core.mail.backends.smtp.EmailBackend", "127.0.0.1"
    settings.EMAIL_TIMEOUT = 0.2

    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(OSError, match="timed out") as caught:
        settings.EMAIL_PORT = silent.getsockname()[1]
        confirmation_email(request_id=request_of_ann.id)

    assert not get("signup.confirmation_email").is_permanent(caught.value)


def test_connection_cut_after_the_mail_was_taken_sends_a_copy_with_the_same_message_id(request_of_ann, smtp):
    """Nobody can tell whether it arrived; the receiver can tell that both are one."""
    with smtp(data="cut") as server:
        with pytest.raises(SMTPServerDisconnected) as caught:
            confirmation_email(request_id=request_of_ann.id)
        server.replies.clear()
        confirmation_email(request_id=request_of_ann.id)

    ids = [message_from_bytes(envelope.content)["Message-ID"] for envelope in server.taken]
    assert len(ids) == 2 and len(set(ids)) == 1
    assert not get("signup.confirmation_email").is_permanent(caught.value)
