"""kit release, rollback and restart: which code serves, and with which settings."""

import shutil
from pathlib import Path

from . import audit, build, check, database, health, prune, settings, systemd
from .errors import KitError
from .guard import alone, interruptible
from .layout import Layout
from .shell import say
from .takeover import smoke, take_over, units

PATIENCE_S = 60  # for the jobs of a worker that restarts; what takes longer is given back without charge
UNCHANGED = "unchanged"


def release(layout: Layout, name: str, archive: Path | None, *, allow_unsafe: bool) -> None:
    """Let a release serve: build it, migrate, and take over; any failure leaves the one before as it was.

    Raises: KitError.
    """
    with alone(layout), interruptible():
        refuse_half_restored(layout)
        clear_up(layout, archive)
        current = layout.current_release()
        if current == name:
            build.ensure(layout, name, archive)
            refresh(layout, name)
            return layout.restoring.unlink(missing_ok=True)
        with audit.noted(layout, "release", current, name, ["unsafe migration allowed"] * allow_unsafe):
            build.ensure(layout, name, archive)
            plan = database.prepare(layout, name)
            database.migrate(layout, name, plan=plan, is_first=current is None, allow_unsafe=allow_unsafe)
            change_to(layout, name, current)
            prune.note_activated(layout, name)
        layout.restoring.unlink(missing_ok=True)
        prune.prune(layout)
        say(f"release {name} serves")


def refuse_half_restored(layout: Layout) -> None:
    """Let nothing work on a database that a restore has not filled yet. Raises: KitError."""
    if layout.restoring.exists() and layout.restoring.read_text().strip() != "data":
        raise KitError(
            "A restore has begun here and not ended, so the database is not whole: run `make restore` again. "
            f"To give it up and begin with an empty site, remove {layout.restoring}."
        )


def rollback(layout: Layout, name: str | None) -> None:
    """Let the release before the current one serve again, or the named one. Migrations stay applied.

    Raises: KitError.
    """
    with alone(layout), interruptible():
        clear_up(layout)
        current = layout.current_release()
        name = name or prune.before(layout, current)
        if name is None or current is None:
            raise KitError("There is no release before the current one here: none to go back to.")
        if name == current:
            return say(UNCHANGED)
        with audit.noted(layout, "rollback", current, name, []):
            build.ensure(layout, name, None)
            change_to(layout, name, current)
            prune.leave(layout, current, name)
        say(f"release {name} serves again; migrations stay applied")


def restart(layout: Layout, roles: list[str]) -> None:
    """Restart processes of the current release warmly, all that run here or those of some roles.

    Raises: KitError.
    """
    with alone(layout), interruptible():
        current = layout.current_release()
        if current is None:
            raise KitError("Nothing has been released here yet: run make deploy.")
        if unknown := set(roles) - set(layout.roles()):
            raise KitError(f"There is no {', '.join(sorted(unknown))} here; there is {', '.join(layout.roles())}.")
        restart_roles(layout, current, roles or layout.roles())


def refresh(layout: Layout, name: str) -> None:
    """Bring the current release's processes up to its settings; say so when there is nothing to do."""
    was_unwanted = stop_unwanted(layout, name)
    stale = settings.changed(layout, name)
    found = systemd.states(units(layout, name))
    down = [role for role in layout.roles() if found[layout.unit(role, name)] != "active"]
    off = set(layout.roles()) - systemd.enabled(layout).get(name, set())
    if off:
        systemd.enable([layout.unit(role, name) for role in off])
    if stale or down:
        restart_roles(layout, name, [role for role in layout.roles() if role in stale or role in down])
    elif not (off or was_unwanted):
        say(UNCHANGED)


def stop_unwanted(layout: Layout, name: str) -> bool:
    """Stop what has no settings any more, as a Flower that is not wanted; tell whether there was any."""
    wanted = set(layout.roles())
    running = systemd.running(layout).get(name, set()) - wanted
    enabled = systemd.enabled(layout).get(name, set()) - wanted
    if running:
        say(f"stopping {', '.join(sorted(running))}, which is not wanted any more")
    systemd.stop([layout.unit(role, name) for role in sorted(running)])
    systemd.disable([layout.unit(role, name) for role in sorted(enabled)])
    return bool(running | enabled)


def restart_roles(layout: Layout, name: str, roles: list[str]) -> None:
    """Restart one process after the other; what people send meanwhile waits in the socket.

    Raises: KitError, before anything is restarted, for settings that none of them would start with.
    """
    with audit.noted(layout, f"restart of {', '.join(roles)}", name, name, []):
        check.settings(layout, name, layout.config / "kit.env")
        found = settings.fingerprints(layout, name)
        for role in roles:
            say(f"restarting {role}")
            if role == "worker":
                systemd.restart_worker(layout.unit(role, name), PATIENCE_S)
            else:
                systemd.restart([layout.unit(role, name)])
        health.wait_for_answer(layout, name)
        if "flower" in roles:
            health.wait_for_flower(layout)
        settings.note_applied(layout, found)
        smoke(layout, name)


def change_to(layout: Layout, name: str, current: str | None) -> None:
    """Let a built release take over, and note the settings it was started with."""
    found = settings.fingerprints(layout, name)
    take_over(layout, name, current)
    settings.note_applied(layout, found)
    stop_strays(layout, name)


def stop_strays(layout: Layout, name: str) -> None:
    """Stop what runs, or would at boot, of any other release: what a change that was killed has left behind."""
    for other, roles in systemd.running(layout).items():
        if other != name:
            for role in roles:
                systemd.begin_stop(layout.unit(role, other))
    for other, roles in systemd.enabled(layout).items():
        if other != name:
            systemd.disable([layout.unit(role, other) for role in sorted(roles)])


def clear_up(layout: Layout, keep: Path | None = None) -> None:
    """Finish or remove what a deploy that was killed has left half done, but the archive that is to be built."""
    systemd.end_left_steps()
    prune.note_current(layout)
    for half in [*layout.releases.glob(".building-*"), *layout.venvs.glob(".building-*")]:
        shutil.rmtree(half)
    for archive in layout.home.glob("*.tar"):  # of a deploy that was cut off, or of one whose release is built
        if archive != keep:
            archive.unlink()
    for half in [*layout.dumps.glob("*.part"), *layout.run.glob("starting-*")]:
        half.unlink()
