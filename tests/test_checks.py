"""`manage.py check`: what could never run as declared is refused before anything starts."""

import os
import subprocess
import sys

import pytest
from django.core.checks import run_checks
from django.db import connection

from tasks import registry
from tests.kit import ROOT


@pytest.fixture
def kind(monkeypatch):
    """Register a kind for one test, the only one there is."""
    made = {}
    monkeypatch.setattr(registry, "_kinds", made)

    def register(**options) -> None:
        made["here.kind"] = registry.Kind(name="here.kind", handler=lambda: None, **options)

    return register


def found() -> list[str]:
    """Return the ids of what our checks find."""
    return [message.id for message in run_checks(tags=["jobs"])]


def test_queue_that_no_worker_takes_is_refused(kind):
    """Its jobs would wait for ever."""
    kind(queue="letters")

    (message,) = run_checks(tags=["jobs"])

    assert message.id == "jobs.E001"
    assert message.msg == "here.kind goes to queue 'letters', which no worker takes."
    assert "default, mail" in message.hint


@pytest.mark.parametrize("limits", [{"time_limit_s": 540}, {"soft_time_limit_s": 600}])
def test_soft_limit_that_is_not_below_the_hard_one_is_refused(kind, limits):
    """One limit is the kind's own, the other one the worker's."""
    kind(**limits)

    assert found() == ["jobs.E002"]


def test_hard_limit_that_is_not_below_the_visibility_timeout_is_refused(kind, settings):
    """Redis would hand the message out a second time."""
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 3600}
    kind(time_limit_s=3600)

    assert found() == ["jobs.E003"]


def test_hard_limit_needs_no_visibility_timeout_where_there_is_none(kind, settings):
    """The broker of files has none."""
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = {}
    kind(time_limit_s=3600)

    assert found() == []


@pytest.mark.parametrize("limits", [{}, {"time_limit_s": 31, "soft_time_limit_s": 5}])
def test_long_atomic_kind_is_refused_on_sqlite_only(kind, limits):
    """There is one writer: nobody could sign up while it runs."""
    kind(atomic=True, **limits)

    assert found() == (["jobs.E004"] if connection.vendor == "sqlite" else [])


@pytest.mark.parametrize("options", [{"atomic": True, "time_limit_s": 30, "soft_time_limit_s": 5}, {"atomic": False}])
def test_short_atomic_kind_and_long_other_kind_are_taken(kind, options):
    """The write lock is held for a moment in both."""
    kind(**options)

    assert found() == []


def test_kinds_of_the_kit_and_of_its_tests_are_taken():
    """Everything that is really registered."""
    assert found() == []


@pytest.mark.parametrize("settings_module", ["project.settings", "tests.settings"])
def test_demo_passes_every_check(tmp_path, settings_module):
    """As a newcomer would run it, warnings included."""
    env = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": settings_module}

    checked = subprocess.run(
        [sys.executable, "manage.py", "check", "--fail-level=WARNING"],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout == "System check identified no issues (0 silenced).\n"
