"""The jobs of a run: which, when, with what. All of it comes from the seed; only the timing varies."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from tasks.api import draft, enqueue_many
from tests.chaos.specs import SPECS

KEY, ROLLED_BACK_KEY = "chaos:", "chaos-rolled-back:"


@dataclass(frozen=True)
class Order:
    """One job to be enqueued. Units: at and delay in seconds, from the run's start and from then on."""

    at: float
    number: int
    kind: str
    arguments: dict
    priority: int
    delay: float
    is_rolled_back: bool


class RolledBack(Exception):
    """What a caller's transaction fails with."""


def orders(seed: int, per_second: float) -> Iterator[Order]:
    """Yield jobs without end."""
    random, at, number = Random(f"jobs {seed}"), 0.0, 0
    kinds = list(SPECS)
    weights = [SPECS[kind].weight for kind in kinds]
    while True:
        at += random.expovariate(per_second)
        for _ in range(random.choice((1, 1, 1, 1, 6))):
            number += 1
            kind = random.choices(kinds, weights)[0]
            arguments = SPECS[kind].arguments(random)
            delay = random.choice((0, 0, 0, 0, random.uniform(0, 4)))
            yield Order(at, number, kind, arguments, random.randrange(10), delay, random.random() < 0.05)


class Stream:
    """Enqueue what is due; while the database is away, again and again until it is known to be there.

    Each job has a unique key, so what was committed without our hearing of it is not written twice.
    """

    def __init__(self, seed: int, per_second: float):
        self._orders = orders(seed, per_second)
        self._next = next(self._orders)
        self._due: list[Order] = []
        self.enqueued: set[int] = set()
        self.rolled_back: set[int] = set()

    def step(self, elapsed_s: float) -> None:
        """Enqueue the jobs whose time has come."""
        while self._next.at <= elapsed_s:
            self._due.append(self._next)
            self._next = next(self._orders)
        self.flush()

    def flush(self) -> None:
        """Write what has not been written. Raises: nothing for a database that is away."""
        kept = [order for order in self._due if not order.is_rolled_back]
        rolled_back = [order for order in self._due if order.is_rolled_back]
        try:
            if kept:
                enqueue_many(drafted(order, KEY) for order in kept)
            self.enqueued |= {order.number for order in kept}
            self._due = rolled_back
            self._enqueue_and_fail(rolled_back)
            self._due = []
        except (OperationalError, InterfaceError):
            connection.close()

    @property
    def is_written(self) -> bool:
        """Tell whether everything due is in the table."""
        return not self._due

    def _enqueue_and_fail(self, rolled_back: list[Order]) -> None:
        if rolled_back:
            self.rolled_back |= {order.number for order in rolled_back}
            with contextlib.suppress(RolledBack), transaction.atomic():
                enqueue_many(drafted(order, ROLLED_BACK_KEY) for order in rolled_back)
                raise RolledBack


def drafted(order: Order, key: str):
    """Return the job, not yet written."""
    run_at = timezone.now() + timedelta(seconds=order.delay) if order.delay else None
    return draft(
        order.kind,
        number=order.number,
        priority=order.priority,
        run_at=run_at,
        unique_key=f"{key}{order.number}",
        **order.arguments,
    )
