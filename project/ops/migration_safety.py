"""Which migrations would break the code that still runs while they are applied.

A deploy migrates first and starts the new code then, and a rollback leaves the tables as they are. So a migration may
add what the old code does not see, and take away only what it no longer uses. One that is looked at and found fine says
so: `safe_for_old_code = "why"` in its Migration class.
"""

from collections.abc import Callable, Iterator

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

MARK = "safe_for_old_code"


def pending(connection) -> list[migrations.Migration]:
    """Return the migrations that the database lacks, in their order. Raises: DatabaseError."""
    executor = MigrationExecutor(connection)
    return [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]


def faults(plan: list[migrations.Migration], connection) -> list[str]:
    """Return a sentence for each operation that the running code may not survive."""
    loader = MigrationExecutor(connection).loader
    found, made = [], set()
    for migration in plan:
        state = loader.project_state((migration.app_label, migration.name), at_end=False)
        found += faults_of(migration, state, made, connection)
    return found


def faults_of(migration, state: ProjectState, made: set[tuple[str, str]], connection) -> list[str]:
    """Return the faults of one migration; made collects the models that the plan itself has made."""
    found = []
    for operation, before, after in steps(migration, state):
        if isinstance(operation, migrations.CreateModel):
            made.add((migration.app_label, operation.name_lower))
        elif not getattr(migration, MARK, "") and (migration.app_label, model_of(operation)) not in made:
            reason = fault(operation, migration.app_label, before, after, connection)
            found += [f"{migration}: {operation.describe()}: {reason}."] if reason else []
    return found


def steps(migration, state: ProjectState) -> Iterator[tuple[Operation, ProjectState, ProjectState]]:
    """Give each operation that touches the database, with the models before and after it."""
    for operation in migration.operations:
        is_split = isinstance(operation, migrations.SeparateDatabaseAndState)
        inner = state.clone()
        for done in operation.database_operations if is_split else [operation]:
            before = inner.clone()
            done.state_forwards(migration.app_label, inner)
            yield done, before, inner
        operation.state_forwards(migration.app_label, state)


def model_of(operation: Operation) -> str:
    """Return the model that an operation is about, in lower case; empty where it names none."""
    return (getattr(operation, "model_name", "") or getattr(operation, "name", "") or "").lower()


def fault(operation, app_label: str, before: ProjectState, after: ProjectState, connection) -> str:
    """Return why the running code may not survive an operation; empty when it does."""
    rule = next((rule for kind, rule in RULES.items() if isinstance(operation, kind)), None)
    if rule is None or isinstance(rule, str):
        return rule or ""
    return rule(operation, app_label, before, after, connection)


def fault_of_added(operation, app_label, before, after, connection) -> str:
    """A column that must not be empty and that the database cannot fill."""
    field = operation.field
    if field.many_to_many or field.null or field.has_db_default() or field.generated:
        return ""
    return "the running code writes rows without it; give the field a db_default, or null=True"


def fault_of_altered(operation, app_label, before, after, connection) -> str:
    """A column that the running code does not find, or that refuses what it writes."""
    old, new = (field_of(state, app_label, operation) for state in (before, after))
    if old.column != new.column:
        return f"the running code knows the column {old.column}; add a new field and move over"
    if old.has_db_default() and not new.has_db_default() and not new.null:
        return "the running code leaves it to the database to fill; do it a release after the code that fills it"
    if new.db_index and not old.db_index:
        return INDEX
    if old.null and not new.null:
        return "the running code may write NULL there; do it a release after the code that no longer does"
    old_type, new_type = (field.db_type(connection) for field in (old, new))
    if old_type != new_type and not is_wider(old, new):
        return f"its type changes from {old_type} to {new_type}; add a new field and move over"
    return "" if not new.unique or old.unique else "the running code may write what is there already"


def field_of(state: ProjectState, app_label: str, operation) -> models.Field:
    """Return a field as it is in that state, bound to its model."""
    return state.apps.get_model(app_label, operation.model_name)._meta.get_field(operation.name)


def is_wider(old: models.Field, new: models.Field) -> bool:
    """Tell whether a text field only takes more than before."""
    if not isinstance(old, models.CharField) or not isinstance(new, (models.CharField, models.TextField)):
        return False
    return new.max_length is None or (old.max_length is not None and new.max_length >= old.max_length)


INDEX = "nobody can write to the table while it is built; use AddIndexConcurrently, in a migration with atomic = False"
RULES: dict[type[Operation], str | Callable[..., str]] = {
    migrations.RemoveField: "the running code still reads it; remove it a release after the code that no longer does",
    migrations.DeleteModel: "the running code still reads it; delete it a release after the code that no longer does",
    migrations.RenameField: "the running code knows the old name; add a new field and move over",
    migrations.RenameModel: "the running code knows the old name; keep the table's name with db_table",
    migrations.AlterModelTable: "the running code knows the old name",
    AddIndexConcurrently: "",
    migrations.AddIndex: INDEX,
    migrations.AddField: fault_of_added,
    migrations.AlterField: fault_of_altered,
    migrations.AlterUniqueTogether: "the running code may write what is there already",
    migrations.AddConstraint: "the running code may write what it refuses",
    migrations.RunSQL: f"nobody can tell what it does; once you have looked, say {MARK} = 'why' in its class",
    migrations.RunPython: f"nobody can tell what it does; once you have looked, say {MARK} = 'why' in its class",
}
