"""Where everything lies on the host, and which release is the current one."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from .errors import KitError

ROLES = ("web", "relay", "beat", "worker", "flower")
NAME = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class Layout:
    """All paths, below a root that is / on a host."""

    root: Path = Path("/")

    @property
    def home(self) -> Path:
        """Return the folder of the releases: root's own, read by the services."""
        return self.root / "srv/kit"

    @property
    def releases(self) -> Path:
        """Return the folder that has a folder for each release, named by its commit."""
        return self.home / "releases"

    @property
    def venvs(self) -> Path:
        """Return the folder of the virtual environments, shared by releases with the same lock file."""
        return self.home / "venvs"

    @property
    def static(self) -> Path:
        """Return what nginx serves: the static files of all kept releases, whose names hold their hash."""
        return self.home / "static"

    @property
    def current(self) -> Path:
        """Return the link to the release that boot starts."""
        return self.home / "current"

    @property
    def maintenance(self) -> Path:
        """Return the file that makes nginx answer with the maintenance page."""
        return self.home / "maintenance"

    @property
    def restoring(self) -> Path:
        """Return the mark of a restore: "begun", then "data" when the data are back."""
        return self.root / "var/lib/kit/restoring"

    @property
    def backups(self) -> Path:
        """Return the folder of what backup, copy and drill note of the last good one."""
        return self.root / "var/lib/kit/backup"

    @property
    def applied(self) -> Path:
        """Return the file that tells which settings the running processes were started with."""
        return self.home / "applied.json"

    @property
    def config(self) -> Path:
        """Return the folder of the settings and secrets."""
        return self.root / "etc/kit"

    @property
    def units(self) -> Path:
        """Return the folder of the unit files."""
        return self.root / "etc/systemd/system"

    @property
    def socket(self) -> Path:
        """Return the socket of the site."""
        return self.root / "run/kit-web.sock"

    @property
    def run(self) -> Path:
        """Return the folder of what a reboot may forget."""
        return self.root / "run/kit"

    @property
    def dumps(self) -> Path:
        """Return the folder of the dumps made before migrations: root's own, so that no link of others lies in it."""
        return self.root / "var/backups/kit-root"

    @property
    def audit_log(self) -> Path:
        """Return the file with a line for each release, rollback and restart."""
        return self.root / "var/log/kit/audit.log"

    def release(self, name: str) -> Path:
        """Return a release's folder. Raises: KitError for what is no name of one."""
        if not NAME.fullmatch(name):
            raise KitError(f"{name!r} is no release: give the first 12 hex digits of its commit.")
        return self.releases / name

    def starting(self, name: str) -> Path:
        """Return the mark that lets a release start that is not the current one yet."""
        return self.run / f"starting-{name}"

    def current_release(self) -> str | None:
        """Return the name of the current release, None before the first."""
        return Path(os.readlink(self.current)).name if self.current.is_symlink() else None

    def roles(self) -> list[str]:
        """Return the roles that run here: those that have settings."""
        return [role for role in ROLES if (self.config / f"{role}.env").exists()]

    def unit(self, role: str, name: str) -> str:
        """Return the unit of a role in a release."""
        return f"kit-{role}@{name}.service"


def point(link: Path, target: str) -> None:
    """Let a link lead elsewhere, in one step: whoever looks sees the old target or the new one."""
    made = link.with_name(f".{link.name}.new")
    made.unlink(missing_ok=True)
    made.symlink_to(target)
    made.rename(link)
