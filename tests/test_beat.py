"""One step of beat on the tables: slots become jobs once, edits count, and a broken schedule stops no other."""

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask

from tasks.firing import fire_due
from tasks.models import Job, ScheduleState

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def no_default_schedules():
    """Start without the kit's own schedules."""
    PeriodicTask.objects.all().delete()


def schedule(name: str = "Nightly", *, made: datetime = NOON, **fields) -> PeriodicTask:
    """Write a schedule that was made at a time, each hour on the hour unless said otherwise."""
    if not {"interval", "crontab", "clocked"} & fields.keys():
        fields["crontab"] = CrontabSchedule.objects.create(minute="0", timezone="UTC")
    defaults = {"task": "test.echo", "kwargs": '{"value": 1}'}
    [row] = PeriodicTask.objects.bulk_create([PeriodicTask(name=name, **defaults | fields)])
    PeriodicTask.objects.filter(id=row.id).update(date_changed=made)
    return row


def every(seconds: int) -> IntervalSchedule:
    """Write an interval."""
    return IntervalSchedule.objects.create(every=seconds, period="seconds")


def keys() -> list[str]:
    """Return the unique keys of all jobs, in the order of their making."""
    return list(Job.objects.order_by("id").values_list("unique_key", flat=True))


def stored(row: PeriodicTask) -> PeriodicTask:
    """Return a schedule as it stands in the database."""
    return PeriodicTask.objects.select_related("beat_state").get(id=row.id)


# -- a slot becomes a job -----------------------------------------------------------------------


def test_due_slot_becomes_a_job_and_is_counted():
    """The key is the name and the slot in UTC, the arguments are the schedule's."""
    row = schedule(made=NOON)

    fire_due(NOON + HOUR + timedelta(milliseconds=300))

    job = Job.objects.get()
    assert (job.kind, job.arguments, job.unique_key) == (
        "test.echo",
        {"value": 1},
        "Nightly @ 2026-01-05T13:00:00+00:00",
    )
    assert (stored(row).total_run_count, stored(row).last_run_at) == (1, NOON + HOUR)
    assert stored(row).beat_state.anchor == NOON + HOUR


def test_second_step_in_the_same_slot_fires_nothing():
    """Nor does another beat that has read the same rows."""
    schedule()
    fire_due(NOON + HOUR)

    fire_due(NOON + HOUR)
    fire_due(NOON + HOUR + MINUTE)

    assert len(keys()) == 1


def test_step_says_when_the_next_slot_comes():
    """Of all schedules the earliest."""
    schedule("hourly")
    schedule("minutely", interval=every(60))

    following = fire_due(NOON + MINUTE)

    assert following == NOON + 2 * MINUTE


def test_slot_whose_job_was_pruned_does_not_fire_again():
    """The anchor remembers, not the job."""
    schedule()
    fire_due(NOON + HOUR)
    Job.objects.all().delete()

    fire_due(NOON + HOUR + MINUTE)

    assert keys() == []


def test_slot_whose_state_was_lost_is_not_doubled():
    """The job's key remembers too, and the count stays right."""
    row = schedule()
    fire_due(NOON + HOUR)
    ScheduleState.objects.all().delete()
    PeriodicTask.objects.update(last_run_at=None)

    fire_due(NOON + HOUR + MINUTE)

    assert (len(keys()), stored(row).total_run_count) == (1, 1)


def test_renamed_schedule_does_not_fire_its_slot_again():
    """The anchor stays with the row."""
    row = schedule()
    fire_due(NOON + HOUR)
    PeriodicTask.objects.filter(id=row.id).update(name="Daily")

    fire_due(NOON + HOUR + MINUTE)

    assert len(keys()) == 1


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23),
        ("America/New_York", "2026-11-01", 25),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
    ],
)
def test_day_on_which_clocks_change_fires_each_slot_once(zone, day, hours):
    """Two beats step through it, a few minutes at a time; every kind of schedule has its right number of slots."""
    start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) - timedelta(seconds=1)
    end = start + hours * HOUR
    clocked = ClockedSchedule.objects.create(clocked_time=start + 10 * HOUR)
    for name, fields in {
        "quarters": {"crontab": CrontabSchedule.objects.create(minute="*/15", timezone=zone)},
        "half past two": {"crontab": CrontabSchedule.objects.create(minute="30", hour="2", timezone=zone)},
        "interval": {"interval": every(1800)},
        "clocked": {"clocked": clocked, "one_off": True},
        "one-off": {"crontab": CrontabSchedule.objects.create(minute="0", hour="12", timezone=zone), "one_off": True},
    }.items():
        schedule(name, made=start, **fields)
    pauses, at = random.Random(1), start

    while at < end:
        at = min(end, at + timedelta(seconds=pauses.uniform(600, 890)))
        fire_due(at)
        fire_due(at)

    names = Counter(key.partition(" @ ")[0] for key in keys())
    expected = {"quarters": hours * 4, "half past two": 1, "interval": hours * 2, "clocked": 1, "one-off": 1}
    assert (names, len(set(keys()))) == (expected, len(keys()))
    assert dict(PeriodicTask.objects.values_list("name", "total_run_count")) == expected


