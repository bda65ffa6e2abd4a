"""Schedules in Django admin: what the forms refuse and say, what the list shows, what its actions do."""

from datetime import UTC, timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.messages import get_messages
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask

from tasks.admin_schedules import ahead
from tasks.firing import fire_due
from tasks.models import BeatHeartbeat, Job, ScheduleState
from tasks.schedules import schedules

pytestmark = pytest.mark.django_db

LIST = "/admin/django_celery_beat/periodictask/"
CRONTABS = "/admin/django_celery_beat/crontabschedule/"
INTERVALS = "/admin/django_celery_beat/intervalschedule/"
EMPTY = ["description", "crontab", "interval", "clocked", "expire_seconds", "queue", "exchange", "routing_key"]
EMPTY += ["priority", "headers", *(f"{name}_{part}" for name in ("start_time", "expires") for part in (0, 1))]


@pytest.fixture
def boss(client):
    """A client whose user may do everything."""
    PeriodicTask.objects.all().delete()
    client.force_login(get_user_model().objects.create_superuser(email="boss@example.com", password="x" * 12))
    return client


def crontab(**fields) -> CrontabSchedule:
    """Write a crontab, each hour on the hour unless said otherwise."""
    return CrontabSchedule.objects.create(**{"minute": "0", "timezone": "UTC"} | fields)


def schedule(name: str = "Hourly", **fields) -> PeriodicTask:
    """Write a schedule."""
    fields = {"crontab": crontab(), "task": "test.echo", "kwargs": '{"value": 1}'} | fields
    return PeriodicTask.objects.create(name=name, **fields)


def save(client, address: str = f"{LIST}add/", **fields):
    """Send the form of a good schedule with the given fields changed."""
    data = dict.fromkeys(EMPTY, "") | {"name": "New", "task": "test.echo", "enabled": "on", "args": "[]"}
    data |= {"kwargs": '{"value": 1}', "crontab": crontab().pk} | fields
    return client.post(address, {name: value for name, value in data.items() if value is not None})


def errors(response) -> str:
    """Return all that a form refuses."""
    assert response.status_code == 200, response
    return str(response.context["adminform"].form.errors)


def messages(response) -> list[str]:
    """Return what the next page will tell."""
    return [str(message) for message in get_messages(response.wsgi_request)]


# -- the schedule's form ------------------------------------------------------------------------


def test_good_schedule_is_saved(boss):
    """And beat takes it up at its next step."""
    response = save(boss)

    assert response.status_code == 302
    fire_due(timezone.now())
    assert ScheduleState.objects.get(schedule__name="New").error == ""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"task": "no.such"}, "not one of the available choices"),
        ({"args": '{"a": 1}'}, "must be a list"),
        ({"args": "abc"}, "JSON"),
        ({"kwargs": "[1]"}, "must be an object"),
        ({"kwargs": "{}"}, "does not take these arguments"),
        ({"crontab": ""}, "must be set"),
        ({"queue": "elsewhere"}, "Leave queue empty"),
        ({"headers": "[1]"}, "Leave headers empty"),
        ({"priority": "3"}, "Leave priority empty"),
        ({"expire_seconds": "3"}, "may be 10 s late"),
        ({"name": "n" * 180}, "160 is the limit"),
        ({"expires_0": "2020-01-01", "expires_1": "00:00:00"}, "It has ended"),
    ],
)
def test_schedule_that_could_not_fire_is_refused_in_words(boss, fields, words):
    """Nothing is saved."""
    response = save(boss, **fields)

    assert words in errors(response).replace("&#x27;", "'")
    assert not PeriodicTask.objects.exists()


def test_clocked_schedule_needs_no_tick_at_one_off(boss):
    """It has one moment only."""
    clocked = ClockedSchedule.objects.create(clocked_time=timezone.now() + timedelta(days=1))

    response = save(boss, crontab="", clocked=clocked.pk)

    assert response.status_code == 302
    assert PeriodicTask.objects.get().one_off is True


def test_clocked_schedule_of_the_past_is_refused(boss):
    """It would never fire."""
    clocked = ClockedSchedule.objects.create(clocked_time=timezone.now() - timedelta(days=1))

    response = save(boss, crontab="", clocked=clocked.pk)

    assert "has passed" in errors(response)


def test_two_schedules_in_one_are_refused(boss):
    """Which of them would count?"""
    interval = IntervalSchedule.objects.create(every=5, period="minutes")

    response = save(boss, interval=interval.pk)

    assert "Only one of" in errors(response)


def test_disabled_schedule_may_be_saved_after_its_end(boss):
    """It asks for no slot."""
    response = save(boss, enabled=None, expires_0="2020-01-01", expires_1="00:00:00")

    assert response.status_code == 302


def test_form_shows_the_next_slots_and_runs_no_script_of_its_own(boss):
    """A page without inline script works under a strict policy."""
    row = schedule()

    page = boss.get(f"{LIST}{row.pk}/change/").content.decode()

    assert page.count("(in ") == 5
    assert "periodic-task-overrides" not in page


