"""A process that is started again whenever it ends, as systemd does with Restart=always."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from tests.kit import Process

RESTART_S = 1.0


class Supervised:
    """One of the run's processes. Whoever made it calls tend() again and again.

    Shape: ready is what it prints when it has started; own_ends holds the exit codes of ends not caused here.
    """

    def __init__(self, name: str, command: list[str], env: dict[str, str], log: Path, *, ready: str = ""):
        self.name, self.log = name, log
        self._ready, self._log_start = ready, 0
        self._command, self._env = command, env
        self._process: Process | None = None
        self._start_at = 0.0
        self._was_hit = False
        self._is_stopping = False
        self.is_frozen = False
        self.starts = 0
        self.own_ends: list[int] = []
        self.tend()

    def tend(self) -> None:
        """Start it when it does not run and its turn has come; what an ended one left of its group goes first."""
        if self._process is not None and not self._process.is_running:
            self._signal_group(signal.SIGKILL)
            if not self._was_hit:
                self.own_ends.append(self._process.popen.returncode)
            self._process, self._start_at = None, time.monotonic() + RESTART_S
        if self._process is None and not self._is_stopping and time.monotonic() >= self._start_at:
            self._log_start = self.log.stat().st_size if self.log.exists() else 0
            self._process = Process(self.name, self._command, self._env, self.log)
            self._was_hit = self.is_frozen = False
            self.starts += 1

    @property
    def is_up(self) -> bool:
        """Tell whether it runs and is neither frozen nor about to end."""
        return self._process is not None and self._process.is_running and not self.is_frozen and not self._was_hit

    @property
    def is_ready(self) -> bool:
        """Tell whether it is up and has said so since its start."""
        if not self.is_up:
            return False
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return self._ready.encode() in log.read()

    @property
    def pid(self) -> int:
        """Return its pid, which is its group's too."""
        return self._process.pid

    def children(self) -> list[int]:
        """Return the pids of what it has forked."""
        return children_of(self.pid)

    def hit(self, number: int, *, whole_group: bool = False) -> None:
        """Send a signal that ends it."""
        self._was_hit = True
        self._signal_group(number) if whole_group else self._process.popen.send_signal(number)

    def freeze(self) -> None:
        """Stop it and its children where they are."""
        self.is_frozen = True
        self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal_group(signal.SIGCONT)
        self.is_frozen = False

    def stop(self) -> None:
        """Ask it to end, for good."""
        self._is_stopping = True
        if self._process is not None:
            self.hit(signal.SIGTERM)

    def wait(self, timeout: float) -> int | None:
        """Return the exit code of a stopped one, None when there was none to stop; one that does not end is killed."""
        if self._process is None:
            return None
        try:
            self._process.wait(timeout)  # no second signal: in an interpreter that is ending it has no handler
        except subprocess.TimeoutExpired:
            self._signal_group(signal.SIGKILL)
            return self._process.wait(10)
        self._signal_group(signal.SIGKILL)
        return self._process.popen.returncode

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def children_of(pid: int) -> list[int]:
    """Return the pids of a process's children, none when it is gone."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
