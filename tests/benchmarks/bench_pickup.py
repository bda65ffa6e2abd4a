"""How long an idle system takes from the commit to the claim. Run by `make bench`."""

import time
from statistics import quantiles

from django.db.models import F

from tasks.api import enqueue
from tasks.models import Job
from tasks.states import State
from tests.kit import wait_until

JOBS, PER_SECOND = 300, 20


def test_idle_pickup(kit, capsys):
    """Print median and 99th percentile of started_at - enqueued_at, both by the database's clock."""
    kit.start("relay").wait_for_line("relay started")
    kit.start("worker")
    started = time.monotonic()

    for number in range(JOBS):
        time.sleep(max(0.0, started + number / PER_SECOND - time.monotonic()))  # a steady stream is what is measured
        enqueue("test.noop")
    wait_until(lambda: not Job.objects.exclude(state=State.SUCCEEDED).exists(), 30)

    waits = Job.objects.annotate(wait=F("started_at") - F("enqueued_at")).values_list("wait", flat=True)
    cuts = quantiles([wait.total_seconds() * 1000 for wait in waits], n=100)
    with capsys.disabled():
        print(
            f"\nidle pick-up on {kit.rung}, {JOBS} jobs at {PER_SECOND}/s: p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms"
        )
