"""Have PostgreSQL clean the job table up after a fiftieth of it has changed, not after a fifth: jobs come and go."""

from django.db import migrations

OFTEN = """
ALTER TABLE tasks_job SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0.05, fillfactor = 70
)
"""
AS_USUAL = """
ALTER TABLE tasks_job RESET (
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_analyze_scale_factor, fillfactor
)
"""


def run(sql):
    """Return a step that is taken on PostgreSQL only; SQLite has no such thing."""

    def step(apps, schema_editor):
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(sql)

    return step


class Migration(migrations.Migration):

    dependencies = [
        ('tasks', '0006_index_of_kind'),
    ]

    safe_for_old_code = "a storage parameter: it changes no row and locks nobody out"

    operations = [
        migrations.RunPython(run(OFTEN), run(AS_USUAL)),
    ]
