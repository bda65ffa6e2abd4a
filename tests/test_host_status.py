"""What `kit status` tells of backups."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from deploy.host import status
from deploy.host.layout import Layout

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker


@pytest.fixture
def layout(tmp_path):
    """Give a host with a repository elsewhere."""
    made = Layout(tmp_path)
    made.backups.mkdir(parents=True)
    (made.config / "secrets").mkdir(parents=True)
    (made.config / "secrets/backup_repository").write_text("sftp:me@store.example:/kit\n")
    return made


def note(layout: Layout, name: str, age: timedelta) -> None:
    """Note a good one of some time ago, as the backups do."""
    (layout.backups / f"{name}.json").write_text(json.dumps({"at": (datetime.now(UTC) - age).isoformat()}))


@pytest.mark.parametrize("name", ["backup", "offsite", "drill"])
def test_old_one_is_told(layout, name):
    note(layout, name, timedelta(hours=5))
    assert status.backup_line(layout, name) == "the last good one is 5 h old"

    note(layout, name, timedelta(days=9))
    assert status.backup_line(layout, name).startswith("OLD: the last good one is 216 h old")


def test_none_yet_is_told(layout):
    assert status.backup_line(layout, "backup") == "none yet"


def test_copy_that_nobody_wants_is_not_missed(layout):
    (layout.config / "secrets/backup_repository").write_text("")

    assert status.backup_line(layout, "offsite") == ""
