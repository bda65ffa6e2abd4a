"""What a person waits for the answer to a signup, with Redis and without. Run by `make bench`."""

import pytest

from tests.load import p50_and_p95_ms, sign_up_many
from tests.services import free_port

SIGNUPS = 500


@pytest.mark.rung("postgresql+redis")
def test_answer_with_and_without_redis(kit, smtp, capsys):
    """Print the table; relays and workers run in both halves, with Redis in turn there and away."""
    kit.extra_env |= smtp.env
    port = free_port()
    kit.start("web", port=port)
    for name in ("relay", "worker"):
        kit.start(name)
    sign_up_many(port, range(50))  # warm
    answers = {"with Redis": [], "without Redis": []}

    for turn in range(4):
        name = list(answers)[turn % 2]
        if name == "without Redis":
            kit.redis.stop()
        first = 1000 * (turn + 1)
        answers[name] += sign_up_many(port, range(first, first + SIGNUPS))
        if name == "without Redis":
            kit.redis.start()

    with capsys.disabled():
        print(f"\nsignup over HTTP, 8 at once, {SIGNUPS} twice each\n{'':14}{'p50 ms':>10}{'p95 ms':>10}")
        for name, found in answers.items():
            p50, p95 = p50_and_p95_ms(found)
            print(f"{name:14}{p50:>10.1f}{p95:>10.1f}")
            assert {answer.status for answer in found} == {202}
