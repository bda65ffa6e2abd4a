"""Rate limits, caps and pauses."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tasks', '0003_schedule_state'),
    ]

    operations = [
        migrations.CreateModel(
            name='Limit',
            fields=[
                ('name', models.CharField(help_text="The rate limit's name; for a cap the kind's.", max_length=100, primary_key=True, serialize=False)),
                ('free_at', models.DateTimeField(blank=True, help_text='The next turn that nobody has taken.', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Pause',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('what', models.CharField(choices=[('queue', 'queue'), ('kind', 'kind')], max_length=5)),
                ('name', models.CharField(help_text='The queue or the kind.', max_length=100)),
                ('by', models.CharField(help_text='Who paused it.', max_length=200)),
                ('paused_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'verbose_name': 'pause',
                'verbose_name_plural': 'paused queues and kinds',
                'constraints': [models.UniqueConstraint(fields=('what', 'name'), name='pause_once'), models.CheckConstraint(condition=models.Q(('what__in', ['queue', 'kind'])), name='pause_what_known')],
            },
        ),
    ]