# -- downtime -----------------------------------------------------------------------------------


def test_schedule_catches_up_once_after_downtime():
    """Three days away: the latest slot fires, not seventy."""
    row = schedule()
    fire_due(NOON + HOUR)

    fire_due(NOON + 3 * DAY + MINUTE)
    fire_due(NOON + 3 * DAY + 2 * MINUTE)

    assert keys()[1:] == ["Nightly @ 2026-01-08T12:00:00+00:00"]
    assert stored(row).total_run_count == 2


def test_nightly_job_missed_by_beat_fires_when_beat_is_back():
    """02:30, beat away from 02 to 06: once, at 06, and the next night as ever."""
    crontab = CrontabSchedule.objects.create(hour="2", minute="30", timezone="Europe/Berlin")
    schedule(crontab=crontab)
    fire_due(datetime(2026, 1, 6, 1, 0, tzinfo=UTC))

    following = fire_due(datetime(2026, 1, 6, 5, 0, tzinfo=UTC))

    assert keys() == ["Nightly @ 2026-01-06T01:30:00+00:00"]
    assert following == datetime(2026, 1, 7, 1, 30, tzinfo=UTC)


def test_schedule_that_expires_soon_leaves_missed_slots_out():
    """expire_seconds says how late a slot may fire; what is left out is not counted."""
    row = schedule(expire_seconds=60)
    fire_due(NOON)

    fire_due(NOON + 3 * HOUR + 2 * MINUTE)
    fire_due(NOON + 4 * HOUR + timedelta(seconds=50))

    assert keys() == ["Nightly @ 2026-01-05T16:00:00+00:00"]
    assert stored(row).total_run_count == 1


def test_schedule_made_while_no_beat_ran_catches_up_from_then():
    """Made at noon, first seen at three."""
    schedule(made=NOON)

    fire_due(NOON + 3 * HOUR + MINUTE)

    assert keys() == ["Nightly @ 2026-01-05T15:00:00+00:00"]


# -- one-offs -----------------------------------------------------------------------------------


def test_clocked_schedule_fires_once_and_is_switched_off():
    """Also when its moment passed while no beat ran."""
    row = schedule(clocked=ClockedSchedule.objects.create(clocked_time=NOON + MINUTE), one_off=True)

    fire_due(NOON + DAY)
    fire_due(NOON + 2 * DAY)

    assert keys() == ["Nightly @ 2026-01-05T12:01:00+00:00"]
    assert (stored(row).enabled, stored(row).total_run_count) == (False, 1)


def test_one_off_that_is_enabled_again_fires_again_at_its_next_slot():
    """Stock switches it off at once, without running it."""
    row = schedule(one_off=True)
    fire_due(NOON + HOUR)
    fire_due(NOON + HOUR + MINUTE)
    PeriodicTask.objects.filter(id=row.id).update(enabled=True)

    fire_due(NOON + HOUR + 2 * MINUTE)
    fire_due(NOON + 2 * HOUR)

    assert len(keys()) == 2


# -- edits --------------------------------------------------------------------------------------


def test_schedule_enabled_again_by_an_update_does_not_fire_backwards():
    """Paused for three days: the next hour fires, not the last."""
    row = schedule()
    fire_due(NOON)
    PeriodicTask.objects.filter(id=row.id).update(enabled=False)
    fire_due(NOON + MINUTE)
    PeriodicTask.objects.filter(id=row.id).update(enabled=True)

    fire_due(NOON + 3 * DAY + 5 * MINUTE)
    assert keys() == []
    fire_due(NOON + 3 * DAY + HOUR)

    assert keys() == ["Nightly @ 2026-01-08T13:00:00+00:00"]


