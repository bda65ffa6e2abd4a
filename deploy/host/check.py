"""Would the current release start with these settings? Asked before they are put in place, and before a restart."""

from pathlib import Path

from . import django
from .layout import Layout
from .shell import answers, say

LIMIT_S = 300


def candidate(layout: Layout, file: Path) -> None:
    """Look at a file that is to become kit.env. Raises: KitError.

    Where no release can run, before the first one or after an upgrade of Debian's Python, there is none to ask.
    """
    current = layout.current_release()
    if current is None or not can_run(layout, current):
        return say("no release can run here yet that could judge the settings")
    settings(layout, current, file)


def can_run(layout: Layout, name: str) -> bool:
    """Tell whether a release's Python still finds what the release needs."""
    try:
        return answers([str(layout.release(name) / ".venv/bin/python"), "-c", "import django"])[0] == 0
    except OSError:
        return False


def settings(layout: Layout, name: str, file: Path) -> None:
    """Let a release look at settings as it does when it starts. Raises: KitError."""
    arguments = ("check", "--deploy", "--fail-level", "WARNING")
    django.ask(layout, name, *arguments, what="The settings are refused", common=file, limit_s=LIMIT_S)
