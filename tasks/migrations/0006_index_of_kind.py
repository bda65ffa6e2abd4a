"""Find the next due jobs of one kind."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tasks', '0005_worker_heartbeat'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('kind'), models.OrderBy(models.F('priority'), descending=True), models.F('run_at'), models.F('id'), condition=models.Q(('state', 'waiting')), name='job_due_of_kind'),
        ),
    ]
