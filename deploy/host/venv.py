"""A release's virtual environment: built once for each lock file and Python, shared by the releases that have both."""

import hashlib
import os
import shutil
from pathlib import Path

from . import systemd
from .layout import Layout
from .shell import answers, complete, say

PYTHON = "/usr/bin/python3"
BUILD_LIMIT_S = 1_800


def name_for(requirements: Path) -> str:
    """Return the name of the environment that this lock file needs with the host's Python."""
    _, version = answers([PYTHON, "-c", "import sys, sysconfig; print(sys.version, sysconfig.get_platform())"])
    return hashlib.sha256(requirements.read_bytes() + version.encode()).hexdigest()[:12]


def ensure(layout: Layout, requirements: Path) -> Path:
    """Return the environment, built if there is none; a half-built one never has its name.

    Raises: KitError.
    """
    folder = layout.venvs / name_for(requirements)
    if folder.exists():
        return folder
    say("building the virtual environment, once for this lock file")
    building = layout.venvs / f".building-{folder.name}"
    shutil.rmtree(building, ignore_errors=True)
    layout.venvs.mkdir(parents=True, exist_ok=True)
    python = str(building / "bin/python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    install += ["--require-hashes", "--only-binary", ":all:", "--requirement", str(requirements)]
    what = "The dependencies were not installed"
    systemd.step([PYTHON, "-m", "venv", str(building)], what, limit_s=BUILD_LIMIT_S)
    systemd.step(install, what, limit_s=BUILD_LIMIT_S)
    move(building, folder)
    return folder


def move(building: Path, folder: Path) -> None:
    """Give a finished environment its name, also in the scripts that name the folder they were made in."""
    for script in (building / "bin").iterdir():
        if script.is_file() and not script.is_symlink():
            text = script.read_bytes()
            script.write_bytes(text.replace(os.fsencode(building), os.fsencode(folder)))
    complete(building, folder)
