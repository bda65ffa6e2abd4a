"""A payment provider loses its answers while workers are killed: its own book shows each order charged once."""

import os
import signal
import time
from collections import Counter
from random import Random

import pytest
from django.db import transaction
from django.db.models.functions import Now

from project.billing.models import Order, State
from project.billing.services import pay
from tasks.models import Job
from tests.kit import Kit, wait_until
from tests.payments import PaymentProvider

SEED = 1


@pytest.fixture
def provider(kit, settings):
    """Give a provider that forgets to say what it has charged, and charges again whatever it is asked again."""
    with PaymentProvider(Random(SEED)) as running:
        running.slow_s = 0.1
        settings.PAYMENT_URL, settings.PAYMENT_KEY = running.env["PAYMENT_URL"], running.env["PAYMENT_KEY"]
        kit.extra_env = running.env | {"PAYMENT_UNSURE_S": "5"}
        yield running


def kill_workers_at_random(kit: Kit, provider: PaymentProvider, kills: int, random: Random, count: int) -> None:
    """Kill one of two workers whenever the book has grown to one of some random sizes, and start another."""
    workers = [kit.start("worker"), kit.start("worker")]
    for size in sorted(random.sample(range(1, count * 6 // 10), kills)):
        wait_until(lambda size=size: len(provider.book) >= size, 60, f"{size} charges; {kit.processes[0].tail(5)}")
        victim = workers.pop(random.randrange(len(workers)))
        os.killpg(victim.pid, signal.SIGKILL)
        workers.append(kit.start("worker", wait=False))


def are_all_paid() -> bool:
    """Tell whether no order is left; what waits for its next attempt comes at once, or the test would take minutes."""
    Job.objects.filter(state="waiting", attempts__gt=0, snoozed_since_at=None, run_at__gt=Now()).update(run_at=Now())
    return not Order.objects.exclude(state=State.PAID).exists()


@pytest.mark.timeout(300)
def test_each_order_is_charged_exactly_once_while_answers_and_workers_are_lost(kit, provider):
    """The provider's own book: 30 % of charges get no answer, 20 % of requests a 500, and workers are killed."""
    count, kills = (60, 4) if kit.rung == "postgresql+redis" else (15, 1)
    orders = [Order.objects.create(amount_minor=100 + number, card_token="card") for number in range(count)]
    kit.start("relay")

    began = time.monotonic()
    with transaction.atomic():
        for order in orders:
            pay(order.id)
    kill_workers_at_random(kit, provider, kills, Random(SEED), count)
    wait_until(are_all_paid, 150, "all orders are paid")

    wait_until(lambda: not Job.objects.exclude(state="succeeded").exists(), 30, "all jobs have ended")
    print(f"{count} orders, {kills} kills, faults {dict(provider.faults)}, {time.monotonic() - began:.0f} s")
    assert Counter(provider.book) == {(order.key, order.amount_minor): 1 for order in orders}
    assert provider.faults["drop_after"] >= count // 10 and provider.faults["500_after"]
