"""A real mail server for tests."""

from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from threading import Lock

from aiosmtpd.controller import Controller

from tests.services import HOST, free_port


@dataclass(frozen=True)
class Mail:
    """One message that arrived."""

    sender: str
    recipients: tuple[str, ...]
    message: Message

    @property
    def message_id(self) -> str:
        """Return the header that makes two copies of one mail the same."""
        return self.message["Message-ID"]


class SmtpSink:
    """A real SMTP server that keeps what it is given, or refuses it."""

    def __init__(self, hostname: str = HOST, port: int | None = None):
        self._lock = Lock()
        self._mails: list[Mail] = []
        self.refuse_with: str | None = None  # a reply such as "451 try later", given after DATA
        self.host, self.port = hostname, port or free_port()
        self._controller = Controller(self, hostname=self.host, port=self.port)

    @property
    def env(self) -> dict[str, str]:
        """Return what a process needs to send its mail here."""
        return {"EMAIL_HOST": self.host, "EMAIL_PORT": str(self.port)}

    @property
    def mails(self) -> list[Mail]:
        """Return what has arrived so far."""
        with self._lock:
            return list(self._mails)

    async def handle_DATA(self, server, session, envelope) -> str:
        """Keep one message."""
        if self.refuse_with:
            return self.refuse_with
        mail = Mail(envelope.mail_from, tuple(envelope.rcpt_tos), message_from_bytes(envelope.content))
        with self._lock:
            self._mails.append(mail)
        return "250 kept"

    def __enter__(self) -> "SmtpSink":
        self._controller.start()
        return self

    def __exit__(self, *exception) -> None:
        self._controller.stop()
