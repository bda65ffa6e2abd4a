"""Make the default schedules once. One that a person deleted or edited stays as they left it."""

from django.db import migrations


def make_default_schedules(apps, schema_editor):
    """Prune finished jobs every hour."""
    crontab, _ = apps.get_model("django_celery_beat", "CrontabSchedule").objects.get_or_create(
        minute="17", hour="*", day_of_week="*", day_of_month="*", month_of_year="*", timezone="UTC"
    )
    apps.get_model("django_celery_beat", "PeriodicTask").objects.get_or_create(
        name="Prune finished jobs", defaults={"task": "jobs.prune", "crontab": crontab}
    )


class Migration(migrations.Migration):
    dependencies = [
        ("tasks", "0001_initial"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]
    operations = [migrations.RunPython(make_default_schedules, migrations.RunPython.noop)]
