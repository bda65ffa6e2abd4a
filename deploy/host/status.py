"""kit status and kit logs: how the host does, in words."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta

from . import audit, django, prune, systemd
from .errors import KitError
from .layout import ROLES, Layout
from .shell import say

SHOWN = ("ActiveState", "SubState", "StatusText", "NRestarts", "MemoryCurrent")
AUDIT_LINES = 5
LOG_LINES = "100"
# Of the last good one: backups come each night, drills each week.
UNITS = {"backup": "backup", "offsite": "backup-offsite", "drill": "drill"}
OLD_AFTER = {"backup": timedelta(hours=30), "offsite": timedelta(hours=30), "drill": timedelta(days=8)}


def status(layout: Layout) -> None:
    """Print releases, units, queues, signs of life, and what was done last."""
    current = layout.current_release()
    say(f"release      {current or 'none yet'}; before it {prune.before(layout, current) or 'none'}")
    say(f"maintenance  {'on: visitors get the maintenance page' if layout.maintenance.exists() else 'off'}")
    say(f"disk         {shutil.disk_usage(layout.home).free // 1_000_000} MB free")
    for name in OLD_AFTER:
        if line := backup_line(layout, name):
            say(f"{name:12} {line}")
    for name, roles in sorted(systemd.running(layout).items(), key=lambda item: item[0] != current):
        for role in sorted(roles, key=ROLES.index):
            say(f"{role:12} {unit_line(layout.unit(role, name))}; release {name}")
    if current:
        tell_jobs(layout, current)
    for line in audit.last(layout, AUDIT_LINES):
        say(f"audit        {line}")


def backup_line(layout: Layout, name: str) -> str:
    """Return how old the last good backup, copy or drill is; empty for a copy that nobody wants."""
    wanted = layout.config / "secrets/backup_repository"
    if name == "offsite" and not (wanted.exists() and wanted.read_text().strip()):
        return ""
    noted = layout.backups / f"{name}.json"
    if not noted.exists():
        return "none yet"
    age = datetime.now(UTC) - datetime.fromisoformat(json.loads(noted.read_text())["at"])
    hours = f"the last good one is {age / timedelta(hours=1):.0f} h old"
    return hours if age <= OLD_AFTER[name] else f"OLD: {hours}. Look with `journalctl -u kit-{UNITS[name]}`."


def unit_line(unit: str) -> str:
    """Return how a unit does."""
    shown = systemd.show(unit, *SHOWN)
    memory = shown["MemoryCurrent"]
    parts = [
        shown["ActiveState"] if shown["ActiveState"] == "active" else f"{shown['ActiveState']} ({shown['SubState']})"
    ]
    parts += [shown["StatusText"]] if shown["StatusText"] else []
    parts += [f"{int(memory) // 1_000_000} MB"] if memory.isdigit() else []
    parts += [f"restarted {shown['NRestarts']} times"] if shown["NRestarts"] not in ("", "0") else []
    return ", ".join(parts)


def tell_jobs(layout: Layout, current: str) -> None:
    """Print queues and signs of life, or why they cannot be known."""
    try:
        found = django.ask_deploy(layout, current, "status", what="Queues and heartbeats are not known", role="web")
    except KitError as error:
        return say(f"jobs         {error}")
    for queue in found["queues"]:
        oldest = "nothing due" if queue["oldest_s"] is None else f"the oldest due for {queue['oldest_s']:.0f} s"
        counts = ", ".join(f"{queue[name]} {name}" for name in ("waiting", "delayed", "relayed", "running", "dead"))
        say(f"queue        {queue['queue']}: {oldest}; {counts}")
    for line in found["beats"]:
        say(f"beat         {line}")
    for line in found["workers"]:
        say(f"worker       {line}")


def logs(role: str | None, follow: bool) -> None:
    """Show the journal of all processes of the app, or of one role; becomes journalctl."""
    unit = f"kit-{role or '*'}@*.service"
    options = ["--unit", unit, "--lines", LOG_LINES, "--output=short-iso"] + (["--follow"] if follow else [])
    os.execvp("journalctl", ["journalctl", "--no-pager", *options])
