"""A payment provider for tests: it loses answers, and keeps a book of what it has charged."""

import time
from collections import Counter

from tests.provider import Provider, Reply


class PaymentProvider(Provider):
    """Keeps a book of what it has charged.

    Shape: `next_replies` are faults for the next requests, in order: drop_before, drop_after, 500_before, 500_after, or
    a Reply; with `random`, 30 % of charges are dropped after they were made and 20 % of all requests get a 500.
    """

    def __init__(self, random=None, *, has_deduplication: bool = False):
        super().__init__()
        self.random, self.has_deduplication = random, has_deduplication
        self.book: list[tuple[str, int]] = []  # key and amount of each charge that was made
        self.refusals: dict[str, str] = {}
        self.next_replies: list[str | Reply] = []
        self.faults: Counter = Counter()
        self.slow_s = 0.0

    @property
    def env(self) -> dict[str, str]:
        """Return what a process needs to have its orders charged here."""
        return {"PAYMENT_URL": self.url, "PAYMENT_KEY": "test-key"}

    def post(self, key: str, body: dict) -> Reply:
        """Charge, and perhaps not say so."""
        fault = self._fault(drops=0.3)
        if isinstance(fault, Reply):
            return fault
        if fault in ("drop_before", "500_before"):
            return Reply(0 if fault == "drop_before" else 500)
        time.sleep(self.slow_s / 2)
        with self.lock:
            if body["source"] == "card-without-money":
                self.refusals[key] = "insufficient_funds"
            elif not (self.has_deduplication and self._charges(key)):
                self.book.append((key, body["amount"]))
        time.sleep(self.slow_s / 2)
        if fault in ("drop_after", "500_after"):
            return Reply(0 if fault == "drop_after" else 500)
        return Reply(402 if key in self.refusals else 201, self._told(key))

    def get(self, key: str) -> Reply:
        """Tell what became of a key."""
        fault = self._fault()
        if isinstance(fault, Reply):
            return fault
        if fault:
            return Reply(500)
        with self.lock:
            is_known = self._charges(key) or key in self.refusals
        return Reply(200, self._told(key)) if is_known else Reply(404)

    def _charges(self, key: str) -> int:
        return sum(charged == key for charged, _ in self.book)

    def _told(self, key: str) -> dict:
        reason = self.refusals.get(key)
        return {"id": f"charge-of-{key}", "status": "refused" if reason else "paid", "reason": reason or ""}

    def _fault(self, drops: float = 0.0) -> str | Reply | None:
        with self.lock:
            if self.next_replies:
                return self.next_replies.pop(0)
            if self.random is None:
                return None
            number = self.random.random()
            fault = None
            if number < drops:
                fault = "drop_after"
            elif number < drops + 0.2:
                fault = "500_after" if self.random.random() < 0.5 else "500_before"
            self.faults[fault] += 1
            return fault
