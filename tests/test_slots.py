"""When schedules fire: crontabs in time zones whose clocks change, intervals, single moments, starts and ends."""

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tasks.slots import Clocked, Crontab, Interval, Slots

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

EVERY_DAY = {"days": frozenset(range(1, 32)), "months": frozenset(range(1, 13)), "weekdays": frozenset(range(7))}
QUARTERS = frozenset({0, 15, 30, 45})
HOURS = frozenset(range(24))
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"]
MINUTE = timedelta(minutes=1)


def crontab(zone: str, minutes=frozenset({30}), hours=frozenset({2}), **fields) -> Crontab:
    """Return a crontab, 02:30 each day unless said otherwise."""
    is_every_hour = hours == HOURS
    return Crontab(minutes, hours, **EVERY_DAY | fields, is_every_hour=is_every_hour, zone=ZoneInfo(zone))


def utc(text: str) -> datetime:
    """Return a moment."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(zone: str, text: str) -> datetime:
    """Return a moment by a zone's clock."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def walked(rule, start: datetime, end: datetime) -> list[datetime]:
    """Return all slots after one time and before another, one after the other."""
    slots, found = Slots(rule), []
    while (start := slots.first_after(start)) and start < end:
        found.append(start)
    return found


def year(zone: str) -> tuple[datetime, datetime]:
    """Return the moments just before and at the end of 2026 by a zone's clock."""
    start, end = (local(zone, day).astimezone(UTC) for day in ("2026-01-01", "2027-01-01"))
    return start - timedelta(microseconds=1), end


# -- a whole year, both clock changes -----------------------------------------------------------


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("hour", [0, 1, 2, 3, 23])
def test_daily_crontab_fires_365_times_a_year_and_once_each_day(zone, hour):
    """Whatever the clock does at that hour."""
    slots = walked(crontab(zone, hours=frozenset({hour})), *year(zone))

    assert len(slots) == 365
    assert len({slot.astimezone(ZoneInfo(zone)).date() for slot in slots}) == 365


@pytest.mark.parametrize("zone", ZONES)
def test_crontab_of_every_quarter_never_waits_longer_or_shorter(zone):
    """A repeated hour has its quarters twice, a missing one has none."""
    slots = walked(crontab(zone, QUARTERS, HOURS), *year(zone))

    assert {later - earlier for earlier, later in zip(slots, slots[1:], strict=False)} == {15 * MINUTE}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("minutes, hours", [(QUARTERS, HOURS), (frozenset({30}), frozenset({1, 2, 3}))])
def test_steps_at_random_times_fire_each_slot_of_a_year_once(zone, minutes, hours):
    """A beat that looks often enough fires exactly the slots of the year, none twice, none skipped."""
    rule, (at, end), chance, fired = crontab(zone, minutes, hours), year(zone), random.Random(1), []
    anchor = at

    while (at := at + timedelta(seconds=chance.uniform(200, 890))) < end:
        if slot := Slots(rule).latest(anchor, at):
            fired.append(slot)
            anchor = slot

    assert fired == walked(rule, year(zone)[0], anchor + timedelta(microseconds=1))


# -- the days on which clocks change ------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "day", "minutes", "hours", "fires"),
    [
        # the clock jumps ahead: what is missing fires as much later, and only once
        ("Europe/Berlin", "2026-03-29", {30}, {2}, ["01:30"]),
        ("Europe/Berlin", "2026-03-29", {30}, {2, 3}, ["01:30"]),
        ("America/New_York", "2026-03-08", {30}, {2}, ["07:30"]),
        ("Africa/Cairo", "2026-04-24", {0}, {0}, ["22:00"]),
        ("America/Santiago", "2026-09-06", {0}, {0}, ["04:00"]),
        ("Australia/Lord_Howe", "2026-10-04", {10}, {2}, ["15:40"]),
        # the clock goes back: what is repeated fires the first time
        ("Europe/Berlin", "2026-10-25", {30}, {2}, ["00:30"]),
        ("America/New_York", "2026-11-01", {30}, {1}, ["05:30"]),
        ("Australia/Lord_Howe", "2026-04-05", {45}, {1}, ["14:45"]),
        ("America/Santiago", "2026-04-04", {30}, {23}, ["02:30"]),
    ],
)
def test_fixed_hour_fires_once_where_the_clock_changes(zone, day, minutes, hours, fires):
    """Times in UTC."""
    start = local(zone, day).astimezone(UTC) - timedelta(microseconds=1)

    slots = walked(crontab(zone, frozenset(minutes), frozenset(hours)), start, start + timedelta(hours=25))

    assert [f"{slot:%H:%M}" for slot in slots if slot.astimezone(ZoneInfo(zone)).date().isoformat() == day] == fires


def test_every_hour_fires_in_a_repeated_hour_twice():
    """Berlin, 25 October: 02:30 comes twice, an hour apart."""
    rule = crontab("Europe/Berlin", hours=HOURS)

    slots = walked(rule, utc("2026-10-24T23:00"), utc("2026-10-25T03:00"))

    assert slots == [utc(f"2026-10-2{moment}") for moment in ("4T23:30", "5T00:30", "5T01:30", "5T02:30")]


