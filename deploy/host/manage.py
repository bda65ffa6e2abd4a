"""`kit manage ...`: manage.py of the release that serves, for a person at a shell, as the web process."""

import argparse
import os
import sys
from pathlib import Path

CURRENT = Path("/srv/kit/current")
CONFIG = Path("/etc/kit")
SANDBOX = (
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "PrivateNetwork=yes",
    "RestrictAddressFamilies=AF_UNIX",
    "CapabilityBoundingSet=",
    "NoNewPrivileges=yes",
)


def command_line(release: Path, words: list[str], *, unit: str, is_terminal: bool) -> list[str]:
    """Return how systemd runs manage.py: as kit-web, with its settings and keys, and nothing else of the host."""
    properties = [
        *SANDBOX,
        f"WorkingDirectory={release}",
        "SupplementaryGroups=kit-db kit-media",
        f"EnvironmentFile={CONFIG}/kit.env",
        f"EnvironmentFile={CONFIG}/web.env",
        f"LoadCredential=secret_key:{CONFIG}/secrets/secret_key",
        f"Environment=SECRET_KEY_FILE=/run/credentials/{unit}.service/secret_key PYTHONDONTWRITEBYTECODE=1",
    ]
    line = ["systemd-run", "--quiet", "--collect", "--wait", f"--unit={unit}", "--uid=kit-web", "--gid=kit-web"]
    line.append("--pty" if is_terminal else "--pipe")
    line += [f"--property={text}" for text in properties]
    return [*line, f"{release}/.venv/bin/python", "manage.py", *words]


def run(arguments: argparse.Namespace) -> None:
    """Become manage.py."""
    if not CURRENT.exists():
        sys.exit("kit manage: nothing has been released here yet: run `make deploy`.")
    unit = f"kit-manage-{os.getpid()}"
    line = command_line(CURRENT.resolve(), arguments.words, unit=unit, is_terminal=sys.stdin.isatty())
    os.execvp(line[0], line)


def add_command(commands) -> None:
    """Declare the subcommand; it sets `run`."""
    parser = commands.add_parser("manage", help="run manage.py of the release that serves, e.g. createsuperuser")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...")
    parser.set_defaults(run=run)
