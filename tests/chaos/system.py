"""What the run starts: relays, workers and beats that are started again, on servers of its own."""

import os
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tasks.management.commands import serve
from tests import services
from tests.chaos.supervised import Supervised

STOP_S = 20.0


@dataclass(frozen=True)
class Kill:
    """A kill -9 of a child, or of a whole group. Units: at in seconds of the monotonic clock, and when it was."""

    at: float
    pid: int
    when: datetime


@dataclass(frozen=True)
class Freeze:
    """A SIGSTOP of a whole group. Units: since and until in seconds of the monotonic clock."""

    group: int
    since: float
    until: float


class System:
    """All processes and servers of a run, and what was done to them."""

    def __init__(self, logs: Path, *, relays: int, workers: int, beats: int):
        self._logs = logs
        self.relays = [self._relay(number) for number in range(relays)]
        self.workers = [self._worker(number) for number in range(workers)]
        self.beats = [self._beat(number) for number in range(beats)]
        self.redis = services.Redis(Path(os.environ["REDIS_DIR"])) if "REDIS_DIR" in os.environ else None
        self.postgresql = (
            services.Postgresql(Path(os.environ["POSTGRESQL_DIR"])) if "POSTGRESQL_DIR" in os.environ else None
        )
        self.kills: list[Kill] = []
        self.freezes: list[Freeze] = []

    @property
    def processes(self) -> list[Supervised]:
        """Return all of them."""
        return [*self.relays, *self.workers, *self.beats]

    def tend(self) -> None:
        """Start again what has ended."""
        for process in self.processes:
            process.tend()

    def note_kill(self, pid: int) -> None:
        """Remember who was killed, for the time its job needs to come back."""
        self.kills.append(Kill(time.monotonic(), pid, datetime.now(UTC)))

    def note_freeze(self, group: int, since: float) -> None:
        """Remember who was frozen until now: its jobs may overlap others' runs of them."""
        self.freezes.append(Freeze(group, since, time.monotonic()))

    def stop(self) -> dict[str, int | None]:
        """Stop everything warmly and return the exit codes."""
        for process in self.processes:
            process.stop()
        return {process.name: process.wait(STOP_S) for process in self.processes}

    def _relay(self, number: int) -> Supervised:
        return self._supervised(f"relay{number}", serve.relay().command, ready="relay started")

    def _worker(self, number: int) -> Supervised:
        return self._supervised(f"worker{number}", [*serve.worker(2).command, "-n", f"w{number}@%h"], ready=" ready.")

    def _beat(self, number: int) -> Supervised:
        return self._supervised(f"beat{number}", [*serve.beat().command, "--pidfile="], ready="beat: Starting")

    def _supervised(self, name: str, command: list[str], *, ready: str) -> Supervised:
        env = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": serve.QUIET_AS_ROOT}
        return Supervised(name, [sys.executable, *command[1:]], env, self._logs / f"{name}.log", ready=ready)
