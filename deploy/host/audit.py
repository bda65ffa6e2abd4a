"""Who changed what on this host, when, and how it ended: a line each in /var/log/kit/audit.log."""

import contextlib
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from .layout import Layout


@contextlib.contextmanager
def noted(layout: Layout, what: str, before: str | None, after: str | None, overrides: list[str]) -> Iterator[None]:
    """Write the line at the end, whatever the end is."""
    begun = time.monotonic()
    result = "done"
    try:
        yield
    except BaseException as error:
        result = f"failed: {error or type(error).__name__}"
        raise
    finally:
        fields = [datetime.now(UTC).isoformat(timespec="seconds"), who(), f"{what} from {before} to {after}"]
        fields += [result.replace("\n", " "), f"{time.monotonic() - begun:.0f} s", *overrides]
        append(layout, "; ".join(fields))


def who() -> str:
    """Return who asks: as whom, and from where by ssh."""
    user = os.environ.get("SUDO_USER") or os.environ.get("USER") or "root"
    return f"{user} from {os.environ.get('SSH_CONNECTION', 'this host').split()[0]}"


def append(layout: Layout, line: str) -> None:
    """Add a line, on the disk before anybody is told."""
    layout.audit_log.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    with open(os.open(layout.audit_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640), "a") as log:
        log.write(line + "\n")
        log.flush()
        os.fsync(log.fileno())


def last(layout: Layout, count: int) -> list[str]:
    """Return the last lines."""
    return layout.audit_log.read_text().splitlines()[-count:] if layout.audit_log.exists() else []
