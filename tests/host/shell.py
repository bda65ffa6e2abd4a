"""Run programs of the machine we are on; a failure says which and shows its last lines."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

CACHE = Path(os.environ.get("VDS_CACHE", "/var/cache/vds"))
LAST_LINES = 25
Found = TypeVar("Found")


class CommandFailed(RuntimeError):
    """A program ended with an error."""


def say(words: str) -> None:
    """Print a line of progress with the time."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def run(
    command: Sequence[str | Path], *, timeout_s: float = 60, text: str | None = None, env: dict[str, str] | None = None
) -> str:
    """Run a program and return what it printed.

    Raises: CommandFailed, with the last lines.
    """
    command = [str(part) for part in command]
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            stdin=None if text is not None else subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=env,
        )
    except subprocess.TimeoutExpired as late:
        raise CommandFailed(f"{short(command)} has not ended within {timeout_s:.0f} s.") from late
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()[-LAST_LINES:]
        raise CommandFailed("\n  ".join([f"{short(command)} ended with {done.returncode}:", *lines]))
    return done.stdout


def short(command: Sequence[str]) -> str:
    """Return the beginning of a command, for a message."""
    line = " ".join(command)
    return line if len(line) < 300 else f"{line[:300]} ..."


def log_to(file: Path, command: Sequence[str | Path], *, timeout_s: float, cwd: Path | None = None) -> None:
    """Run a program that prints much into a file.

    Raises: CommandFailed, with the file's last lines.
    """
    with open(file, "ab") as log:
        code = subprocess.run(
            [str(part) for part in command],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            cwd=cwd,
        ).returncode
    if code:
        raise CommandFailed("\n  ".join([f"{command[0]} ended with {code}; the end of {file}:", *tail(file)]))


def tail(file: Path, lines: int = LAST_LINES) -> list[str]:
    """Return the last lines of a log; none if it is not there."""
    return file.read_text(errors="replace").splitlines()[-lines:] if file.exists() else []


def wait_for(what: str, look: Callable[[], Found], *, timeout_s: float, every_s: float = 0.5) -> Found:
    """Ask again and again until the answer is true, and return it.

    Units: the time is that of a machine which does nothing else; it is longer on a crowded one.
    Raises: TimeoutError, which says what did not come.
    """
    begin = time.monotonic()
    while not (found := look()):
        if (waited := time.monotonic() - begin) > timeout_s * crowding():
            raise TimeoutError(f"{what}: not within {waited:.0f} s.")
        time.sleep(every_s)
    return found


def crowding() -> float:
    """Return by how much everything takes longer, since so many processes share this machine; at least 1."""
    return max(1, max(os.getloadavg()) / (os.cpu_count() or 1))


@contextmanager
def making(target: Path) -> Iterator[bool]:
    """Tell whether a thing that is kept has to be made; of two that ask at once, the second waits for the first.

    Locks: a file beside it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.with_name(f".{target.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not target.exists()


def mirror() -> str:
    """Return the address of the Debian archive this machine itself uses.

    Raises: CommandFailed.
    """
    for file in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        for line in file.read_text().splitlines() if file.exists() else []:
            for word in line.split() if line.startswith(("URIs:", "deb ")) else []:
                if word.startswith(("http://", "https://")):
                    return word.rstrip("/")
    raise CommandFailed("No Debian archive stands in /etc/apt: the harness needs a Debian machine.")
