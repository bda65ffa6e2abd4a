"""What the kit does with rows that were restored from a backup of some time ago."""

from datetime import UTC, datetime, timedelta

import pytest
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from tasks.firing import fire_due
from tasks.models import Job, ScheduleState

pytestmark = pytest.mark.django_db

BACKUP_AT = datetime(2026, 10, 1, 2, 15, tzinfo=UTC)
MONTH = timedelta(days=30)


def test_schedules_of_an_old_backup_fire_once_and_go_on():
    """A month of slots of each second, minute and day were missed: each schedule catches up with one."""
    PeriodicTask.objects.all().delete()
    for period in ("seconds", "minutes", "days"):
        every = IntervalSchedule.objects.create(every=1, period=period)
        PeriodicTask.objects.create(name=period, task="test.echo", kwargs='{"value": 1}', interval=every)
    fire_due(BACKUP_AT)  # the last step before the backup
    assert ScheduleState.objects.count() == 3
    before = Job.objects.count()

    fire_due(BACKUP_AT + MONTH)
    caught_up = Job.objects.count() - before
    fire_due(BACKUP_AT + MONTH)

    assert caught_up == 3
    assert Job.objects.count() - before == 3
