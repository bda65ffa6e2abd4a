"""The turns of a rate limit keep every window, whenever within its bounds a job starts."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tasks.turns import LATE_S, RateLimit

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def turns(limit: RateLimit, count: int) -> list[datetime]:
    """Return the turns that are taken when somebody always wants one."""
    taken, free_at = [], None
    for _ in range(count):
        taken.append(limit.turn(free_at, NOW))
        free_at = taken[-1] + limit.spacing
    return taken


@pytest.mark.parametrize(("calls", "per_s"), [(1, 1), (10, 1), (10, 60), (500, 1), (3, 0.5), (100, 3600)])
def test_no_window_sees_more_starts_than_allowed_however_late_each_start_is(calls, per_s):
    """The first of `calls` + 1 starts as late as may be, the last one in time: still more than a window apart."""
    taken = turns(RateLimit("x", calls, per_s), 3 * calls + 1)

    shortest = min(last - first for first, last in zip(taken, taken[calls:], strict=False))

    assert shortest - timedelta(seconds=LATE_S) > timedelta(seconds=per_s)


def test_turns_cost_less_than_a_tenth_of_the_rate():
    """Ten a second: 500 turns take less than 55 s."""
    taken = turns(RateLimit("x", 10), 500)

    assert taken[-1] - taken[0] < timedelta(seconds=55)
    assert len({later - earlier for earlier, later in pairwise(taken)}) == 1


def test_turns_that_nobody_took_are_gone():
    """After an hour of silence the next two are as far apart as ever."""
    limit = RateLimit("x", 10)

    first = limit.turn(NOW - timedelta(hours=1), NOW)

    assert NOW - first < timedelta(seconds=LATE_S)
    assert limit.turn(first + limit.spacing, NOW) == first + limit.spacing


@pytest.mark.parametrize(("free_in_s", "count"), [(-60, 4), (0, 4), (0.2, 2), (0.5, 0)])
def test_turns_that_come_soon_are_counted(free_in_s, count):
    limit = RateLimit("x", 10)

    assert limit.turns_until(NOW + timedelta(seconds=0.4), NOW + timedelta(seconds=free_in_s), NOW) == count


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "", "calls": 1}, "1 to 100 characters"),
        ({"name": "x", "calls": 0}, "calls is 0"),
        ({"name": "x", "calls": 1.5}, "calls is 1.5"),
        ({"name": "x", "calls": True}, "calls is True"),
        ({"name": "x", "calls": 1, "per_s": 0}, "per_s is 0"),
        ({"name": "x", "calls": 1, "per_s": float("inf")}, "per_s is inf"),
    ],
)
def test_nonsense_is_refused_in_words(options, says):
    with pytest.raises(ValueError, match=says):
        RateLimit(**options)
