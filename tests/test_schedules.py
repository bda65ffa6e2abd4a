"""The default schedules, and that the migrations are the models."""

from importlib import import_module

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from tasks import registry

pytestmark = pytest.mark.django_db
PRUNE = "Prune finished jobs"


def make_default_schedules() -> None:
    """Do what the migration does."""
    import_module("tasks.migrations.0002_default_schedules").make_default_schedules(apps, connection.schema_editor())


@pytest.fixture
def schedule() -> PeriodicTask:
    """Give the schedule as a fresh database has it."""
    PeriodicTask.objects.all().delete()
    make_default_schedules()
    return PeriodicTask.objects.get()


def test_fresh_database_prunes_every_hour(schedule):
    """By the kit's own job, which has to exist under that name."""
    assert (schedule.name, schedule.task, schedule.enabled) == (PRUNE, "jobs.prune", True)
    assert (schedule.crontab.hour, schedule.crontab.minute) == ("*", "17")
    assert registry.find(schedule.task)


def test_default_schedule_is_made_once(schedule):
    """A second run of the migration finds it."""
    make_default_schedules()

    assert PeriodicTask.objects.get() == schedule
    assert CrontabSchedule.objects.filter(minute="17", hour="*").count() == 1


def test_edited_schedule_is_not_overwritten(schedule):
    """A person's choice stays, whatever migrates afterwards."""
    nightly = CrontabSchedule.objects.create(minute="5", hour="3")
    PeriodicTask.objects.update(crontab=nightly, enabled=False, task="test.echo_default")

    make_default_schedules()
    call_command("migrate", verbosity=0)

    kept = PeriodicTask.objects.get()
    assert (kept.crontab, kept.enabled, kept.task) == (nightly, False, "test.echo_default")


def test_deleted_schedule_does_not_come_back(schedule):
    """Every deploy and every start of the demo migrates."""
    schedule.delete()

    call_command("migrate", verbosity=0)

    assert not PeriodicTask.objects.exists()


def test_models_and_migrations_agree(capsys):
    """Otherwise the next makemigrations would surprise somebody."""
    call_command("makemigrations", check_changes=True, dry_run=True)

    assert "No changes detected" in capsys.readouterr().out
