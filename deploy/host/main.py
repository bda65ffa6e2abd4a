"""The command line of `kit`: what a person, or Ansible, does on the host."""

import argparse
import os
import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from . import check, django, release, status, takeover
from .errors import KitError
from .layout import ROLES, Layout
from .shell import say

# A module of its own, with an error of its own: its parts run as units without root's rights, too.
BACKUP = import_module(f"{__package__}.backup") if find_spec(f"{__package__}.backup") else None
FAILURES = (KitError, BACKUP.Failure) if BACKUP else (KitError,)


def main(arguments: list[str] | None = None, layout: Layout | None = None) -> int:
    """Run a subcommand and return its exit code; an error is one sentence."""
    options = parser().parse_args(arguments)
    options.layout = layout or Layout()
    try:
        options.run(options)
    except FAILURES as error:
        say(f"kit {options.command}: {error}", sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the subcommands; each sets `run`."""
    whole = argparse.ArgumentParser(prog="kit", description="Look after the kit on this host.")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_releases(commands)
    add_looking(commands)
    if BACKUP:
        BACKUP.add_commands(commands)
    return whole


def add_releases(commands) -> None:
    """Add what changes the code or the processes."""
    releasing = commands.add_parser("release", help="let a release serve, built from an archive if it is not here yet")
    releasing.add_argument("commit", help="its name: the first 12 hex digits of the commit")
    releasing.add_argument("--from", dest="archive", type=Path, help="a tar archive of the commit")
    releasing.add_argument("--allow-unsafe-migration", action="store_true", help="noted in the audit log")
    releasing.set_defaults(run=run_release)
    back = commands.add_parser("rollback", help="let the release before serve again; migrations stay applied")
    back.add_argument("commit", nargs="?", help="another one than the release before")
    back.set_defaults(run=run_rollback)
    again = commands.add_parser("restart", help="restart the current release's processes warmly")
    again.add_argument("role", nargs="*", help=f"only some of {', '.join(ROLES)}")
    again.set_defaults(run=run_restart)


def add_looking(commands) -> None:
    """Add what tells how the host does, and what keeps visitors out."""
    commands.add_parser("status", help="tell how everything does").set_defaults(run=run_status)
    logs = commands.add_parser("logs", help="show the journal of the app's processes")
    logs.add_argument("role", nargs="?", choices=ROLES)
    logs.add_argument("--follow", action="store_true")
    logs.set_defaults(run=run_logs)
    checking = commands.add_parser("check", help="look whether the site would start with other settings")
    checking.add_argument("file", type=Path, help="what is to become /etc/kit/kit.env")
    checking.set_defaults(run=run_check)
    manage = commands.add_parser("manage", help="run the release's manage.py, e.g. kit manage createsuperuser")
    manage.add_argument("arguments", nargs=argparse.REMAINDER)
    manage.set_defaults(run=run_manage)
    commands.add_parser("smoke", help="send a job through the whole chain").set_defaults(run=run_smoke)
    upkeep = commands.add_parser("maintenance", help="show visitors the maintenance page, or the site again")
    upkeep.add_argument("switch", choices=("on", "off"))
    upkeep.set_defaults(run=run_maintenance)


def refuse_others_than_root() -> None:
    """Raises: KitError."""
    if os.geteuid() != 0:
        raise KitError("this looks into the whole host and changes it: run it as root.")


def run_release(options: argparse.Namespace) -> None:
    """Release, and remove the archive, also after a failure: once it is unpacked nothing more is built from it."""
    refuse_others_than_root()
    try:
        release.release(options.layout, options.commit, options.archive, allow_unsafe=options.allow_unsafe_migration)
    finally:
        if options.archive and options.layout.release(options.commit).exists():
            options.archive.unlink(missing_ok=True)


def run_rollback(options: argparse.Namespace) -> None:
    """Go back."""
    refuse_others_than_root()
    release.rollback(options.layout, options.commit)


def run_restart(options: argparse.Namespace) -> None:
    """Restart."""
    refuse_others_than_root()
    release.restart(options.layout, options.role)


def run_status(options: argparse.Namespace) -> None:
    """Tell; to a pager that is closed half way, too."""
    refuse_others_than_root()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    status.status(options.layout)


def run_logs(options: argparse.Namespace) -> None:
    """Become journalctl."""
    status.logs(options.role, options.follow)


def run_check(options: argparse.Namespace) -> None:
    """Look at settings that are not in place yet."""
    refuse_others_than_root()
    check.candidate(options.layout, options.file)


def run_manage(options: argparse.Namespace) -> None:
    """Become manage.py of the current release, as the owner of the tables."""
    refuse_others_than_root()
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    django.become(options.layout, current_release(options.layout), options.arguments, is_terminal=is_terminal)


def current_release(layout: Layout) -> str:
    """Return the current release. Raises: KitError before the first."""
    if current := layout.current_release():
        return current
    raise KitError("Nothing has been released here yet: run make deploy.")


def run_smoke(options: argparse.Namespace) -> None:
    """Test the current release."""
    refuse_others_than_root()
    takeover.smoke(options.layout, current_release(options.layout))


def run_maintenance(options: argparse.Namespace) -> None:
    """Switch the maintenance page."""
    refuse_others_than_root()
    if options.switch == "on":
        options.layout.maintenance.touch(mode=0o644)
    else:
        options.layout.maintenance.unlink(missing_ok=True)
    say(f"maintenance is {options.switch}")