def test_day_that_a_zone_left_out_is_not_fired_for_twice():
    """Samoa had no 30 December 2011: its slot falls on that of the next day."""
    slots = walked(crontab("Pacific/Apia", hours=frozenset({12})), utc("2011-12-29T00:00"), utc("2012-01-02T00:00"))

    assert len(slots) == len(set(slots)) == 4


# -- catching up --------------------------------------------------------------------------------


def test_after_downtime_the_latest_missed_slot_alone_is_due():
    """Three nights missed are one slot, and then nothing more."""
    slots, now = Slots(crontab("UTC")), utc("2026-01-05T06:00")

    slot = slots.latest(utc("2026-01-01T02:30"), now)

    assert slot == utc("2026-01-05T02:30")
    assert slots.latest(slot, now) is None


def test_interval_keeps_its_beat_over_a_downtime():
    """Slots lie where they would have been."""
    slots = Slots(Interval(timedelta(hours=2)))

    slot = slots.latest(utc("2026-01-01T01:00"), utc("2026-01-01T10:30"))

    assert slot == utc("2026-01-01T09:00")
    assert slots.first_after(slot) == utc("2026-01-01T11:00")


def test_interval_measures_elapsed_time_over_a_clock_change():
    """24 hours stay 24 hours."""
    start = local("Europe/Berlin", "2026-03-28T12:00").astimezone(UTC)

    slots = walked(Interval(timedelta(hours=24)), start, start + timedelta(days=3))

    assert slots == [start + timedelta(hours=24), start + timedelta(hours=48)]


def test_clocked_moment_is_due_once():
    """Before it nothing, at it the moment, after it nothing."""
    at = utc("2026-01-01T12:00")
    slots = Slots(Clocked(at))

    assert slots.latest(at - MINUTE, at - timedelta(seconds=1)) is None
    assert slots.latest(at - MINUTE, at) == slots.latest(at - MINUTE, at + timedelta(days=400)) == at
    assert slots.latest(at, at + MINUTE) is None


# -- start and end ------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [crontab("UTC", frozenset({0}), HOURS), Interval(timedelta(hours=1))])
def test_first_slot_is_not_before_the_start(rule):
    """The start itself counts, if the rule fires then."""
    start = utc("2026-01-02T00:00")
    rule = Interval(rule.every, start) if isinstance(rule, Interval) else rule

    slots = Slots(rule, starts_at=start)

    assert slots.latest(utc("2026-01-01T00:00"), start - MINUTE) is None
    assert slots.first_after(utc("2026-01-01T00:00")) == slots.latest(utc("2026-01-01T00:00"), start) == start


def test_interval_with_a_start_in_the_past_keeps_to_it():
    """It does not fire at once, but at its next slot counted from the start."""
    slots = Slots(Interval(timedelta(hours=6), utc("2026-01-01T03:00")), starts_at=utc("2026-01-01T03:00"))

    assert slots.first_after(utc("2026-01-10T10:00")) == utc("2026-01-10T15:00")


@pytest.mark.parametrize("rule", [crontab("UTC"), Interval(timedelta(days=1), utc("2026-01-01T02:30"))])
def test_last_slot_is_not_after_the_end(rule):
    """The last one before it is still caught up."""
    slots = Slots(rule, ends_at=utc("2026-01-03T12:00"))

    slot = slots.latest(utc("2026-01-01T02:30"), utc("2026-02-01T00:00"))

    assert slot == utc("2026-01-03T02:30")
    assert slots.first_after(slot) is None


# -- rare and impossible ------------------------------------------------------------------------


def test_29_february_is_found_years_ahead():
    """Also across 2100, which is no leap year."""
    rule = crontab("UTC", days=frozenset({29}), months=frozenset({2}))

    assert Slots(rule).first_after(utc("2025-01-01T00:00")) == utc("2028-02-29T02:30")
    assert Slots(rule).first_after(utc("2096-03-01T00:00")) == utc("2104-02-29T02:30")


def test_day_of_month_and_day_of_week_must_both_match():
    """As in Celery, unlike cron: the next Friday the 13th."""
    rule = crontab("UTC", days=frozenset({13}), weekdays=frozenset({5}))

    assert Slots(rule).first_after(utc("2026-01-01T00:00")) == utc("2026-02-13T02:30")


@pytest.mark.parametrize(
    "slots",
    [
        Slots(crontab("UTC", days=frozenset({31}), months=frozenset({2}))),
        Slots(Interval(timedelta(days=999_999_999))),
        Slots(crontab("UTC"), starts_at=utc("9998-01-01T00:00")),
    ],
)
def test_slot_that_never_comes_is_none_and_no_error(slots):
    """A date that does not exist, and one beyond the calendar."""
    assert slots.first_after(utc("2026-01-01T00:00")) is None
    assert slots.latest(utc("2026-01-01T00:00"), utc("2027-01-01T00:00")) is None
