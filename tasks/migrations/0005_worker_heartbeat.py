"""A worker's sign of life, and what its code can run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks", "0004_limits_and_pauses")]

    operations = [
        migrations.CreateModel(
            name="WorkerHeartbeat",
            fields=[
                (
                    "who",
                    models.CharField(
                        help_text="As in Job.worker: host:pid:start.",
                        max_length=120,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("started_at", models.DateTimeField(help_text="Its first sign of life.")),
                ("seen_at", models.DateTimeField(help_text="The last one; every 10 s, kept for a day.")),
                ("queues", models.JSONField(help_text="The broker's queues that it takes jobs from.")),
                ("kinds", models.JSONField(help_text="By name of each kind: its payload version and its parameters.")),
            ],
        ),
    ]
