"""Run programs of the host."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from .errors import KitError

TOLD_LINES = 15


def run(command: list[str], what: str, *, stdout: int | IO = subprocess.PIPE, limit_s: float = 900) -> str:
    """Run a program and return what it prints.

    Shape: what is the goal, for the sentence when it fails, e.g. `The migrations were not applied`.
    Raises: KitError when it ends with an error or takes too long; its last lines are printed first.
    """
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, timeout=limit_s, env=env()
        )
    except subprocess.TimeoutExpired:
        raise KitError(f"{what}: {command[0]} did not end within {limit_s:g} s.") from None
    except OSError as error:
        raise KitError(f"{what}: {command[0]} cannot be started ({error.strerror}).") from None
    output = (ended.stdout or b"").decode(errors="replace")
    if ended.returncode:
        told = (output + ended.stderr.decode(errors="replace")).strip().splitlines()[-TOLD_LINES:]
        say("\n".join(f"    {line}" for line in told), sys.stderr)
        raise KitError(f"{what}: {told[-1] if told else f'{command[0]} ended with {ended.returncode}'}")
    return output


def complete(half: Path, whole: Path) -> None:
    """Give a finished folder its name: after a power cut all of it is there, or no such name.

    A file system may keep the name long before what is in it. Raises: KitError.
    """
    run(["sync", "--file-system", str(half)], f"{half} was not written to the disk")
    half.rename(whole)
    run(["sync", str(whole.parent)], f"{whole.parent} was not written to the disk")


def answers(command: list[str], limit_s: float = 60) -> tuple[int, str]:
    """Run a program that answers by its exit code, and return that and what it prints."""
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, env=env())
    return ended.returncode, ended.stdout.decode(errors="replace")


def env() -> dict[str, str]:
    """Return the environment for programs: no colours, no pager, one language."""
    return os.environ | {"LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}


def say(text: str, stream: IO | None = None) -> None:
    """Tell the person how far it is; a terminal or a connection that is gone stops nothing that was begun."""
    stream = stream or sys.stdout
    try:
        print(text, file=stream, flush=True)
    except OSError:
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), stream.fileno())