def test_disabled_schedule_does_not_fire():
    """By an update that sends no signal."""
    schedule()
    fire_due(NOON)
    PeriodicTask.objects.update(enabled=False)

    fire_due(NOON + HOUR)

    assert keys() == []


def test_crontab_edited_to_an_hour_already_past_waits_for_tomorrow():
    """The edit is seen at the next step."""
    crontab = CrontabSchedule.objects.create(hour="20", minute="0", timezone="UTC")
    schedule(crontab=crontab)
    fire_due(NOON)
    CrontabSchedule.objects.filter(id=crontab.id).update(hour="11")

    following = fire_due(NOON + timedelta(seconds=1))

    assert (keys(), following) == ([], datetime(2026, 1, 6, 11, 0, tzinfo=UTC))


def test_edited_time_zone_counts_at_the_next_step():
    """Noon in Berlin is 11 in UTC."""
    crontab = CrontabSchedule.objects.create(hour="13", minute="0", timezone="UTC")
    schedule(crontab=crontab)
    fire_due(NOON)
    CrontabSchedule.objects.filter(id=crontab.id).update(timezone="America/New_York")

    following = fire_due(NOON + timedelta(seconds=1))

    assert following == NOON + 6 * HOUR


def test_shortened_expiry_counts_at_the_next_step():
    """By an update that sends no signal."""
    schedule(expires=NOON + 30 * DAY)
    fire_due(NOON + HOUR)
    PeriodicTask.objects.update(expires=NOON + 90 * MINUTE)

    fire_due(NOON + 2 * HOUR)

    assert keys() == ["Nightly @ 2026-01-05T13:00:00+00:00"]


def test_schedule_prolonged_after_its_end_does_not_fire_backwards():
    """Ended three days ago: the next hour fires, not the last."""
    schedule(expires=NOON + 90 * MINUTE)
    fire_due(NOON + HOUR)
    fire_due(NOON + 2 * HOUR)
    PeriodicTask.objects.update(expires=NOON + 30 * DAY)

    fire_due(NOON + 3 * DAY + 5 * MINUTE)
    fire_due(NOON + 3 * DAY + HOUR)

    assert keys() == ["Nightly @ 2026-01-05T13:00:00+00:00", "Nightly @ 2026-01-08T13:00:00+00:00"]


def test_slot_that_an_edit_asks_for_within_the_moment_before_it_is_seen_fires():
    """Saved at noon for a second later, seen two seconds later."""
    clocked = ClockedSchedule.objects.create(clocked_time=NOON + DAY)
    row = schedule(clocked=clocked, one_off=True, made=NOON - DAY)
    fire_due(NOON)
    ClockedSchedule.objects.filter(id=clocked.id).update(clocked_time=NOON + timedelta(seconds=1))
    PeriodicTask.objects.filter(id=row.id).update(date_changed=NOON)

    fire_due(NOON + timedelta(seconds=2))

    assert len(keys()) == 1


def test_edited_arguments_are_those_of_the_next_job():
    """Nothing is remembered from earlier steps."""
    schedule()
    fire_due(NOON)
    PeriodicTask.objects.update(kwargs='{"value": 2}')

    fire_due(NOON + HOUR)

    assert Job.objects.get().arguments == {"value": 2}


def test_start_in_the_past_does_not_make_a_new_schedule_fire_at_once():
    """A new daily schedule whose start lies months back waits for its hour."""
    crontab = CrontabSchedule.objects.create(hour="20", minute="0", timezone="UTC")
    schedule(crontab=crontab, start_time=NOON - 90 * DAY)

    following = fire_due(NOON + MINUTE)

    assert (keys(), following) == ([], NOON + 8 * HOUR)


def test_clock_that_was_ahead_does_not_silence_a_schedule():
    """An anchor in the future is brought back."""
    row = schedule()
    fire_due(NOON)
    ScheduleState.objects.update(anchor=NOON + 365 * DAY)

    fire_due(NOON + MINUTE)
    fire_due(NOON + HOUR)

    assert stored(row).total_run_count == 1


# -- broken schedules ---------------------------------------------------------------------------


def impossible_crontab(**fields) -> dict:
    """Return a schedule's fields with a crontab that no form would take."""
    [crontab] = CrontabSchedule.objects.bulk_create([CrontabSchedule(**{"timezone": "UTC"} | fields)])
    return {"crontab": crontab}


