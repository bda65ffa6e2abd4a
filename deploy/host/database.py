"""Bring the tables to what a release needs: looked at first, with a dump of before."""

import os
import shutil
from pathlib import Path

from . import django, systemd
from .errors import KitError
from .layout import Layout
from .shell import run, say

KEPT_DUMPS = 3
SPARE_BYTES = 200_000_000
MIGRATE_LIMIT_S = 3_600


def prepare(layout: Layout, name: str) -> dict:
    """Check the release's settings, collect its static files, and return its pending migrations and their faults.

    Raises: KitError.
    """
    say("checking settings, static files and migrations")
    static = layout.release(name) / "static"
    static.mkdir(exist_ok=True)
    own(static, django.OWNER)
    try:
        answer = django.ask_deploy(layout, name, "prepare", what="The release is refused", writes=static)
    finally:
        own(static, "root")
    publish(static, layout.static)
    return answer


def own(folder: Path, user: str) -> None:
    """Give a folder to a user."""
    run(["chown", "--recursive", f"{user}:{user}", str(folder)], f"{folder} was not given to {user}")


def publish(source: Path, target: Path) -> None:
    """Copy a release's static files to where nginx reads those of all releases; each appears whole."""
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        copy = target / file.relative_to(source)
        if (
            copy.exists()
            and copy.stat().st_size == file.stat().st_size
            and copy.stat().st_mtime == file.stat().st_mtime
        ):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        half = copy.with_name(f".{copy.name}.new")
        shutil.copy2(file, half)
        half.rename(copy)


def migrate(layout: Layout, name: str, *, plan: dict, is_first: bool, allow_unsafe: bool) -> None:
    """Apply the pending migrations; unless nothing runs yet, only those that the running code survives.

    Raises: KitError.
    """
    if not plan["migrations"]:
        return
    if plan["faults"] and not is_first:
        for fault in plan["faults"]:
            say(f"    {fault}")
        if not allow_unsafe:
            raise KitError(
                f"A migration may break the code that still runs ({plan['faults'][0]}) "
                "Split it over two releases, or deploy with --allow-unsafe-migration while people are kept out."
            )
    if not is_first:
        dump(layout, name)
    say(f"migrating: {len(plan['migrations'])} migrations, the last one {plan['migrations'][-1]}")
    django.ask(
        layout, name, "migrate", "--no-input", "--skip-checks", what="A migration failed", limit_s=MIGRATE_LIMIT_S
    )


def check_space(layout: Layout) -> None:
    """Refuse a dump that may fill the disk: PostgreSQL and Redis live on it. Raises: KitError."""
    address = django.setting(layout, "owner", "DATABASE_URL")
    ask = ["psql", "-XqAt", "--dbname", address, "--command", "SELECT pg_database_size(current_database())"]
    properties = (*systemd.SANDBOX, "SupplementaryGroups=kit-db")
    told = systemd.step(ask, "The size of the database is not known", user=django.OWNER, properties=properties)
    needed, free = int(told) + SPARE_BYTES, shutil.disk_usage(existing(layout.dumps)).free
    if free < needed:
        raise KitError(
            f"Only {free // 1_000_000} MB are free on the disk, {needed // 1_000_000} are needed for a dump "
            "before the migrations: free some, or take a larger one."
        )


def existing(folder: Path) -> Path:
    """Return the folder, or the nearest above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def dump(layout: Layout, name: str) -> None:
    """Keep what the tables hold before they change. Raises: KitError."""
    check_space(layout)
    say("dumping the database")
    layout.dumps.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole = layout.dumps / f"before-{name}.dump"
    half = whole.with_suffix(".part")
    address = django.setting(layout, "owner", "DATABASE_URL")
    properties = (*systemd.SANDBOX, "SupplementaryGroups=kit-db")
    command = ["pg_dump", "--format=custom", "--lock-wait-timeout=30s", f"--dbname={address}"]
    with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        what = "The database was not dumped"
        systemd.step(command, what, user=django.OWNER, properties=properties, stdout=file, limit_s=MIGRATE_LIMIT_S)
        os.fsync(file.fileno())
    half.rename(whole)
    for old in sorted(layout.dumps.glob("before-*.dump"), key=lambda path: path.stat().st_mtime)[:-KEPT_DUMPS]:
        old.unlink()
