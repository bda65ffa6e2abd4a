"""The parts of serve that need no kit: what children print, and what a person types."""

import os
import signal
import sys

import pytest

from tasks.child import Child
from tasks.management.commands import serve
from tasks.serve import LONGEST_LINE_BYTES, Supervisor
from tests.kit import wait_until

LAST_WORDS = "import os, subprocess, sys; {escape}; print('last words', end='', flush=True); os._exit(3)"
SLEEPER = "import time; time.sleep(60)"
CHATTERER = "while True: print('x' * 1000, flush=True)"
ESCAPE = "print(subprocess.Popen([sys.executable, '-c', {code!r}], start_new_session=True).pid, flush=True)"


@pytest.fixture
def supervise(tmp_path):
    """Return a function that starts children under a supervisor; end them after the test."""
    started = []

    def start(**codes: str) -> Supervisor:
        children = [Child(name, [sys.executable, "-c", code]) for name, code in codes.items()]
        supervisor = Supervisor(children, str(tmp_path), stop_timeout_s=1)
        supervisor.is_typing = False
        for child in children:
            supervisor._look_after(child)
        started.extend(children)
        return supervisor

    yield start
    for child in started:
        if child.popen:
            child.signal_group(signal.SIGKILL)
            child.popen.wait()


@pytest.fixture
def keyboard(monkeypatch):
    """Give the writing end of a pipe that is standard input."""
    read, write = os.pipe()
    with os.fdopen(read) as stdin, os.fdopen(write, "wb", buffering=0) as typed:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield typed


def look_until_ended(supervisor: Supervisor, child: Child) -> None:
    """Do what the loop of serve does until it has noticed the end of the child."""
    wait_until(lambda: supervisor._look_after(child) or child.popen is None, 10, f"{child.name} ends")


def end_escaped(output: str) -> None:
    """End the process whose pid was printed by the child that it has escaped from."""
    os.kill(int(output.partition("| ")[2].partition("\n")[0]), signal.SIGKILL)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("escaped", [SLEEPER, CHATTERER])
def test_ended_child_whose_pipe_is_still_held_does_not_hold_up_serve(supervise, capsys, escaped):
    """A process that left the group keeps the pipe open, silent or not, while another child has much to say."""
    code = LAST_WORDS.format(escape=ESCAPE.format(code=escaped))
    supervisor = supervise(brief=code, loud=CHATTERER)
    brief, loud = supervisor.children

    wait_until(lambda: loud in [key.data for key, _ in supervisor.selector.select(0)], 10, "the loud child prints")
    look_until_ended(supervisor, brief)

    output = capsys.readouterr().out
    end_escaped(output)
    assert "brief | ended with exit code 3; starts again in 1 s" in output
    assert brief.popen is None and loud.popen is not None


def test_last_words_without_a_line_end_are_printed(supervise, capsys):
    """What an ended child left in its pipe comes before the news of its end."""
    supervisor = supervise(brief=LAST_WORDS.format(escape="pass"))

    look_until_ended(supervisor, supervisor.children[0])

    assert capsys.readouterr().out.splitlines()[:2] == [
        "brief | last words",
        "brief | ended with exit code 3; starts again in 1 s",
    ]


def test_endless_typed_line_is_bounded_and_refused_once(keyboard, capsys):
    """Somebody pipes a file without line ends into serve; the next line works."""
    supervisor = Supervisor([Child("jobs", [], takes_lines=True)], ".", stop_timeout_s=1)
    supervisor._watch_stdin()

    for _ in range(20):
        keyboard.write(b"x" * LONGEST_LINE_BYTES)
        supervisor._read_ready()
        assert len(supervisor.typed) <= LONGEST_LINE_BYTES
    keyboard.write(b"x\njobs:jobs.prune\n")
    supervisor._read_ready()

    assert supervisor.lines == [b"jobs:jobs.prune\n"]
    assert capsys.readouterr().out.count("a typed line was not taken") == 1


@pytest.mark.parametrize(("stop_timeout_s", "drain_s"), [(30, "25"), (8.5, "3"), (5, "1"), (1, "1"), (90_000, "600")])
def test_worker_gives_back_what_does_not_fit_before_serve_kills_it(stop_timeout_s, drain_s):
    """Five seconds before; a shorter bound of the site's own stays."""
    assert serve.worker(1, stop_timeout_s=stop_timeout_s).env["JOBS_DRAIN_S"] == drain_s
