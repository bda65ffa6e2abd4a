"""Tell whether the kernel has just killed a process of this service for lack of memory: its control group counts that.

Source: https://docs.kernel.org/admin-guide/cgroup-v2.html, memory.events
"""

import logging
from collections import deque
from pathlib import Path
from time import monotonic

log = logging.getLogger(__name__)

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
EXPLAINS_FOR_S = 10.0  # the pool tells of a death later than the kernel
MOST = 100


def events_file(membership: Path = MEMBERSHIP, cgroups: Path = CGROUPS) -> Path | None:
    """Return where this process's group counts; None without cgroup v2's memory controller, and outside Linux."""
    lines = membership.read_text().splitlines() if membership.exists() else []
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), None)
    file = None if path is None else cgroups / path / "memory.events"
    return file if file and file.exists() else None


class OomKills:
    """The kills that nobody has been told of yet. Look often: a kill explains only a death soon after."""

    def __init__(self, file: Path | None):
        self._file, self._count = file, 0
        self._count = self._read()
        self._seen: deque[float] = deque(maxlen=MOST)

    def look(self) -> None:
        """Note the kills since the last look."""
        count = self._read()
        self._seen.extend([monotonic()] * min(count - self._count, MOST))
        self._count = count

    def explain_one(self) -> bool:
        """Tell whether a death now is probably one of them; each explains one."""
        self.look()
        while self._seen:
            if monotonic() - self._seen.popleft() < EXPLAINS_FOR_S:
                return True
        return False

    def _read(self) -> int:
        """Return how many processes of the group were killed since it was made."""
        if self._file is None:
            return self._count
        try:
            counts = dict(line.split() for line in self._file.read_text().splitlines())
        except OSError as error:
            log.warning("the kernel's count of kills for lack of memory cannot be read (%s)", error)
            self._file = None
            return self._count
        return int(counts.get("oom_kill", 0))
