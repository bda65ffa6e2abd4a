"""A process that is started again whenever it ends, as a service manager does: `python -m tests.supervised COMMAND`."""

import os
import signal
import subprocess
import sys
import time

from tasks.child import die_with_parent
from tests.kit import PYTHON, Kit, Process, wait_until

DELAY_S = 1.0
STARTED = "-- started as pid "


class Supervised:
    """The supervisor of one process of the kit, and that process as it is now."""

    def __init__(self, kit: Kit, name: str, *, env: dict | None = None, **options):
        command = getattr(kit, f"_{name}")(**options)
        self.start_s = 0.0  # how long its first life took to be ready
        self.supervisor: Process = kit.run(name, [PYTHON, "-m", "tests.supervised", *command], env=env)
        self.supervisor.wait_for_line(STARTED)

    @property
    def output(self) -> str:
        """Return what all its lives have printed."""
        return self.supervisor.output

    @property
    def pid(self) -> int:
        """Return the pid of its present life."""
        return int(self.output.rpartition(STARTED)[2].split()[0])

    @property
    def restarts(self) -> int:
        """Return how often it was started again."""
        return self.output.count(STARTED) - 1

    def wait_until_ready(self, *, restarts: int = 0, timeout: float = 40) -> "Supervised":
        """Wait for a worker that was started again so often to take messages."""

        def is_ready() -> bool:
            return self.restarts >= restarts and " ready." in self.output.rpartition(STARTED)[2]

        begun = time.monotonic()
        wait_until(is_ready, timeout, f"a worker is ready; it printed:\n{self.supervisor.tail()}")
        self.start_s = self.start_s or time.monotonic() - begun
        return self

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send its present life a signal; the supervisor starts the next one."""
        os.kill(self.pid, number)

    def stop(self) -> int:
        """Stop it for good and warmly; return the exit code of the supervisor."""
        return self.supervisor.stop()


def supervise(command: list[str]) -> None:
    """Start the command again and again, a second apart, until SIGTERM; that is passed on."""
    stopping = False

    def stop(*_) -> None:
        nonlocal stopping
        stopping = True
        process.terminate()

    while not stopping:
        process = subprocess.Popen(command, preexec_fn=die_with_parent())
        print(f"{STARTED}{process.pid} at {time.strftime('%X')}", flush=True)
        signal.signal(signal.SIGTERM, stop)
        print(f"-- ended with {process.wait()} at {time.strftime('%X')}", flush=True)
        time.sleep(0 if stopping else DELAY_S)


if __name__ == "__main__":
    supervise(sys.argv[1:])
