"""Make a release's folder: its code, its environment, compiled; root's own, and complete as soon as it has its name."""

import shutil
from pathlib import Path

from . import systemd, venv
from .errors import KitError
from .layout import Layout, point
from .shell import complete, run, say

NEEDED_BYTES = 500_000_000


def ensure(layout: Layout, name: str, archive: Path | None) -> Path:
    """Return the folder of a release, built from the archive if there is none.

    Raises: KitError.
    """
    folder = layout.release(name)
    if not folder.exists():
        if archive is None:
            raise KitError(f"Release {name} is not built here: give its archive with --from.")
        check_space(layout)
        unpack(layout, name, archive)
    ensure_venv(layout, folder)
    return folder


def check_space(layout: Layout) -> None:
    """Refuse to begin what would fill the disk: PostgreSQL and Redis live on it. Raises: KitError."""
    free = shutil.disk_usage(layout.home).free
    if free < NEEDED_BYTES:
        raise KitError(f"Only {free // 1_000_000} MB are free on the disk, {NEEDED_BYTES // 1_000_000} are needed.")


def unpack(layout: Layout, name: str, archive: Path) -> None:
    """Unpack the archive beside the other releases, without the rights and owners that it may name."""
    say(f"unpacking {name}")
    building = layout.releases / f".building-{name}"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    options = ["--no-same-owner", "--no-same-permissions", "--directory", str(building)]
    run(["tar", "--extract", *options, "--file", str(archive)], f"The archive of {name} cannot be unpacked")
    (building / f".release-{name}").touch()  # the units look for it below `current`
    run(["chown", "--recursive", "root:root", str(building)], "The release was not made root's own")
    run(["chmod", "--recursive", "u=rwX,go=rX", str(building)], "The release was not made readable")
    compile_all(building)
    complete(building, layout.release(name))


def ensure_venv(layout: Layout, folder: Path) -> None:
    """Let the release use the environment that its lock file needs: another one after the host's Python has changed."""
    wanted = venv.ensure(layout, folder / "requirements.txt")
    link = folder / ".venv"
    target = f"../../venvs/{wanted.name}"
    if not link.is_symlink() or str(link.readlink()) != target:
        if link.is_symlink():
            compile_all(folder)
        point(link, target)


def compile_all(folder: Path) -> None:
    """Compile the code: its processes may not write there, and would compile at each start."""
    command = [venv.PYTHON, "-m", "compileall", "-q", "-x", r"/\.venv/|/tests/", str(folder)]
    systemd.step(command, "The code does not compile", folder=folder)
