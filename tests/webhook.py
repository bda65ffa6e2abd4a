"""A chat's webhook for tests: it can be full, refuse, or hang."""

import time
from threading import Event
from typing import NamedTuple

from tests.provider import Provider, Reply

LONGEST_HANG_S = 30


class Received(NamedTuple):
    """One request that arrived. Units: at in seconds."""

    at: float
    key: str
    body: dict


class Webhook(Provider):
    """Keeps the messages that it took; can be told to answer something else, or nothing."""

    def __init__(self):
        super().__init__()
        self.taken: list[Received] = []
        self.attempts: list[Received] = []
        self.refuse_with: Reply | None = None
        self._answers = Event()
        self._answers.set()

    @property
    def env(self) -> dict[str, str]:
        """Return what a process needs to tell the team here."""
        return {"TEAM_WEBHOOK_URL": f"{self.url}/hooks/wh-s3cr3t"}

    def hang(self) -> None:
        """Take connections and answer none, until `recover`."""
        self._answers.clear()

    def recover(self) -> None:
        """Answer again."""
        self._answers.set()

    def post(self, key: str, body: dict) -> Reply:
        """Take a message."""
        received = Received(time.time(), key, body)
        is_hanging = not self._answers.is_set()
        with self.lock:
            self.attempts.append(received)
        if is_hanging:
            self._answers.wait(LONGEST_HANG_S)
            return Reply(0)
        if self.refuse_with:
            return self.refuse_with
        with self.lock:
            self.taken.append(received)
        return Reply(200)

    def __exit__(self, *exception) -> None:
        self.recover()
        super().__exit__(*exception)
