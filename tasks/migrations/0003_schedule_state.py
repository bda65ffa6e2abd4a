"""What beat keeps beside the schedules of django-celery-beat, and its sign of life."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_celery_beat", "0019_alter_periodictasks_options"),
        ("tasks", "0002_default_schedules"),
    ]

    operations = [
        migrations.CreateModel(
            name="BeatHeartbeat",
            fields=[
                ("who", models.CharField(help_text="host:pid", max_length=120, primary_key=True, serialize=False)),
                ("is_firing", models.BooleanField(help_text="It holds the lock; otherwise it stands by.")),
                ("seen_at", models.DateTimeField(help_text="The last step it got through.")),
            ],
        ),
        migrations.CreateModel(
            name="ScheduleState",
            fields=[
                (
                    "schedule",
                    models.OneToOneField(
                        help_text="The schedule, as edited in admin.",
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="beat_state",
                        serialize=False,
                        to="django_celery_beat.periodictask",
                    ),
                ),
                (
                    "fingerprint",
                    models.CharField(help_text="Of what decides when it fires; changed by an edit.", max_length=64),
                ),
                ("anchor", models.DateTimeField(help_text="The last slot handled; the next one comes after it.")),
                (
                    "error",
                    models.TextField(blank=True, default="", help_text="Why it cannot fire; empty while it can."),
                ),
            ],
        ),
    ]