BROKEN = {
    "no such task": (lambda: {"task": "no.such"}, "No task is registered as 'no.such'"),
    "args object": (lambda: {"args": '{"a": 1}'}, "they must be a list"),
    "args text": (lambda: {"args": "abc"}, "are not JSON"),
    "args deep": (lambda: {"args": "[" * 100_000}, "are not JSON"),
    "kwargs list": (lambda: {"kwargs": "[1]"}, "they must be an object"),
    "missing argument": (lambda: {"kwargs": "{}"}, "does not take these arguments"),
    "reserved argument": (lambda: {"kwargs": '{"unique_key": "x"}'}, "which enqueue keeps for itself"),
    "31 February": (lambda: impossible_crontab(day_of_month="31", month_of_year="2"), "crontab is impossible"),
    "minute 60": (lambda: impossible_crontab(minute="60"), "crontab is impossible"),
    "empty minute": (lambda: impossible_crontab(minute=","), "crontab is impossible"),
    "interval 0": (lambda: {"interval": every(0)}, "shortest is one second"),
    "huge interval": (
        lambda: {"interval": IntervalSchedule.objects.create(every=2**31 - 1, period="days")},
        "no interval",
    ),
    "unknown period": (
        lambda: {"interval": IntervalSchedule.objects.create(every=1, period="fortnights")},
        "no interval",
    ),
    "no schedule": (lambda: {"crontab": None}, "Choose exactly one"),
    "two schedules": (lambda: {"interval": every(5), **impossible_crontab()}, "Choose exactly one"),
    "long name": (lambda: {"name": "n" * 200}, "160 is the limit"),
    "queue": (lambda: {"queue": "elsewhere"}, "Leave queue empty"),
    "headers": (lambda: {"headers": "[1]"}, "Leave headers empty"),
    "short expiry": (lambda: {"expire_seconds": 1}, "may be 10 s late"),
    "ended": (lambda: {"expires": NOON - DAY}, "It has ended"),
    "clocked in the past": (lambda: {"clocked": ClockedSchedule.objects.create(clocked_time=NOON - DAY)}, "has passed"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_schedule_is_noted_in_words_and_stops_no_other(what):
    """One that is read before it and one after it fire as ever."""
    fields, words = BROKEN[what]
    schedule("before")
    broken = schedule(**{"name": "broken"} | fields())
    schedule("zafter")

    fire_due(NOON + HOUR)

    assert keys() == [f"{name} @ 2026-01-05T13:00:00+00:00" for name in ("before", "zafter")]
    assert words in stored(broken).beat_state.error


def test_time_zone_that_this_machine_does_not_know_stops_no_other():
    """Only SQL can write one, or a host with newer zones."""
    crontab = CrontabSchedule.objects.create(minute="0", timezone="UTC")
    schedule("broken", crontab=crontab)
    schedule("good")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_celery_beat_crontabschedule SET timezone = 'Mars/Base' WHERE id = %s", [crontab.id]
        )

    fire_due(NOON + HOUR)

    assert keys() == ["good @ 2026-01-05T13:00:00+00:00"]
    assert "'Mars/Base'" in ScheduleState.objects.get(schedule__name="broken").error


def test_repaired_schedule_loses_its_error_and_catches_up_once():
    """Its slot waited for it."""
    row = schedule(kwargs="{}")
    fire_due(NOON + HOUR)
    PeriodicTask.objects.update(kwargs=json.dumps({"value": 3}))

    fire_due(NOON + 2 * HOUR + MINUTE)
    fire_due(NOON + 2 * HOUR + 2 * MINUTE)

    assert keys() == ["Nightly @ 2026-01-05T14:00:00+00:00"]
    assert stored(row).beat_state.error == ""


@pytest.mark.parametrize("day_of_week", ["7", "5-7", "0,3"])
def test_sunday_may_be_called_7(day_of_week):
    """As the form's help says; 4 January 2026 is a Sunday."""
    crontab = CrontabSchedule.objects.create(minute="0", hour="0", day_of_week=day_of_week, timezone="UTC")
    schedule(crontab=crontab, made=NOON - 2 * DAY)

    fire_due(NOON - 12 * HOUR - MINUTE)

    assert keys() == ["Nightly @ 2026-01-04T00:00:00+00:00"]
