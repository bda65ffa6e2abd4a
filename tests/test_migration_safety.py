"""Which operations a release's migrations may hold while the code of the release before still runs."""

import pytest
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import connection, migrations, models
from django.db.migrations.state import ModelState, ProjectState

from project.ops import migration_safety

TEXT = models.CharField(max_length=20)


def faults(*operations, **attributes) -> list[str]:
    """Return what is said of a migration of an app that has one model, `Thing`."""
    state = ProjectState()
    fields = [("id", models.BigAutoField(primary_key=True)), ("name", TEXT), ("note", models.TextField(null=True))]
    fields.append(("count", models.IntegerField(db_default=0)))
    state.add_model(ModelState("shop", "Thing", fields, options={}))
    migration = type("Migration", (migrations.Migration,), {"operations": list(operations), **attributes})(
        "0002", "shop"
    )
    return migration_safety.faults_of(migration, state, set(), connection)


def empty(apps, schema_editor) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    "operation",
    [
        migrations.AddField("Thing", "more", models.TextField(null=True)),
        migrations.AddField("Thing", "more", models.TextField(db_default="")),
        migrations.AddField("Thing", "things", models.ManyToManyField("shop.Thing")),
        migrations.AlterField("Thing", "name", models.CharField(max_length=40)),
        migrations.AlterField("Thing", "name", models.CharField(max_length=20, null=True)),
        migrations.AlterField("Thing", "name", models.CharField(max_length=20, help_text="More words.")),
        migrations.AlterField("Thing", "count", models.IntegerField(db_default=1)),
        AddIndexConcurrently("Thing", models.Index(fields=["name"], name="by_name")),
        migrations.AlterModelOptions("Thing", {"ordering": ["name"]}),
        migrations.SeparateDatabaseAndState(state_operations=[migrations.RemoveField("Thing", "name")]),
    ],
)
def test_what_the_running_code_does_not_notice_is_safe(operation):
    assert faults(operation) == []


@pytest.mark.parametrize(
    ("operation", "sentence"),
    [
        (migrations.RemoveField("Thing", "name"), "still reads it"),
        (migrations.DeleteModel("Thing"), "still reads it"),
        (migrations.RenameField("Thing", "name", "title"), "knows the old name"),
        (migrations.RenameModel("Thing", "Item"), "knows the old name"),
        (migrations.AddField("Thing", "more", models.TextField()), "give the field a db_default"),
        (migrations.AddField("Thing", "more", models.TextField(default="")), "give the field a db_default"),
        (migrations.AlterField("Thing", "note", models.TextField()), "may write NULL there"),
        (migrations.AlterField("Thing", "name", models.CharField(max_length=10)), "its type changes"),
        (migrations.AlterField("Thing", "name", models.IntegerField()), "its type changes"),
        (migrations.AlterField("Thing", "name", models.CharField(max_length=20, unique=True)), "is there already"),
        (migrations.AlterField("Thing", "name", models.CharField(max_length=20, db_column="title")), "the column name"),
        (migrations.AlterField("Thing", "count", models.IntegerField()), "leaves it to the database to fill"),
        (migrations.AlterField("Thing", "name", models.CharField(max_length=20, db_index=True)), "nobody can write"),
        (migrations.AddIndex("Thing", models.Index(fields=["name"], name="by_name")), "use AddIndexConcurrently"),
        (migrations.AddConstraint("Thing", models.UniqueConstraint(fields=["name"], name="one")), "what it refuses"),
        (migrations.RunSQL("SELECT 1"), "nobody can tell what it does"),
        (migrations.RunPython(empty), "nobody can tell what it does"),
        (
            migrations.SeparateDatabaseAndState(database_operations=[migrations.RemoveField("Thing", "name")]),
            "still reads it",
        ),
    ],
)
def test_what_the_running_code_may_not_survive_is_told(operation, sentence):
    found = faults(operation)

    assert len(found) == 1
    assert sentence in found[0] and found[0].startswith("shop.0002: ")


def test_whatever_is_done_to_a_table_of_the_same_plan_is_safe():
    new = migrations.CreateModel("Fresh", [("id", models.BigAutoField(primary_key=True))])

    assert faults(new, migrations.AddField("Fresh", "name", models.TextField(default=""))) == []


def test_migration_that_says_why_it_is_safe_is_believed():
    assert faults(migrations.RunPython(empty), safe_for_old_code="It only reads.") == []


@pytest.mark.django_db
def test_migrated_database_has_nothing_pending():
    assert migration_safety.pending(connection) == []
