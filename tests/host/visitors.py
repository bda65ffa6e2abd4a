"""Strangers on the Internet: they open pages over HTTPS, sign up, and get mail."""

import http.client
import json
import socket
import ssl
import threading
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from statistics import quantiles

from tests.host.machine import DOMAIN, Machine
from tests.host.network import GATEWAY
from tests.host.shell import run
from tests.host.site import SMTP_PORT
from tests.smtp import Mail, SmtpSink

PEOPLE = "198.51.100"  # a network for documentation; each visitor has an address of its own there
THREADS = 16
TIMEOUT_S = 30


@dataclass(frozen=True)
class Answer:
    """What one visitor got: a status, or 0 and what went wrong.

    Units: seconds from the connection's start to the last byte.
    """

    status: int
    seconds: float
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Internet:
    """The computers around one machine: visitors with their browsers, and the mail server that its mail goes to."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.network = machine.network
        self.smtp = SmtpSink(GATEWAY, SMTP_PORT)
        self._trust: ssl.SSLContext | None = None

    def __enter__(self) -> "Internet":
        self.network.up()
        # Replies to visitors come back by the gateway, which keeps them.
        run(["ip", "-n", self.network.name, "route", "replace", "local", f"{PEOPLE}.0/24", "dev", "lo"])
        self.network.call(self.smtp.__enter__)
        return self

    def __exit__(self, *exception: object) -> None:
        self.smtp.__exit__(*exception)

    def trust(self) -> ssl.SSLContext:
        """Return a context that knows the self-made certificate, as a person's browser does after one question."""
        if self._trust is None:
            self._trust = ssl.create_default_context(cadata=self.network.call(self.certificate))
        return self._trust

    def certificate(self) -> str:
        """Return the certificate that the site shows."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with (
            socket.create_connection((self.machine.address, 443), timeout=TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=DOMAIN) as secure,
        ):
            return ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True))

    def get(self, path: str, visitor: int = 0) -> Answer:
        """Open a page."""
        trust = self.trust()
        return self.network.call(ask, self.machine.address, trust, "GET", path, visitor=visitor)

    def sign_up(self, number: int) -> Answer:
        """Let one person sign up."""
        trust = self.trust()
        return self.network.call(sign_up, self.machine.address, trust, number)

    def mails_to(self, number: int) -> list[Mail]:
        """Return the mails that one person got."""
        return [mail for mail in self.smtp.mails if address_of(number) in mail.recipients]

    def mail_counts(self) -> Counter:
        """Return how many mails each address got."""
        return Counter(recipient for mail in self.smtp.mails for recipient in mail.recipients)


class Crowd:
    """People who sign up at a steady pace, each from an address of its own, until they are told to stop.

    Units: pace in signups a second.
    """

    def __init__(self, internet: Internet, *, first: int, pace: float):
        self.internet, self.first, self.pace = internet, first, pace
        self._ends = threading.Event()
        self._sent: list[Future] = []
        self._thread = threading.Thread(target=self._keep_pace, daemon=True)

    def __enter__(self) -> "Crowd":
        self._trust = self.internet.trust()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ends.set()
        self._thread.join()

    def _keep_pace(self) -> None:
        begin = time.monotonic()
        address = self.internet.machine.address
        with self.internet.network.pool(THREADS) as pool:
            while not self._ends.wait(max(0, begin + len(self._sent) / self.pace - time.monotonic())):
                self._sent.append(pool.submit(sign_up, address, self._trust, self.first + len(self._sent)))

    def answers(self) -> dict[int, Answer]:
        """Return what each person got; after the end."""
        return {self.first + place: sent.result() for place, sent in enumerate(self._sent)}


def sign_up(address: str, trust: ssl.SSLContext, number: int) -> Answer:
    """Send one signup; runs in the network."""
    fields = {"name": f"Person {number}", "email": address_of(number), "password": f"long-enough-{number}"}
    return ask(address, trust, "POST", "/api/signup", body=json.dumps(fields), visitor=number)


def address_of(number: int) -> str:
    """Return a person's mail address."""
    return f"person-{number}@example.com"


def ask(
    address: str, trust: ssl.SSLContext, method: str, path: str, *, body: str | None = None, visitor: int = 0
) -> Answer:
    """Send one request from a visitor's address; runs in the network."""
    started = time.monotonic()
    connection = SiteConnection(address, trust, f"{PEOPLE}.{1 + visitor % 254}")
    try:
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
        seen = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, time.monotonic() - started, text, seen)
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, time.monotonic() - started, f"{type(error).__name__}: {error}")
    finally:
        connection.close()


class SiteConnection(http.client.HTTPSConnection):
    """A connection to the site's name at the machine's address."""

    def __init__(self, address: str, trust: ssl.SSLContext, source: str):
        super().__init__(DOMAIN, 443, timeout=TIMEOUT_S, context=trust)
        self._trust, self._address, self._source = trust, address, source

    def connect(self) -> None:
        """Connect without asking a name server."""
        plain = socket.create_connection((self._address, 443), TIMEOUT_S, (self._source, 0))
        self.sock = self._trust.wrap_socket(plain, server_hostname=DOMAIN)


def p95_s(answers: list[Answer]) -> float:
    """Return the 95th percentile of the answers' times. Units: seconds."""
    return quantiles([answer.seconds for answer in answers], n=20)[18]
