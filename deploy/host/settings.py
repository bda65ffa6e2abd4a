"""Which settings the running processes were started with, so that a deploy restarts only what has changed."""

import hashlib
import json
import os
import re
from pathlib import Path

from .layout import Layout

CREDENTIAL = re.compile(r"^LoadCredential=\w+:(\S+)", re.MULTILINE)


def fingerprints(layout: Layout, name: str) -> dict[str, str]:
    """Return for each role a hash of all that its process reads at its start and that is no part of the release."""
    return {role: fingerprint(layout, role, name) for role in layout.roles()}


def fingerprint(layout: Layout, role: str, name: str) -> str:
    """Return the hash of a role's unit, settings, secrets and environment."""
    units = [layout.units / f"kit-{role}@.service", *sorted(layout.units.glob(f"kit-{role}@.service.d/*.conf"))]
    texts = [file.read_text() for file in units]
    secrets = [layout.root / path.lstrip("/") for text in texts for path in CREDENTIAL.findall(text)]
    files = [layout.config / "kit.env", layout.config / f"{role}.env", *secrets]
    found = hashlib.sha256(os.readlink(layout.release(name) / ".venv").encode())
    contents = [text.encode() for text in texts] + [file.read_bytes() if file.exists() else b"" for file in files]
    for content in contents:
        found.update(hashlib.sha256(content).digest())
    return found.hexdigest()


def changed(layout: Layout, name: str) -> list[str]:
    """Return the roles whose processes were started with other settings than there are now."""
    known = json.loads(layout.applied.read_text()) if layout.applied.exists() else {}
    return [role for role, found in fingerprints(layout, name).items() if known.get(role) != found]


def note_applied(layout: Layout, found: dict[str, str]) -> None:
    """Note what the processes were started with. For root alone: a short secret could be guessed from its hash."""
    half: Path = layout.applied.with_suffix(".new")
    with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(found, file)
    half.rename(layout.applied)