def test_slots_shown_are_those_that_fire():
    """Nine in Moscow is six in UTC, in the list as in beat."""
    PeriodicTask.objects.all().delete()
    schedule(crontab=crontab(hour="9", timezone="Europe/Moscow"))

    following = fire_due(timezone.now())

    shown = ahead(schedules().get(name="Hourly"), timezone.now())
    assert shown[0] == following
    assert {slot.astimezone(UTC).hour for slot in shown} == {6} and len(shown) == 5


# -- the forms of crontabs and intervals --------------------------------------------------------


@pytest.mark.parametrize("fields", [{"day_of_month": "31", "month_of_year": "2"}, {"minute": "60"}, {"hour": "x"}])
def test_impossible_crontab_is_refused(boss, fields):
    """Stock takes 31 February."""
    good = {"minute": "0", "hour": "*", "day_of_month": "*", "month_of_year": "*", "day_of_week": "*"}
    good |= {"timezone": "UTC", "periodictask_set-TOTAL_FORMS": 0, "periodictask_set-INITIAL_FORMS": 0}
    before = CrontabSchedule.objects.count()

    response = boss.post(f"{CRONTABS}add/", good | fields)

    assert errors(response)
    assert CrontabSchedule.objects.count() == before


@pytest.mark.parametrize(
    ("every", "period", "status"), [(10, "microseconds", 200), (0, "seconds", 200), (1, "hours", 302)]
)
def test_interval_under_a_second_is_refused(boss, every, period, status):
    """It would fire without end."""
    inline = {"periodictask_set-TOTAL_FORMS": 0, "periodictask_set-INITIAL_FORMS": 0}

    response = boss.post(f"{INTERVALS}add/", {"every": every, "period": period, **inline})

    assert response.status_code == status


# -- the list -----------------------------------------------------------------------------------


def test_list_shows_what_is_broken_and_why(boss):
    """As beat has found it."""
    schedule(task="no.such")
    fire_due(timezone.now())

    page = boss.get(LIST).content.decode()

    assert "No task is registered as &#x27;no.such&#x27;" in page


def test_unknown_time_zone_breaks_neither_the_list_nor_a_form(boss):
    """Both say so."""
    row = schedule()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE django_celery_beat_crontabschedule SET timezone = 'Mars/Base' WHERE id = %s", [row.crontab_id]
        )

    pages = [boss.get(address) for address in (LIST, f"{LIST}{row.pk}/change/", f"{LIST}add/")]

    assert [page.status_code for page in pages] == [200, 200, 200]
    assert all("Mars/Base" in page.content.decode() for page in pages)


@pytest.mark.parametrize(
    ("silent_s", "is_firing", "warns"), [(None, True, True), (0, True, False), (21, True, True), (0, False, True)]
)
def test_list_warns_while_no_beat_fires(boss, silent_s, is_firing, warns):
    """None was ever there, one does, one has hung for 21 s, one only stands by."""
    if silent_s is not None:
        seen_at = timezone.now() - timedelta(seconds=silent_s)
        BeatHeartbeat.objects.create(who="host:1", is_firing=is_firing, seen_at=seen_at)

    page = boss.get(LIST).content.decode()

    assert ("No beat is firing" in page) is warns


def test_list_asks_the_database_as_often_for_twenty_schedules_as_for_one(boss):
    """One query for all rows."""
    schedule("0")
    with CaptureQueriesContext(
        connection,
    ) as few:
        boss.get(LIST)
    for number in range(1, 20):
        schedule(str(number))

    with CaptureQueriesContext(connection) as many:
        boss.get(LIST)

    assert len(many) == len(few), many.captured_queries[-1]


# -- actions ------------------------------------------------------------------------------------


def test_run_now_writes_a_job_and_leaves_the_slots_alone(boss):
    """Stock would speak to the broker."""
    row = schedule()
    fire_due(timezone.now())
    anchor = ScheduleState.objects.get().anchor

    response = boss.post(LIST, {"action": "run_tasks", "_selected_action": [row.pk]})

    job = Job.objects.get()
    assert messages(response) == [f"Hourly: job {job.id} is waiting."]
    assert (job.arguments, job.unique_key, ScheduleState.objects.get().anchor) == ({"value": 1}, None, anchor)


def test_run_now_of_a_broken_schedule_says_why_not(boss):
    """And runs the others."""
    rows = [schedule("bad", task="no.such"), schedule("good")]

    response = boss.post(LIST, {"action": "run_tasks", "_selected_action": [row.pk for row in rows]})

    bad, good = messages(response)
    assert bad.startswith("bad: No task is registered as 'no.such'") and good.startswith("good: job ")


def test_enable_action_does_not_fire_backwards(boss):
    """Enabled after a pause, it waits for its next slot."""
    row = schedule(interval=IntervalSchedule.objects.create(every=1, period="hours"), crontab=None, enabled=False)
    PeriodicTask.objects.update(date_changed=timezone.now() - timedelta(days=3))
    fire_due(timezone.now())

    boss.post(LIST, {"action": "enable_tasks", "_selected_action": [row.pk]})
    fire_due(timezone.now())

    assert PeriodicTask.objects.get().enabled
    assert not Job.objects.exists()
