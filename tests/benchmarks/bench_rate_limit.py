"""What a rate limit costs in time, and how near it comes to its rate. Run by `make bench`."""

from tasks.api import draft, enqueue_many
from tests.kit import wait_until
from tests.live.test_limits import RATE, fullest_window, starts

JOBS, WORKERS = 500, 4
ALLOWED = 1.15  # times what the rate alone would take


def test_rate_limit(kit, capsys):
    """Print how long the jobs took, and how many starts the fullest second saw."""
    kit.start("relay")
    for worker in [kit.start("worker", wait=False) for _ in range(WORKERS)]:
        worker.wait_for_line(" ready.")

    enqueue_many(draft("test.rated") for _ in range(JOBS))
    wait_until(lambda: len(starts()) == JOBS, 3 * JOBS / RATE)

    times = starts()
    took_s, ideal_s = times[-1] - times[0], JOBS / RATE
    with capsys.disabled():
        print(
            f"\nrate limit on {kit.rung}, {JOBS} jobs at {RATE}/s, {WORKERS} workers: {took_s:.1f} s "
            f"({took_s / ideal_s - 1:+.0%}), at most {fullest_window(times)} in a second"
        )
    assert took_s <= ALLOWED * ideal_s
