"""Who may import whom: the graph of style is read from the import statements."""

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

ROOT = Path(__file__).resolve().parent.parent

# module: the modules of this repository that it may import; a package's name stands for all in it
FEATURE = {
    "project.signup.views": {"project.signup.forms", "project.signup.services"},
    "project.signup.forms": {"project.accounts.addresses"},
    "project.signup.services": {"project.signup.models", "project.accounts.addresses", "tasks.api"},
    "project.signup.tasks": {
        "project.signup.emails",
        "project.signup.models",
        "project.signup.notify",
        "project.signup.welcome",
        "project.signup.welcome_files",
        "tasks.api",
    },
    "project.accounts.tasks": {"project.accounts.models", "tasks.api"},
    "project.signup.welcome": set(),
    "project.signup.welcome_files": set(),
    "project.signup.notify": {"project.signup.models", "tasks.api"},
    "project.signup.emails": {"project.signup.models", "tasks.api"},
    "project.signup.models": set(),
    "project.billing.admin": {"project.billing.models", "project.billing.services"},
    "project.billing.services": {"project.billing.models", "tasks.api"},
    "project.billing.tasks": {"project.billing.models", "project.billing.provider", "tasks.api"},
    "project.billing.provider": {"project.billing.models", "tasks.api"},
    "project.billing.models": set(),
    "project.ops.tasks": {"tasks.api"},
    "project.ops.views": set(),
    "tasks.api": {
        "tasks.clock",
        "tasks.decorator",
        "tasks.enqueue",
        "tasks.errors",
        "tasks.limits",
        "tasks.retry_after",
        "tasks.turns",
    },
    "tasks.models": {"tasks.states", "tasks.transitions"},
    "tasks.transitions": {"tasks.errors", "tasks.history", "tasks.models", "tasks.states"},  # models: for types only
    "tasks.states": set(),
    "tasks.history": set(),
    "tasks.backoff": set(),
    "tasks.errors": set(),
    "tasks.scrub": set(),
    "tasks.turns": set(),
    "tasks.retry_after": set(),
    "tasks.registry": {"tasks.backoff", "tasks.errors", "tasks.turns"},
}
SPEAKS_CELERY = {
    "project.celery",
    "project.settings",  # kombu's Queue
    "tasks.decorator",
    "tasks.broker",
    "tasks.executor",
    "tasks.endings",
    "tasks.handler_signals",
    "tasks.children",
    "tasks.filesystem",
    "tasks.worker",
    "tasks.consumer",
    "tasks.apps",
}


def modules() -> dict[str, Path]:
    """Return every product module by its dotted name."""
    paths = [path for folder in ("project", "tasks") for path in (ROOT / folder).rglob("*.py")]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
        if "migrations" not in path.parts
    }


def imports(path: Path) -> list[tuple[int, str]]:
    """Return what a file imports, with line numbers; `from a import b` counts as a.b where that is a module."""
    known, found = modules(), []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(node.lineno, name if name in known else node.module) for name in names]
    return found


def offending(path: Path, is_allowed) -> list[str]:
    """Return the lines that import what they may not."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {name}" for line, name in sorted(set(imports(path))) if not is_allowed(name)
    ]


@pytest.mark.parametrize("module", FEATURE)
def test_module_imports_only_what_its_step_needs(module):
    """A feature reaches the job app by one door, and a step knows no later step."""

    def is_allowed(name: str) -> bool:
        return name.partition(".")[0] not in ("project", "tasks") or name in FEATURE[module]

    assert offending(modules()[module], is_allowed) == []


def test_job_app_knows_no_feature():
    """tasks/ can be copied into another project."""
    found = [
        line
        for name, path in modules().items()
        if name.startswith("tasks")
        for line in offending(path, lambda imported: imported.partition(".")[0] != "project")
    ]

    assert found == []


def test_celery_is_imported_only_where_it_is_spoken_to():
    """Everything else works without a broker in mind."""
    found = [
        line
        for name, path in modules().items()
        if name not in SPEAKS_CELERY and name != "project"
        for line in offending(path, lambda imported: imported.partition(".")[0] not in ("celery", "kombu", "billiard"))
    ]

    assert found == []


def test_no_module_is_a_drawer():
    """There is no utils, common, misc or helpers in product code."""
    last = {name.rpartition(".")[2] for name in modules()}

    assert not last & {"utils", "common", "misc", "helpers"}
