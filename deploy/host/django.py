"""Run a release's manage.py, as the user whose work it is and in a sandbox."""

import json
from pathlib import Path

from . import systemd
from .errors import KitError
from .layout import Layout

OWNER = "kit-owner"


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
    folder = layout.release(name)
    properties = [
        *systemd.SANDBOX,
        f"EnvironmentFile={common or layout.config / 'kit.env'}",
        f"EnvironmentFile={layout.config}/{role}.env",
        f"LoadCredential=other_key:{layout.config}/secrets/other_key",
        "SupplementaryGroups=kit-db",
    ]
    properties += [f"ReadWritePaths={writes}"] if writes else []
    env = {
        "RELEASE": name,
        "STATIC_ROOT": str(folder / "static"),
        "SECRET_KEY_FILE": f"/run/credentials/{systemd.step_name()}.service/other_key",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [str(folder / ".venv/bin/python"), "manage.py", *arguments]
    options = {"user": f"kit-{role}", "folder": folder, "properties": tuple(properties), "env": env}
    return systemd.step(command, what, limit_s=limit_s, **options)


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
