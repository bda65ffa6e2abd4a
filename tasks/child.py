"""One process that serve looks after."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

PR_SET_PDEATHSIG = 1
FIRST_DELAY_S, LONGEST_DELAY_S, SETTLED_AFTER_S = 1.0, 10.0, 60.0


def die_with_parent(signal_number: int = signal.SIGTERM) -> Callable[[], None]:
    """Return a preexec_fn: the child gets the signal when the thread that started it ends, however it ends.

    Call it from the main thread of a process that has no other. Does nothing where there is no prctl (macOS).
    Source: prctl(2), PR_SET_PDEATHSIG
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl, parent = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal_number)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return prepare


@dataclass
class Child:
    """One process of the set: how to start it, and how it is doing. It leads a session, so Ctrl-C does not reach it."""

    name: str
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)  # beside the environment of serve itself
    takes_lines: bool = False  # started by the first typed line, ends with the last
    popen: subprocess.Popen | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    delay_s: float = FIRST_DELAY_S
    unfinished: bytes = b""

    def start(self, folder: str) -> None:
        """Start the process."""
        self.started_at = time.monotonic()
        self.popen = subprocess.Popen(
            self.command,
            cwd=folder,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | self.env,
            stdin=subprocess.PIPE if self.takes_lines else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
        os.set_blocking(self.popen.stdout.fileno(), False)
        if self.takes_lines:
            os.set_blocking(self.popen.stdin.fileno(), False)

    def has_ended(self) -> bool:
        """Tell whether it ended; what is left of its group goes too, before its pid can be anybody else's."""
        if not os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return False
        self.signal_group(signal.SIGKILL)
        self.popen.wait()
        return True

    def signal_group(self, signal_number: int) -> None:
        """Send a signal to the process and all it started; only while it has not been waited for."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
            os.killpg(self.popen.pid, signal_number)

    def plan_restart(self) -> None:
        """Decide when to start it again: after 1 s, doubling to 10 s; a minute of life begins anew."""
        if time.monotonic() - self.started_at > SETTLED_AFTER_S:
            self.delay_s = FIRST_DELAY_S
        self.start_at = time.monotonic() + self.delay_s
        self.delay_s = min(self.delay_s * 2, LONGEST_DELAY_S)
