"""Where welcome pages lie: MEDIA_ROOT/welcome/<user id>.pdf, and what is not ready yet hidden beside it."""

import os
import tempfile
from pathlib import Path

from django.conf import settings

PARTS = ("font.ttf", "page.pdf")  # what the steps make, in their order


class WelcomeMissing(Exception):
    """The page of a person is not there; making it again helps."""


def finished(user_id: int) -> Path:
    """Return where a person's page is once it is whole."""
    return Path(settings.MEDIA_ROOT) / "welcome" / f"{user_id}.pdf"


def part(user_id: int, step: int) -> Path:
    """Return where the step's work is kept. Units: steps count from 1."""
    return finished(user_id).with_name(f".{user_id}.{PARTS[step - 1]}")


def keep(path: Path, content: bytes) -> None:
    """Write a file so that it is there as a whole or not at all, also after a power cut.

    Raises: OSError, e.g. for a full disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", delete=False) as beside:
        try:
            beside.write(content)
            beside.flush()
            os.fsync(beside.fileno())
        except BaseException:
            Path(beside.name).unlink()
            raise
    move(Path(beside.name), path)


def move(source: Path, target: Path) -> None:
    """Rename a file of this folder; who opens the target sees the old one or the new one."""
    os.replace(source, target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def publish(user_id: int) -> None:
    """Let the last part be the person's page."""
    move(part(user_id, len(PARTS)), finished(user_id))


def remove_parts(user_id: int) -> None:
    """Remove what the steps, and runs that were killed, have left."""
    for left in finished(user_id).parent.glob(f".{user_id}.*"):
        left.unlink(missing_ok=True)


def read(user_id: int) -> bytes:
    """Return a person's page.

    Raises: WelcomeMissing.
    """
    try:
        return finished(user_id).read_bytes()
    except FileNotFoundError:
        raise WelcomeMissing(
            f"MEDIA_ROOT has no welcome/{user_id}.pdf. Enqueue signup.welcome_pdf for user {user_id}, then retry this."
        ) from None
