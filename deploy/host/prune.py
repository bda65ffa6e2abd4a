"""Keep the last releases to go back to, and nothing that no release needs."""

import shutil
from pathlib import Path

from . import systemd
from .layout import NAME, Layout

KEPT = 5
ACTIVATED = ".activated"


def note_activated(layout: Layout, name: str) -> None:
    """Note that a release serves: the newest to go back to."""
    (layout.release(name) / ACTIVATED).touch()


def note_current(layout: Layout) -> None:
    """Note that the current release serves, where a power cut came between its take-over and the note."""
    current = layout.current_release()
    if current and layout.release(current).exists() and current not in activated(layout):
        note_activated(layout, current)


def leave(layout: Layout, name: str, back_to: str) -> None:
    """Note that people went back from a release past all since the other one: they are led there by name alone."""
    names = activated(layout)
    newer = names[: names.index(back_to)] if back_to in names else []
    for left in {name, *newer}:
        (layout.release(left) / ACTIVATED).unlink(missing_ok=True)


def activated(layout: Layout) -> list[str]:
    """Return the releases that have served, the newest first."""
    marks = sorted(layout.releases.glob(f"*/{ACTIVATED}"), key=lambda mark: mark.stat().st_mtime_ns, reverse=True)
    return [mark.parent.name for mark in marks]


def before(layout: Layout, name: str | None) -> str | None:
    """Return the release that served before that one; None when there is none."""
    names = activated(layout)
    return names[names.index(name) + 1] if name in names[:-1] else None


def prune(layout: Layout) -> None:
    """Remove releases beyond the last five, but none that runs or that boot would start; then what only they needed."""
    kept = set(activated(layout)[:KEPT]) | set(systemd.running(layout)) | {layout.current_release()}
    for folder in layout.releases.iterdir():
        if folder.name not in kept:
            shutil.rmtree(folder)
    folders = [layout.release(name) for name in kept if name and NAME.fullmatch(name)]
    folders = [folder for folder in folders if folder.exists()]
    used = {(folder / ".venv").readlink().name for folder in folders}
    for venv in layout.venvs.iterdir():
        if venv.name not in used:
            shutil.rmtree(venv)
    prune_static(layout, folders)


def prune_static(layout: Layout, folders: list[Path]) -> None:
    """Remove static files of releases that are gone."""
    if not layout.static.exists():
        return
    wanted = {file.relative_to(folder / "static") for folder in folders for file in (folder / "static").rglob("*")}
    for file in layout.static.rglob("*"):
        if file.is_file() and file.relative_to(layout.static) not in wanted:
            file.unlink()
