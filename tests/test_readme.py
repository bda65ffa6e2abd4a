"""What the README shows works as shown."""

import re
import shlex
from pathlib import Path

import pytest

from tasks import registry
from tasks.management.commands.jobs import Command
from tasks.models import Job

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.django_db
def test_example_of_a_job_runs_as_printed(monkeypatch):
    """Both blocks, as somebody would paste them."""
    monkeypatch.setattr(registry, "_kinds", dict(registry._kinds))
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})

    job = Job.objects.get(kind="shop.invoice")
    assert (job.queue, job.max_attempts, job.unique_key, job.arguments) == ("mail", 8, "invoice:42", {"order_id": 42})


def test_commands_are_understood():
    """Each `manage.py jobs` line of the README, as somebody would type it."""
    lines = re.findall(r"^\$ python manage\.py jobs (.*)$", README, re.MULTILINE)

    assert len(lines) >= 5
    for line in lines:
        Command().create_parser("manage.py", "jobs").parse_args(shlex.split(line))


def test_links_lead_somewhere():
    """Every relative link of README and docs names a file that is there."""
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_readme_is_short_and_names_the_two_commands():
    """A page or two that somebody reads."""
    assert len(README.splitlines()) <= 200
    assert "$ make demo" in README and "$ make test" in README


def test_every_make_target_explains_itself():
    """`make help` shows what follows the two hashes."""
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()

    assert sorted(phony) == sorted(re.findall(r"^([a-z-]+):.*## \S", makefile, re.MULTILINE))


def test_every_make_target_state_and_dependency_is_in_the_docs():
    """Nothing that a person can use is a secret."""
    docs = README + "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    packages = re.findall(r'^    "([A-Za-z-]+)', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    missing = [target for target in targets if f"make {target}" not in docs]
    missing += [state for state in Job._meta.get_field("state").choices if state[0] not in docs]
    missing += [package for package in packages if package.lower() not in README.lower()]

    assert missing == []
