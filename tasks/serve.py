"""Run several processes as one: restart a single one that ends, pass typed lines on, stop all warmly.

Source: docs/decisions/0004-serve-is-own-code.md
"""

import os
import selectors
import signal
import sys
import time

from tasks.child import Child

TICK_S = 0.2
QUIT_GRACE_S = 3.0
LONGEST_LINE_BYTES = 4096  # PIPE_BUF: a pipe takes it whole or not at all
MOST_LINES = 1000
CHUNK_BYTES = 65536  # what a pipe holds on Linux
DRAIN_CHUNKS = 16


def read_now(pipe) -> bytes | None:
    """Return what can be read at once from a pipe that does not block: None when nothing can yet, empty at its end."""
    try:
        return os.read(pipe.fileno(), CHUNK_BYTES)
    except BlockingIOError:
        return None


class Supervisor:
    """The loop around all children. One thread: preexec_fn is only safe without others."""

    def __init__(self, children: list[Child], folder: str, *, stop_timeout_s: float):
        self.children, self.folder, self.stop_timeout_s = children, folder, stop_timeout_s
        self.width = max(len(child.name) for child in [*children, Child("serve", [])])
        self.selector = selectors.SelectSelector()  # the one kind that takes files, pipes and terminals everywhere
        self.typed: bytes = b""
        self.lines: list[bytes] = []  # typed, not yet taken by the console
        self.is_typing = True
        self.signals = 0
        self.deadline: float | None = None

    def run(self) -> None:
        """Start everything and come back when everything has been stopped."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # in the background of a shell, reading must fail, not stop us
        self._watch_stdin()
        handled = 0
        while self.signals == 0 or any(child.popen for child in self.children):
            self._read_ready()
            self._pass_lines()
            if self.signals > handled:
                handled += 1
                self._stop() if handled == 1 else self._quit()
            self._kill_late()
            for child in self.children:
                self._look_after(child)
        self.say("everything has stopped")

    def say(self, text: str, name: str = "serve") -> None:
        """Print one line with its process name; a closed terminal stops the whole set."""
        try:
            print(f"{name:{self.width}} | {text}", flush=True)
        except OSError:
            self.signals = max(self.signals, 1)
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (kept for the rest of this process)

    def _on_signal(self, number, frame) -> None:
        self.signals += 1

    def _look_after(self, child: Child) -> None:
        if child.popen and child.has_ended():
            self._drain(child)
            code, child.popen = child.popen.returncode, None
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            if self.signals or (child.takes_lines and not self.is_typing):
                return self.say(how, child.name)
            child.plan_restart()
            self.say(f"{how}; starts again in {child.start_at - time.monotonic():.0f} s", child.name)
        elif not child.popen and not self.signals and child.start_at <= time.monotonic() and self._is_needed(child):
            child.start(self.folder)
            self.selector.register(child.popen.stdout, selectors.EVENT_READ, child)

    def _is_needed(self, child: Child) -> bool:
        return bool(self.lines) or (self.is_typing and child.started_at > 0) if child.takes_lines else True

    # -- output --------------------------------------------------------------------------------

    def _read_ready(self) -> None:
        for key, _ in self.selector.select(TICK_S):
            if key.data is None:
                self._read_stdin()
            elif (chunk := read_now(key.fileobj)) is not None:
                self._print(key.data, chunk)
                if not chunk:
                    self.selector.unregister(key.fileobj)

    def _print(self, child: Child, chunk: bytes) -> None:
        """Print the lines that a piece of output completes; an empty piece is the end of the output."""
        *lines, child.unfinished = (child.unfinished + chunk).split(b"\n")
        if child.unfinished and (not chunk or len(child.unfinished) > CHUNK_BYTES):
            lines, child.unfinished = [*lines, child.unfinished], b""
        for line in lines:
            self.say(line.decode(errors="replace").rstrip("\r"), child.name)

    def _drain(self, child: Child) -> None:
        """Print what an ended child left in its pipe, and forget the pipe."""
        if child.popen.stdout in self.selector.get_map():
            self.selector.unregister(child.popen.stdout)
            # Bounded: a process that left the child's group holds the pipe open, and may write for ever.
            for _ in range(DRAIN_CHUNKS):
                if not (chunk := read_now(child.popen.stdout)):
                    break
                self._print(child, chunk)
            self._print(child, b"")
        child.popen.stdout.close()

    # -- typed lines ---------------------------------------------------------------------------

    def _console(self) -> Child | None:
        return next((child for child in self.children if child.takes_lines), None)

    def _watch_stdin(self) -> None:
        if sys.stdin is None or self._console() is None:
            self.is_typing = False
            return
        self.selector.register(sys.stdin.fileno(), selectors.EVENT_READ)

    def _read_stdin(self) -> None:
        try:
            chunk = os.read(sys.stdin.fileno(), LONGEST_LINE_BYTES)
        except OSError:  # the terminal is gone, or we are in its background
            chunk = b""
        *lines, self.typed = (self.typed + chunk).split(b"\n")
        if not chunk:
            self.is_typing = False
            self.selector.unregister(sys.stdin.fileno())
            lines = [*lines, self.typed]
        self.typed = self.typed[:LONGEST_LINE_BYTES]  # enough to know that it is too long
        for line in filter(bytes.strip, lines):
            if len(line) >= LONGEST_LINE_BYTES or len(self.lines) >= MOST_LINES:
                self.say(f"a typed line was not taken: over {LONGEST_LINE_BYTES} bytes, or too many are waiting")
            else:
                self.lines.append(line + b"\n")

    def _pass_lines(self) -> None:
        console = self._console()
        if console is None or console.popen is None or console.popen.stdin.closed:
            return
        try:
            while self.lines:
                os.write(console.popen.stdin.fileno(), self.lines[0])
                self.lines.pop(0)
        except (BlockingIOError, BrokenPipeError):  # busy, or being restarted: the lines wait here
            return
        if not self.is_typing:
            console.popen.stdin.close()

    # -- stopping ------------------------------------------------------------------------------

    def _running(self) -> list[Child]:
        return [child for child in self.children if child.popen]

    def _stop(self) -> None:
        self.say(f"stopping warmly, at most {self.stop_timeout_s:g} s; Ctrl-C again stops at once")
        self.deadline = time.monotonic() + self.stop_timeout_s
        for child in self._running():
            if child.takes_lines:
                child.popen.stdin.close()  # it works off what it was given
            else:
                child.popen.terminate()

    def _quit(self) -> None:
        self.say("stopping at once")
        self.deadline = min(self.deadline, time.monotonic() + QUIT_GRACE_S)
        for child in self._running():
            child.popen.send_signal(signal.SIGQUIT)  # cold: a worker's child gives its job back, without charge

    def _kill_late(self) -> None:
        if self.deadline is None or time.monotonic() < self.deadline:
            return
        self.deadline = None
        for child in self._running():
            self.say("did not stop in time and is killed", child.name)
            child.signal_group(signal.SIGKILL)
