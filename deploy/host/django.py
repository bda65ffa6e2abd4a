"""Run a release's manage.py, as the user whose work it is and in a sandbox."""

import json
import os
from pathlib import Path
from typing import NoReturn

from . import systemd
from .errors import KitError
from .layout import Layout

OWNER = "kit-owner"


def become(layout: Layout, name: str, arguments: list[str], *, is_terminal: bool) -> NoReturn:
    """Become `manage.py ...` for a person at a terminal, or for a program that reads and writes."""
    unit = f"kit-manage-{os.getpid()}"
    properties, env = shut_in(layout, name, "owner", layout.config / "kit.env", unit)
    folder = layout.release(name)
    settings = (*systemd.STEP_PROPERTIES, *properties, f"User={OWNER}", f"WorkingDirectory={folder}")
    options = ["--quiet", "--wait", "--collect", f"--unit={unit}", "--pty" if is_terminal else "--pipe"]
    options += [f"--property={setting}" for setting in settings]
    options += [f"--setenv={name}={value}" for name, value in env.items()]
    python = str(folder / ".venv/bin/python")
    os.execvp("systemd-run", ["systemd-run", *options, python, "manage.py", *arguments])


def ask(
    layout: Layout,
    name: str,
    *arguments: str,
    what: str,
    role: str = "owner",
    writes: Path | None = None,
    common: Path | None = None,
    limit_s: float = 900,
) -> str:
    """Return what `manage.py ...` prints; the user kit-ROLE runs it with the settings in ROLE.env.

    Shape: common is a file to be read in the place of kit.env.

    Raises: KitError.
    """
    properties, env = shut_in(layout, name, role, common or layout.config / "kit.env", systemd.step_name())
    properties += [f"ReadWritePaths={writes}"] if writes else []
    folder = layout.release(name)
    command = [str(folder / ".venv/bin/python"), "manage.py", *arguments]
    options = {"user": f"kit-{role}", "folder": folder, "properties": tuple(properties), "env": env}
    return systemd.step(command, what, limit_s=limit_s, **options)


def shut_in(layout: Layout, name: str, role: str, common: Path, unit: str) -> tuple[list[str], dict[str, str]]:
    """Return the properties and the environment of a unit that runs a release's manage.py as kit-ROLE."""
    properties = [
        *systemd.SANDBOX,
        f"EnvironmentFile={common}",
        f"EnvironmentFile={layout.config}/{role}.env",
        f"LoadCredential=other_key:{layout.config}/secrets/other_key",
        "SupplementaryGroups=kit-db",
    ]
    env = {
        "RELEASE": name,
        "STATIC_ROOT": str(layout.release(name) / "static"),
        "SECRET_KEY_FILE": f"/run/credentials/{unit}.service/other_key",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return properties, env


def ask_deploy(layout: Layout, name: str, *arguments: str, what: str, **options) -> dict:
    """Return the answer of `manage.py deploy ...`. Raises: KitError."""
    told = ask(layout, name, "deploy", *arguments, what=what, **options).strip().splitlines()
    try:
        return json.loads(told[-1])
    except (IndexError, ValueError):
        raise KitError(f"{what}: manage.py deploy {arguments[0]} gave no answer.") from None


def setting(layout: Layout, file: str, name: str) -> str:
    """Return a line's value from one of the settings' files; empty when there is none."""
    for line in (layout.config / f"{file}.env").read_text().splitlines():
        if line.startswith(f"{name}="):
            return line.partition("=")[2].strip('"')
    return ""
