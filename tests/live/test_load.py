"""Many at once: nothing lost, nothing twice, and the broker never holds more than its bound."""

import random
import threading
from collections import Counter
from contextlib import closing

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from tasks.api import draft, enqueue_many
from tasks.models import Job
from tasks.registry import broker_queue
from tasks.states import State
from tests.kit import wait_until
from tests.load import sign_up_many
from tests.services import free_port

SIGNUPS = {"postgresql+redis": 2_000}
BACKLOG = {"postgresql+redis": 20_000}
FEWER = 200  # on the rungs for small sites
HIGH_WATER = 32

pytestmark = [pytest.mark.timeout(600), pytest.mark.rung("sqlite+filesystem", "postgresql+redis")]


@pytest.fixture
def web(kit, smtp) -> int:
    """Start the site, with mail going to a real server; return its port."""
    kit.extra_env |= smtp.env
    port = free_port()
    kit.start("web", port=port)
    return port


def all_succeeded() -> bool:
    """Tell whether no job is left to do."""
    return not Job.objects.exclude(state=State.SUCCEEDED).exists()


def progress() -> str:
    """Return how many jobs are in which state."""
    return str(Counter(Job.objects.values_list("state", flat=True)))


def assert_each_signup_has_one_of_all(smtp, count: int) -> None:
    """Compare users, jobs and mails."""
    recipients = Counter(mail.recipients for mail in smtp.mails)
    assert get_user_model().objects.count() == count
    assert Job.objects.filter(kind="signup.confirmation_email", state=State.SUCCEEDED).count() == count
    assert len(recipients) == count
    assert recipients.most_common(1)[0][1] == 1
    assert len({mail.message_id for mail in smtp.mails}) == count


def test_each_of_many_signups_is_mailed_once(kit, web, smtp):
    """Two relays and two workers share the work."""
    count = SIGNUPS.get(kit.rung, FEWER)
    for name in ("relay", "relay", "worker", "worker"):
        kit.start(name)

    answers = sign_up_many(web, range(count))

    assert {answer.status for answer in answers} == {202}
    wait_until(all_succeeded, 240, "all jobs succeed")
    assert_each_signup_has_one_of_all(smtp, count)


@pytest.mark.rung("postgresql+redis")
def test_signups_do_not_need_redis(kit, web, smtp):
    """Redis is down for the first half: everybody is answered, and mailed when it is back."""
    count = SIGNUPS[kit.rung] // 2
    kit.redis.stop()
    for name in ("relay", "relay", "worker", "worker"):
        kit.start(name, wait=False)

    before = sign_up_many(web, range(count // 2))
    kit.redis.start()
    after = sign_up_many(web, range(count // 2, count))

    assert {answer.status for answer in before + after} == {202}
    wait_until(all_succeeded, 240, "all jobs succeed")
    assert_each_signup_has_one_of_all(smtp, count)


class Watch:
    """Look at the bound again and again while the backlog is worked off."""

    def __init__(self, kit):
        self.kit, self.most_relayed, self.most_messages, self.looks = kit, 0, 0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with closing(connection):
            while not self._stop.wait(0.02):
                self.looks += 1
                self.most_relayed = max(self.most_relayed, Job.objects.filter(state=State.RELAYED).count())
                self.most_messages = max(self.most_messages, self._messages())

    def _messages(self) -> int:
        if self.kit.rung != "postgresql+redis":
            return 0
        with self.kit.redis.client() as client:
            return sum(client.llen(key) for key in client.keys(broker_queue("default") + "*"))

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._stop.set()
        self._thread.join()


def test_backlog_stays_in_the_table_and_urgent_jobs_come_out_first(kit):
    """Two relays keep one bound, in the table and in the broker, and priority is kept through it."""
    count = BACKLOG.get(kit.rung, FEWER)
    dice = random.Random(1)
    enqueue_many(draft("test.noop", priority=dice.randrange(10)) for _ in range(count))

    with Watch(kit) as watch:
        for name in ("relay", "relay", "worker", "worker"):
            kit.start(name)
        wait_until(all_succeeded, 400, "all jobs succeed")

    assert watch.looks > 20
    assert 0 < watch.most_relayed <= HIGH_WATER
    assert watch.most_messages <= HIGH_WATER
    assert Job.objects.filter(run=1, attempts=1).count() == count
    assert worst_overtaking() <= HIGH_WATER + 4 * 2  # what is on its way when the last urgent one is taken


def worst_overtaking() -> int:
    """Return by how many less urgent jobs the most unlucky one was overtaken."""
    started = list(Job.objects.order_by("started_at", "id").values_list("priority", flat=True))
    left, worst = Counter(started), 0
    overtakers: Counter = Counter()
    for priority in started:
        left[priority] -= 1
        for higher in range(priority + 1, 10):
            if left[higher]:
                overtakers[higher] += 1
                worst = max(worst, overtakers[higher])
    return worst
